package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// The keys of the lock in the tables of the scripts, spelled out because the spelling is a promise
// to Redisson.
const (
	scriptLock    = "orders:42"
	scriptToken   = "redisson_lock_token:{orders:42}"
	scriptChannel = "redisson_lock__channel:{orders:42}"
	scriptQueue   = "redisson_lock_queue:{orders:42}"
	scriptEnds    = "redisson_lock_timeout:{orders:42}"
)

// row is one call of a script. Rows are data, so that each can be run again with an edited script:
// a row that does not fail then shows nothing.
type row struct {
	name   string
	script *lua.Script
	// commands, separated by ";"; LOCK, TOKEN, QUEUE, ENDS, CHANNEL, WRITERS and "READS:a" for the
	// lease of a reader stand for keys, "@5" for 5 ms after this
	before string
	args   string // the script's ARGV; "''" is an empty one

	// reply is what is expected: the status and the values behind it. "clock" stands for the
	// server's time in microseconds, "before" for the microsecond before, "error" for any text, "ttl:10000" for at most so many
	// milliseconds and not much less, "''" for an empty text or a 0, "last:16" for the last of so
	// many tokens of which the value before is the first, "!OOM" for that error.
	reply string
	same  bool   // every key is as it was; nothing below is looked at
	hash  string // fields of the lock, sorted: "a=1"
	lease int64  // its time to live as in "ttl:"
	token string // value of the token's key, or "clock", or "run", or "last" for the last one that the reply has
	keep  int64  // its time to live as in "ttl:"
	start string // longest head start
	until int64  // its time to live as in "ttl:"

	fair                  // what is expected of the queue
	readWrite             // what is expected beside a read-write lock
	latched               // what is expected of a latch
	announcement          // what is expected of an announcement
	permitted             // what is expected of a semaphore
	endless      []string // keys without an end, as Redisson leaves them

	cut, paste string // the edit with which the row fails
}

// onAllServers runs a test on every server program there is.
func onAllServers(t *testing.T, test func(t *testing.T, p redistest.Program)) {
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) { test(t, p) })
	}
}

// allRows are the rows of all scripts.
func allRows() []row {
	return slices.Concat(acquireRows, blockRows, startRows, recountRows, releaseRows, leaveRows, renewRows, stateRows,
		passRows, passTokenRows, voteRows, voteTokenRows, voteClockRows, voteLateRows, forceRows,
		fairAcquireRows, fairOwnRows, fairPlaceRows, fairHandRows, fairReleaseRows, fairPollRows, fairMixedRows,
		fairJoinRows, fairStateRows, manyRows, recallRows, rwReadRows, rwWriteRows, rwReleaseRows, rwStayRows, rwOtherRows,
		electionRows, latchRows, semAcquireRows, semJoinRows, semReleaseRows, semRenewRows, semPollRows, semSetRows,
		forceOwnerRows, forceOthersRows, inspectRows, besideRows)
}

// TestScripts runs every row on every server in each way in which scripts are sent, and once
// edited.
func TestScripts(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t)
		for _, r := range allRows() {
			t.Run(r.script.Name()+" "+r.name, func(t *testing.T) {
				ctx := t.Context()
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, r.script, lua.Run), "unknown to the server: by EVAL")
				require.NoError(t, r.check(ctx, rdb, r.script, lua.Run), "known to the server: by EVALSHA")
				require.NoError(t, r.check(ctx, rdb, r.script, inPipeline), "in a pipeline")
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, r.script, inPipeline), "in a pipeline, unknown to the server")
				require.Error(t, r.check(ctx, rdb, edited(t, r), lua.Run), "control: the row does not see the edit")
			})
		}
	})
}

// TestEveryRowCanFail: each names an edit of its script that it sees, and every script has rows.
func TestEveryRowCanFail(t *testing.T) {
	rows := map[*lua.Script]int{}
	for _, r := range allRows() {
		require.NotEmpty(t, r.cut, "%s %s", r.script.Name(), r.name)
		rows[r.script]++
	}
	for _, s := range []*lua.Script{
		lua.Acquire, lua.HeadStart, lua.AcquireBeside, lua.HeadStartBeside,
		lua.Recount, lua.Release, lua.Leave, lua.Renew, lua.Pass, lua.State, lua.Vote, lua.Force,
		lua.FairAcquire, lua.FairJoin, lua.FairRelease, lua.FairPoll, lua.FairState,
		lua.RwRead, lua.RwReadRelease, lua.RwReadRenew, lua.RwWrite, lua.RwWriteRelease, lua.RwLeave, lua.RwState, lua.RwForce, lua.RwForceWriter,
		lua.ElectionAnnounce, lua.ElectionLeader, lua.ElectionRelease, lua.ElectionRenew,
		lua.LatchSet, lua.LatchCount, lua.LatchDelete, lua.LatchLook,
		lua.SemAcquire, lua.SemJoin, lua.SemRelease, lua.SemRenew, lua.SemPoll, lua.SemSet, lua.SemState,
		lua.SemForce, lua.ForceOwner, lua.Inspect,
	} {
		require.Positive(t, rows[s], s.Name())
	}
}

// edited is the row's script with the row's edit.
func edited(t *testing.T, r row) *lua.Script {
	t.Helper()
	require.Equal(t, 1, strings.Count(r.script.Text(), r.cut), "the edit fits one place: %s", r.cut)
	return lua.New(r.script.Name(), strings.Replace(r.script.Text(), r.cut, r.paste, 1), len(r.keys()))
}

// inPipeline is lua.Run by way of lua.RunAll.
func inPipeline(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error) {
	results := lua.RunAll(ctx, rdb.(*redis.Client), []lua.Call{c})
	return results[0].Reply, results[0].Err
}

type sender func(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error)

// check runs the row on empty keys and tells what is not as it says.
func (r row) check(ctx context.Context, rdb *redis.Client, script *lua.Script, send sender) error {
	start := rdb.Time(ctx).Val().UnixMilli()
	if err := prepareAt(ctx, rdb, r.before, start); err != nil {
		return err
	}
	ears, err := r.hear(ctx, rdb)
	if err != nil {
		return err
	}
	defer ears.close()
	before, err := look(ctx, rdb)
	if err != nil {
		return err
	}
	early := rdb.Time(ctx).Val().UnixMicro()
	reply, err := send(ctx, rdb, r.call(script))
	span := clock{early, rdb.Time(ctx).Val().UnixMicro(), start}
	if err := r.checkReply(reply, err, span); err != nil {
		return err
	}
	after, err := look(ctx, rdb)
	if err != nil {
		return err
	}
	if err := r.checkTold(ctx, rdb, ears, span); err != nil {
		return err
	}
	if r.same {
		return before.unchanged(after)
	}
	if r.token == "last" {
		r.token = reply.Text(1)
	}
	for _, key := range r.endless {
		if after[key].ttl >= 0 {
			return fmt.Errorf("%s has %v to live, and should have no end", key, after[key].ttl)
		}
		delete(after, key) // withTTL need not mind
	}
	return errors.Join(r.checkPermits(ctx, rdb, span), r.checkQueue(ctx, rdb, after, span), r.checkReadWrite(ctx, rdb, after, span), after.withTTL(),
		r.checkSaid(ctx, rdb, after, span), r.checkLatched(ctx, rdb, after),
		r.checkKey("lock", r.hash, span.tills(r.hash, hashText(rdb.HGetAll(ctx, scriptLock).Val())), r.lease, after[scriptLock].ttl, span),
		r.checkKey("token", r.token, rdb.Get(ctx, scriptToken).Val(), r.keep, after[scriptToken].ttl, span),
		r.checkKey("head start", r.start, rdb.Get(ctx, scriptChannel).Val(), r.until, after[scriptChannel].ttl, span))
}

// prepare empties the server and runs the commands.
func prepare(ctx context.Context, rdb *redis.Client, commands string) error {
	return prepareAt(ctx, rdb, commands, rdb.Time(ctx).Val().UnixMilli())
}

// prepareAt is prepare with the moment from which "@" counts.
func prepareAt(ctx context.Context, rdb *redis.Client, commands string, start int64) error {
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	for command := range strings.SplitSeq(commands, ";") {
		var args []any
		for word := range strings.FieldsSeq(command) {
			switch word {
			case "LOCK":
				word = scriptLock
			case "TOKEN":
				word = scriptToken
			case "QUEUE":
				word = scriptQueue
			case "ENDS":
				word = scriptEnds
			case "CHANNEL":
				word = scriptChannel
			case "CALL":
				word = scriptCall
			case "WRITERS":
				word = scriptWriters
			case "SAID":
				word = scriptSaid
			}
			if key, ok := semaphoreKeys[word]; ok {
				word = key
			}
			args = append(args, moment(leaseKey(word), start))
		}
		if len(args) == 0 {
			continue
		}
		if err := rdb.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// call is the row's call of a script, its own or an edited one.
func (r row) call(script *lua.Script) lua.Call {
	args := r.keys()
	for arg := range strings.FieldsSeq(r.args) {
		args = append(args, strings.Trim(arg, "'"))
	}
	return script.Call(args...)
}

// keys are the script's KEYS.
func (r row) keys() []any {
	switch r.script {
	case lua.Acquire, lua.AcquireBeside, lua.Renew, lua.State, lua.Vote:
		return []any{scriptLock, scriptToken}
	case lua.Release, lua.Leave:
		return []any{scriptLock, scriptChannel}
	case lua.Recount:
		return []any{scriptLock}
	case lua.RwRead, lua.RwReadRelease, lua.RwReadRenew, lua.RwWrite, lua.RwWriteRelease, lua.RwLeave, lua.RwState, lua.RwForce:
		return r.readWriteKeys()
	case lua.RwForceWriter:
		return []any{scriptLock, scriptRwChannel, scriptWriters, scriptToken}
	case lua.Inspect:
		return []any{scriptLock, scriptToken, scriptQueue, scriptEnds, scriptSaid, scriptPermits, scriptSemQueue, scriptPlaces, scriptWants,
			scriptWriters, "{" + scriptLock + "}"}
	case lua.ElectionAnnounce, lua.ElectionLeader, lua.ElectionRelease, lua.ElectionRenew, lua.ForceOwner:
		return r.electionKeys()
	case lua.LatchSet, lua.LatchCount, lua.LatchDelete:
		return []any{scriptLock, scriptCall}
	case lua.SemRenew:
		return []any{scriptLock, scriptPermits, scriptToken}
	case lua.SemAcquire, lua.SemJoin, lua.SemRelease, lua.SemPoll, lua.SemSet, lua.SemState, lua.SemForce:
		return []any{scriptLock, scriptPermits, scriptToken, scriptSemQueue, scriptPlaces, scriptWants, scriptSemChannel}
	case lua.LatchLook:
		return []any{scriptLock}
	case lua.Pass, lua.HeadStart, lua.HeadStartBeside, lua.Force:
		return []any{scriptLock, scriptToken, scriptChannel}
	}
	return []any{scriptLock, scriptToken, scriptQueue, scriptEnds, scriptChannel}
}

// clock is the server's time before and after the call in microseconds, and when the row was
// prepared in milliseconds.
type clock struct{ from, to, start int64 }

func (c clock) spans(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && c.from <= n && n <= c.to
}

// near reports whether a time to live is what was set, or less by no more than a busy machine takes
// for a row.
func near(want, got int64) bool { return got <= want && got > want-8000 }

func (r row) checkReply(reply lua.Reply, err error, span clock) error {
	if kind, isError := strings.CutPrefix(r.reply, "!"); isError {
		if !lua.IsError(err, kind) {
			return fmt.Errorf("reply %v, error %w; want the error %s", reply, err, kind)
		}
		return nil
	}
	if err != nil {
		return err
	}
	want := strings.Fields(r.reply)
	if got := strconv.Itoa(int(reply.Status)); got != want[0] {
		return fmt.Errorf("status %s, want %s", got, want[0])
	}
	values := want[1:]
	for i, w := range append(values, "") { // one more, to see that there is none
		got := reply.Text(i)
		if n := reply.Int(i); n != 0 {
			got = strconv.FormatInt(n, 10)
		}
		if tokens, ok := strings.CutPrefix(w, "last:"); ok {
			w = plus(reply.Text(i-1), tokens)
		}
		if left, ok := strings.CutPrefix(w, "ttl:"); ok {
			ms, _ := strconv.ParseInt(left, 10, 64)
			if near(ms, reply.Int(i)) {
				continue
			}
		}
		if !matches(w, got, span) {
			return fmt.Errorf("value %d of the reply is %q, want %q", i, got, w)
		}
	}
	return nil
}

// plus is the last of so many tokens.
func plus(first, tokens string) string {
	n, _ := strconv.ParseInt(first, 10, 64)
	more, _ := strconv.ParseInt(tokens, 10, 64)
	return strconv.FormatInt(n+more-1, 10)
}

// matches compares a value of a reply that is no time to live.
func matches(want, got string, span clock) bool {
	switch want {
	case "clock":
		return span.spans(got)
	case "before":
		n, err := strconv.ParseInt(got, 10, 64)
		return err == nil && span.spans(strconv.FormatInt(n+1, 10))
	case "error":
		return got != ""
	case "''":
		return got == ""
	}
	return got == want
}

// spansRun reports whether text is the last token of a run of two or three.
func (c clock) spansRun(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > c.from && n <= c.to+2
}

func (row) checkKey(what, want, got string, wantTTL int64, ttl time.Duration, span clock) error {
	if got != want && (want != "clock" || !span.spans(got)) && (want != "run" || !span.spansRun(got)) {
		return fmt.Errorf("%s: %q, want %q", what, got, want)
	}
	if want != "" && !near(wantTTL, ttl.Milliseconds()) {
		return fmt.Errorf("%s: time to live %v, want %d ms", what, ttl, wantTTL)
	}
	return nil
}

func hashText(hash map[string]string) string {
	var fields []string
	for f, v := range hash {
		fields = append(fields, f+"="+v)
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}
