package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// together sends calls as those are sent that travel together. It returns the scripts that were sent, too.
func together(ctx context.Context, rdb *redis.Client, calls ...lua.Call) (results []lua.Result, sent []string) {
	pipelined := func(cmds []redis.Cmder) {
		for _, cmd := range cmds {
			sent = append(sent, cmd.Args()[1].(string))
		}
		_, _ = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.BatchProcess(ctx, cmds...)
		})
	}
	all := redistest.Gather(rdb, len(calls), func(cmds []redis.Cmder) { (&lua.Packer{Few: 2}).Send(cmds, pipelined) })
	results = make([]lua.Result, len(calls))
	var g sync.WaitGroup
	for i, c := range calls {
		g.Go(func() { results[i].Reply, results[i].Err = lua.Run(ctx, all, c) })
	}
	g.Wait()
	return results, sent
}

// endless is a moment that no server's clock has reached.
const endless = "9007199254740990"

// take and give are calls of the scripts that are packed.
func take(name, owner, until string) lua.Call {
	return lua.Acquire.Call(name, "redisson_lock_token:{"+name+"}", owner, "30000", "3600000", "0", "1", until)
}

func give(name, owner string) lua.Call {
	return lua.Release.Call(name, "redisson_lock__channel:{"+name+"}", owner, "PUBLISH")
}

// inParcel sends a call between two that change nothing, in the script given, if there is one, in place of the library's.
func inParcel(t *testing.T, edited *lua.Script) sender {
	return func(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error) {
		client, script := rdb.(*redis.Client), lua.Many
		if edited != nil {
			client, script = redis.NewClient(client.Options()), edited
			defer client.Close()
			client.AddHook(inPlaceOf(lua.Many, edited))
		}
		results, sent := together(ctx, client, take("late", "a", "0"), c, give("free", "a"))
		require.Contains(t, []string{lua.Many.Hash(), script.Text(), lua.Many.Text()}, sent[len(sent)-1])
		for i, want := range map[int]lua.Status{0: lua.Late, 2: lua.Gone} {
			if r := results[i]; r.Err != nil || r.Reply.Status != want {
				return lua.Reply{}, fmt.Errorf("its companion got %v, %w", r.Reply, r.Err)
			}
		}
		return results[1].Reply, results[1].Err
	}
}

// packedRows are the rows of the scripts that are packed, as clients call these.
func packedRows() (rows []row) {
	shared := of(sharedRows, lua.Acquire, lua.Release)
	for _, r := range slices.Concat(shared, acquireRows, blockRows, recallRows, releaseRows) {
		if r.script == lua.Acquire {
			if strings.Contains(r.args, "again=1") {
				continue // travels alone
			}
			for _, arg := range []string{"block=1", "until=" + endless} {
				if name, _, _ := strings.Cut(arg, "="); !strings.Contains(r.args, name) {
					r.args += " " + arg
				}
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// inMany is the script for many with the row's edit in what it does for one.
func inMany(t *testing.T, r row) *lua.Script {
	text := lua.Many.Text()
	from, to := strings.Index(text, "local function acquire("), strings.Index(text, "local function release(")
	if r.script == lua.Release {
		from, to = to, len(text)
	}
	part := text[from:to]
	cut, paste := strings.ReplaceAll(r.cut, "\n", "\n  "), strings.ReplaceAll(r.paste, "\n", "\n  ")
	if !strings.Contains(part, cut) { // in what all share
		from, part = 0, text[:from]
	}
	require.Equal(t, 1, strings.Count(part, cut), "the edit fits one place: %s", r.cut)
	return lua.New("edited", text[:from]+strings.Replace(part, cut, paste, 1)+text[from+len(part):], 0)
}

// TestScriptsForManyLocks: the script for many locks does to each as acquire and release do: their rows hold, or fail edited.
func TestScriptsForManyLocks(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t)
		for _, r := range packedRows() {
			t.Run(r.script.Name()+" "+r.name, func(t *testing.T) {
				ctx := t.Context()
				require.NoError(t, r.check(ctx, rdb, r.script, lua.Run), "alone")
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, r.script, inParcel(t, nil)), "unknown to the server: by EVAL")
				require.NoError(t, r.check(ctx, rdb, r.script, inParcel(t, nil)), "known to the server: by EVALSHA")
				require.Error(t, r.check(ctx, rdb, r.script, inParcel(t, inMany(t, r))), "control: the row does not see the edit")
			})
		}
	})
}

// TestManyOutOfMemory: in any order releases go through, and acquisitions do not and name the holder; as each alone.
func TestManyOutOfMemory(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		calls := []lua.Call{
			give("mine", "a"), take("free", "a", endless), take("theirs", "a", endless), give("mine too", "a"),
			take("free too", "a", endless), give("theirs", "a"),
		}
		want := map[int]lua.Status{0: lua.Done, 2: lua.Denied, 3: lua.Done, 5: lua.Gone}
		send := func(rdb *redis.Client) (results []lua.Result) {
			for name, owner := range map[string]string{"mine": "a", "mine too": "a", "theirs": "b"} {
				require.NoError(t, rdb.HSet(ctx, name, owner, 1).Err())
				require.NoError(t, rdb.PExpire(ctx, name, time.Minute).Err())
			}
			defer full(ctx, t, rdb)()
			results, sent := together(ctx, rdb, calls...)
			require.Contains(t, sent, lua.Many.Hash())
			return results
		}
		for range 2 {
			for i, r := range send(rdb) {
				if status, ok := want[i]; ok {
					require.NoError(t, r.Err, i)
					require.Equal(t, status, r.Reply.Status, i)
				} else {
					require.True(t, lua.IsError(r.Err, "OOM"), "%d: %v", i, r.Err)
				}
			}
			require.Zero(t, rdb.Exists(ctx, "mine", "mine too", "free", "free too").Val())
		}

		// Control: behind a write, as a release is, Redis would let the acquisitions through.
		text := strings.Replace(lua.Many.Text(), "for i = 1, locks do", "call('DEL', 'mine') for i = 1, locks do", 1)
		require.NotEqual(t, lua.Many.Text(), text)
		client := redis.NewClient(rdb.Options())
		defer client.Close()
		client.AddHook(inPlaceOf(lua.Many, lua.New("edited", text, 0)))
		require.NoError(t, send(client)[1].Err)
	})
}

// manyOnAReplica: every call that would write is refused, in a way that a caller can tell.
func manyOnAReplica(t *testing.T, pair *redistest.Replicated) {
	primary, replica, ctx := pair.Primary().Client(t), pair.Replicas()[0].Client(t), t.Context()
	require.NoError(t, primary.HSet(ctx, "mine", "a", 1).Err())
	require.NoError(t, primary.HSet(ctx, "theirs", "b", 1).Err())
	pair.AwaitReplicas(ctx, t)
	results, sent := together(ctx, replica, take("free", "a", endless), give("mine", "a"), take("theirs", "a", endless))
	require.Contains(t, sent, lua.Many.Hash())
	require.Equal(t, lua.Acquire.Hash(), sent[2], "sent again, one by one: %v", sent)
	require.True(t, lua.IsError(results[0].Err, "READONLY"), "%v", results[0].Err)
	require.True(t, lua.IsError(results[1].Err, "READONLY"), "%v", results[1].Err)
	require.True(t, lua.IsError(results[2].Err, "READONLY"), "%v: also of a lock that somebody has", results[2].Err)
}

var passRows = table(`
nobody listens
	heldByA | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h | if heard ~= 0 then => if true then
nobody listens, the lease is renewed
	heldByA | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	math.max(call('PTTL', name), tonumber(ARGV[2])) => call('PTTL', name)
a lease shorter than what is left
	heldByA | pass lease=1s | 1 clock last:16 | same TOKEN=last/1h |
	math.max(call('PTTL', name), tonumber(ARGV[2])) => ARGV[2]
without a time to live
	LOCK{a=1} TOKEN=5000 | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	call('PEXPIRE', name, math.max(call('PTTL', name), tonumber(ARGV[2]))) =>
others listen: released
	heldByA LISTEN(all) | pass | 0 1 | same -LOCK TOLD(all:0) | call('DEL', name)\n =>
others listen: announced
	heldByA LISTEN(all) | pass | 0 1 | same -LOCK TOLD(all:0) |
	local sent = redis.pcall(command, to, text) => local sent = 1
others listen, two of them
	heldByA LISTEN(all all) | pass | 0 2 | same -LOCK TOLD(all:0 all:0) | counted[2] or -1 => counted[2] and 1 or -1
by classic channels of a cluster, where others may listen elsewhere: released
	heldByA LISTEN(all) | pass by=publish | 0 -1 | same -LOCK TOLD(all:0) | local heard = -1 => local heard = 0
others listen on another channel
	heldByA LISTEN(d) | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	or 'SHARDNUMSUB', channel) => or 'SHARDNUMSUB', channel .. ':d')
free
	TOKEN=5000/20s LISTEN(all) | pass | -1 | same | if not held then return {-1} end =>
free, nobody listens
	TOKEN=5000/20s | pass | -1 | same | if not held then return {-1} end =>
another's
	heldByB LISTEN(all) | pass | -1 | same | call('HEXISTS', name, ARGV[1]) == 1 => true
another's, nobody listens
	heldByB | pass | -1 | same | call('HEXISTS', name, ARGV[1]) == 1 => true
key of another type
	notALock LISTEN(all) | pass | !WRONGTYPE | same | local held = call => call('DEL', name)\nlocal held = call
`)

// What becomes of the token.
var passTokenRows = table(`
no token known
	LOCK{a=1}/10s | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	if last then => last = last or ''\nif last then
a block of one
	heldByA | pass block=1 | 1 clock last:1 | LOCK{a=1}/30s TOKEN=last/1h | first + block - 1 => first + block
the key has the last of the block
	heldByA | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	call('SET', tokens, last, 'PX', ARGV[3]) => call('SET', tokens, string.format('%.0f', first), 'PX', ARGV[3])
the clock is behind the last token: one
	LOCK{a=1}/10s TOKEN=9000000000000000/20s | pass | 1 9000000000000001 9000000000000001 |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | first, block = n + 1, 1 => first = n + 1
the clock is behind the last token: a greater one
	LOCK{a=1}/10s TOKEN=9000000000000000/20s | pass | 1 9000000000000001 9000000000000001 |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | first, block = n + 1, 1 => first, block = n, 1
greatest token
	LOCK{a=1}/10s TOKEN=9007199254740990/20s | pass | 1 9007199254740991 9007199254740991 |
	LOCK{a=1}/30s TOKEN=9007199254740991/1h | return {1, string.format('%.0f', first) => return {1, tostring(first)
token that has no next one
	LOCK{a=1}/10s TOKEN=9007199254740991/20s | pass | !HOLDFAST | same | n >= 9007199254740991 => n > 9007199254740991
token that is no number
	LOCK{a=1}/10s TOKEN=text/20s | pass | !HOLDFAST | same | if not n or => if not n then n = 0 end\n  if
negative token
	LOCK{a=1}/10s TOKEN=-1/20s | pass | !HOLDFAST | same | local n = not string.find(last, '%D') and => local n =
token that is no number, others listen: that does not keep it from being released
	LOCK{a=1}/10s TOKEN=text/20s LISTEN(all) | pass | 0 1 | same -LOCK TOLD(all:0) |
	if heard ~= 0 then => if false then
token of another type
	LOCK{a=1}/10s TOKEN[x]/20s | pass | !WRONGTYPE | same |
	local last, time = call => call('PEXPIRE', name, 100000)\nlocal last, time = call
`)

// TestPassRepeated: an attempt after a lost answer gives greater tokens than the first, or finds that that released the lock.
func TestPassRepeated(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		require.NoError(t, prepare(ctx, rdb, "heldByA"))
		// a second's worth: the clock does not catch up
		pass := row{script: lua.Pass, args: "pass block=1000000"}
		first, err := lua.Run(ctx, rdb, pass.call(pass.script))
		require.NoError(t, err)
		second, err := lua.Run(ctx, rdb, pass.call(pass.script))
		require.NoError(t, err)
		require.Equal(t, lua.Done, second.Status)
		tokens := second.Pass()
		require.Equal(t, plus(first.Pass().Last, "2"), tokens.First, "the next one")
		require.Equal(t, tokens.First, tokens.Last, "and no block, for the clock is behind")

		redistest.Subscribed(t, rdb, scriptChannel)
		for _, want := range []lua.Status{lua.Denied, lua.Gone} {
			reply, err := lua.Run(ctx, rdb, pass.call(pass.script))
			require.NoError(t, err)
			require.Equal(t, want, reply.Status)
		}
	})
}
