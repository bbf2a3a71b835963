package lua

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/assemble"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestRunWaitIsOneConnection: the replica stands still, so it has nothing of what is written now,
// and nobody counts it. Control: a WAIT that takes another connection of the same client counts it.
func TestRunWaitIsOneConnection(t *testing.T) {
	const millis = 300
	r := redistest.StartReplicated(t, 1)
	r.Primary().Command(t, "WAIT", "1", "0") // a replica counts when it has spoken for the first time
	rdb := r.Client(t, func(o *redis.Options) { o.PoolFIFO = true })
	ctx := t.Context()
	call := Recount.Call("a", "owner", 1, time.Minute.Milliseconds())
	require.NoError(t, rdb.HSet(ctx, "a", "owner", 1).Err())
	manyConns(ctx, t, rdb) // before a write that the replica has
	reply, n, err := RunWait(ctx, rdb, call, "wait", 1, 0)
	require.NoError(t, err)
	require.Equal(t, Done, reply.Status)
	require.EqualValues(t, 1, n)

	r.Replicas()[0].Pause()
	reply, n, err = RunWait(ctx, rdb, call, "wait", 1, millis)
	require.NoError(t, err)
	require.Equal(t, Done, reply.Status)
	require.Zero(t, n)

	require.NoError(t, RunAll(ctx, rdb, []Call{call})[0].Err)
	pipe := rdb.Pipeline()
	waited := pipe.Do(ctx, "wait", 1, millis)
	_, err = pipe.Exec(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, waited.Val(), "control")
}

// manyConns makes some connections for pipelines, which take turns from then on.
func manyConns(ctx context.Context, t *testing.T, rdb *redis.Client) {
	t.Helper()
	leak.Together(8, func(int) {
		pipe := rdb.Pipeline()
		pipe.BLPop(ctx, 200*time.Millisecond, "nothing") // so that the others need one of their own
		_, err := pipe.Exec(ctx)
		assert.ErrorIs(t, err, redis.Nil)
	})
}

// TestRunWaitErrors: of the script, of the wait, and of a replica.
func TestRunWaitErrors(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	primary, replica := r.Primary().Client(t), r.Replicas()[0].Client(t)
	ctx := t.Context()
	call := Recount.Call("a", "owner", 1, time.Minute.Milliseconds())
	reply, _, err := RunWait(ctx, primary, call, "wait", 0, 0)
	require.NoError(t, err)
	require.Equal(t, Gone, reply.Status)
	_, _, err = RunWait(ctx, replica, call, "wait", 0, 0)
	require.True(t, IsError(err, "READONLY"), "%v", err)
	_, _, err = RunWait(ctx, replica, State.Call("a", "token"), "wait", 0, 0)
	require.ErrorContains(t, err, "WAIT cannot be used with replica instances")
	_, _, err = RunWait(ctx, primary, call, "ping")
	require.ErrorContains(t, err, "PONG")
	require.NoError(t, primary.Set(ctx, "a", "text", 0).Err())
	_, _, err = RunWait(ctx, primary, call, "wait", 0, 0)
	require.True(t, IsError(err, "WRONGTYPE"), "%v", err)
}

// A connection may lead to a server that was the primary a moment ago. As a replica it may not have
// heard of a holder yet, so none of the scripts may tell from what it has that there is none.
func TestReplicaDoesNotSayNotHeld(t *testing.T) {
	rdb := redistest.StartReplicated(t, 1).Replicas()[0].Client(t)
	for script, call := range map[*Script]func(*Script) Call{
		Recount: func(s *Script) Call { return s.Call("name", "owner", 1, 1000) },
		Release: func(s *Script) Call { return s.Call("name", "channel", "owner", "PUBLISH") },
		Renew:   func(s *Script) Call { return s.Call("name", "token", "owner", 1000, 1000) },
		Pass:    func(s *Script) Call { return s.Call("name", "token", "channel", "owner", 1000, 1000, "PUBLISH", 16) },
	} {
		_, err := Run(t.Context(), rdb, call(script))
		require.True(t, IsError(err, "READONLY"), "%s: %v", script.Name(), err)

		// The control.
		text := regexp.MustCompile(`(?m)^if not \w+ and .*HLEN.*$`).ReplaceAllString(script.Text(), "")
		reply, err := Run(t.Context(), rdb, call(New("control", text, script.keys.(int))))
		require.NoError(t, err)
		require.Equal(t, Gone, reply.Status, script.Name())
	}
}

// tick stands in front of a script, whose PEXPIRE then deletes the key. So does Redis before 7.2 where the time to live is over
// when it looks at the clock for the second time: if that is one millisecond, about once in 15 000 times.
const tick = `
local real = redis
local redis = {pcall = real.pcall, call = function(...)
  local command, key = ...
  if command == 'PEXPIRE' then return real.call('DEL', key) end
  return real.call(...)
end}
`

// TestLeaveAtTheLastMoment: a lock whose time is over during the script has ended. Control: else one is left that never ends.
func TestLeaveAtTheLastMoment(t *testing.T) {
	f := newFixture(t)
	remains := func(text string) time.Duration {
		f.acquire("u:h7", "0")
		leave := New("leave, at the last moment", tick+text, 2)
		require.Equal(t, Done, f.run(leave.Call(f.name, f.channel, "u:h7", 1, "PUBLISH")).Status)
		return f.pttl(f.name)
	}
	require.Equal(t, time.Duration(-2), remains(Leave.Text()), "there is no such key")
	const looks = "if call('HDEL', name, ARGV[1]) == 0 then call('DEL', name) end"
	require.Contains(t, Leave.Text(), looks)
	require.Equal(t, time.Duration(-1), remains(strings.Replace(Leave.Text(), looks, "call('HDEL', name, ARGV[1])", 1)))
	require.Equal(t, map[string]string{"u:h07": "1"}, f.hash())
}

// remains is what becomes of a lock that its owner has left for ten seconds when its other commands come after that.
func remains(t *testing.T, leave *Script) (hash map[string]string, ttl time.Duration, statuses []Status) {
	const owner = "u:h7"
	f := newFixture(t)
	f.acquire(owner, "0")
	require.Equal(t, Done, f.run(leave.Call(f.name, f.channel, owner, 10000, "PUBLISH")).Status)
	for _, late := range []Call{
		Acquire.Call(f.name, f.token, owner, 30000, 3600000, "1"),
		FairAcquire.Call(f.name, f.token, "q", "d", f.channel, owner, 30000, 3600000, "1", 0, 1000, "PUBLISH"),
		Renew.Call(f.name, f.token, owner, 30000, 3600000),
		Recount.Call(f.name, owner, 2, 30000),
		Vote.Call(f.name, f.token, owner, 30000, 3600000, 1, "1"),
		Pass.Call(f.name, f.token, f.channel, owner, 30000, 3600000, "PUBLISH", 16),
		Release.Call(f.name, f.channel, owner, "PUBLISH"),
		FairRelease.Call(f.name, f.token, "q", "d", f.channel, owner, "PUBLISH", 1000, 3600000),
	} {
		statuses = append(statuses, f.run(late).Status)
	}
	again := f.run(leave.Call(f.name, f.channel, owner, 20000, "PUBLISH"))
	return f.hash(), f.pttl(f.name), append(statuses, again.Status)
}

// TestLeftBehind: who has left a lock has lost it, whatever of its comes late: nothing lengthens
// the time that is left, or ends it early. That it leaves is all that may be said twice.
func TestLeftBehind(t *testing.T) {
	hash, ttl, statuses := remains(t, Leave)
	require.Equal(t, map[string]string{"u:h07": "1"}, hash)
	require.LessOrEqual(t, ttl, 10*time.Second)
	require.Positive(t, ttl)
	require.Equal(t, []Status{Denied, Denied, Gone, Gone, Denied, Gone, Gone, Gone, Done}, statuses)
}

// The control: under its old name the owner would have it still.
func TestLeftBehindControl(t *testing.T) {
	require.Contains(t, Leave.Text(), "':h0%1'")
	hash, _, statuses := remains(t, New("control", strings.Replace(Leave.Text(), "':h0%1'", "':h%1'", 1), 2))
	require.Empty(t, hash, "released")
	require.Equal(t, []Status{Done, Done, Done, Done, Done, Done}, statuses[:6])
}

// withoutHSet is what stands at the server when a user leaves a lock who has lost the permission for HSET.
func withoutHSet(t *testing.T, leave *Script, rules ...any) map[string]string {
	f := newFixture(t)
	f.acquire("u:h7", "0")
	require.NoError(t, f.rdb.Do(t.Context(), append([]any{"ACL", "SETUSER", "default", "-hset"}, rules...)...).Err())
	_, err := Run(t.Context(), f.rdb, leave.Call(f.name, f.channel, "u:h7", 10000, "PUBLISH"))
	require.Error(t, err)
	require.LessOrEqual(t, f.pttl(f.name), 10*time.Second)
	return f.hash()
}

// TestLeaveIsPermitted: what is not permitted fails while the lock stands.
func TestLeaveIsPermitted(t *testing.T) {
	stands := map[string]string{"u:h7": "1"}
	require.Equal(t, stands, withoutHSet(t, Leave))
	require.Equal(t, stands, withoutHSet(t, Leave, "-hdel"))
	const first = "call('HSET', name, ARGV[1], '1')"
	require.Contains(t, Leave.Text(), first)
	control := New("control", strings.Replace(Leave.Text(), first, "", 1), 2)
	require.Empty(t, withoutHSet(t, control, "-hdel"),
		"the control: without the first look at that the lock would be free")
}

func TestMain(m *testing.M) { redistest.Main(m) }

var all = []*Script{HeadStart, HeadStartBeside, Recount, Release, Renew, LeaveQueue, Pass, State, Taken}

// fixture is one lock on a server of the test's own.
type fixture struct {
	t                    *testing.T
	rdb                  *redis.Client
	name, channel, token string
}

func newFixture(t *testing.T) *fixture {
	return &fixture{t, redistest.Start(t).Client(t), t.Name(), "c:{" + t.Name() + "}", "t:{" + t.Name() + "}"}
}

func (f *fixture) run(c Call) Reply {
	r, err := Run(f.t.Context(), f.rdb, c)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) acquire(owner, again string) Reply {
	return f.run(Acquire.Call(f.name, f.token, owner, 30000, 3600000, again))
}

func (f *fixture) hash() map[string]string { return f.rdb.HGetAll(f.t.Context(), f.name).Val() }

func (f *fixture) pttl(key string) time.Duration { return f.rdb.PTTL(f.t.Context(), key).Val() }

// TestRunAll: each call has its own result, and scripts that the server forgot are sent once more. Without
// a server each has the error, also of those that travel in one script.
func TestRunAll(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	results := RunAll(t.Context(), rdb, []Call{
		Acquire.Call("a", "t", "me", 30000, 3600000, "0"),
		Acquire.Call("a", "t", "you", 30000, 3600000, "0"),
		Renew.Call("b", "t", "me", 30000, 3600000),
	})
	for i, want := range []Status{Done, Denied, Gone} {
		require.NoError(t, results[i].Err)
		require.Equal(t, want, results[i].Reply.Status)
	}
	calls := held(t, rdb, 3)
	srv.Kill()
	results = append(RunAll(t.Context(), rdb, calls), RenewAll(t.Context(), rdb, calls)...)
	require.Len(t, results, 6)
	for _, r := range results {
		require.Error(t, r.Err)
	}
}

// TestCommandIsNotRetried is the contract with go-redis on which "at most once" stands.
func TestCommandIsNotRetried(t *testing.T) {
	require.True(t, (&command{}).NoRetry())
	require.False(t, redis.NewCmd(context.Background()).NoRetry(), "control: go-redis repeats others")
}

// TestIsError: as Redis 7 and later say it, and as earlier ones do.
func TestIsError(t *testing.T) {
	for _, text := range []string{
		"READONLY You can't write against a read only replica.",
		"READONLY You can't write against a read only replica. script: 1f2e, on @user_script:14.",
		"ERR Error running script (call to f_1f2e): @user_script:14: -READONLY You can't write against a read only replica. ",
		"ERR Error running script (call to f_1f2e): @user_script: 14: READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_1f2e): @user_script:15: @user_script: 15: -READONLY You can't write against a read only replica.",
	} {
		require.True(t, IsError(proto(text), "READONLY"), text)
		require.False(t, IsError(proto(text), "OOM"), text)
	}
	require.False(t, IsError(nil, "OOM"))
	require.False(t, IsError(context.Canceled, "OOM"))
}

// proto is an error reply of a server.
type proto string

func (e proto) Error() string { return string(e) }
func (proto) RedisError()     {}

// TestHeaders: each file says what it takes, and takes what it says.
func TestHeaders(t *testing.T) {
	keys, argv := regexp.MustCompile(`KEYS\[(\d+)\]`), regexp.MustCompile(`ARGV\[(\d+)\]`)
	for _, s := range all {
		header, body, ok := strings.Cut(s.Text(), "\nlocal ")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(header, "-- "+s.Name()+": "))
		for _, part := range []string{"-- KEYS", "-- ARGV", "-- Reply", "Atomic"} {
			if s == State && part == "Atomic" {
				part = "Reads only"
			}
			require.Contains(t, header, part, s.Name())
		}
		used := map[string]bool{}
		for _, m := range keys.FindAllStringSubmatch(body, -1) {
			used[m[1]] = true
		}
		require.Len(t, used, s.keys.(int), "%s: keys", s.Name())
		argvLine := header[strings.Index(header, "-- ARGV"):strings.Index(header, "-- Reply")]
		for _, m := range argv.FindAllStringSubmatch(body, -1) {
			require.Regexp(t, `(ARGV|\s)\s+`+m[1]+`\s`, argvLine, "%s: ARGV[%s]", s.Name(), m[1])
		}
	}
}

var update = flag.Bool("update", false, "write testdata/hashes.txt anew")

// TestAssembled compares the scripts as servers get them with a list of hashes: a part is in many, and no change goes unseen.
func TestAssembled(t *testing.T) {
	const list = "testdata/hashes.txt"
	scripts := append([]*Script{Acquire, AcquireBeside, Vote, Force, FairAcquire, FairJoin, FairRelease, FairPoll, FairState, Fence,
		ElectionAnnounce, ElectionLeader, ElectionRelease, ElectionRenew, RenewMany, Many,
		RwRead, RwReadRelease, RwReadRenew, RwWrite, RwWriteRelease, RwLeave, RwState, RwForce, RwForceWriter,
		SemAcquire, SemJoin, SemRelease, SemRenew, SemPoll, SemSet, SemState, SemForce, Inspect, ForceOwner,
		LatchSet, LatchCount, LatchDelete, LatchLook}, all...)
	lines := map[string]string{}
	for _, s := range scripts {
		lines[s.Name()] = fmt.Sprintf("%s %4d lines  %s\n", s.Hash(), strings.Count(s.Text(), "\n"), s.Name())
	}
	sources, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	var now string
	for _, source := range sources {
		name := strings.TrimSuffix(source, ".lua")
		require.Contains(t, lines, name, "a script that is not listed above")
		now += lines[name]
	}
	if *update {
		require.NoError(t, os.WriteFile(list, []byte(now), 0o600))
	}
	known, err := os.ReadFile(list)
	require.NoError(t, err)
	if string(known) != now {
		t.Fatal("Scripts have changed. To see how: go run ./internal/testkit/assembled --base HEAD\n" +
			"If it is as it should be: go test ./lua -run TestAssembled -update")
	}
}

// TestParts: every part is included, and its header names what it reads, sets and replies.
func TestParts(t *testing.T) {
	parts, err := filepath.Glob("part/*.lua")
	require.NoError(t, err)
	scripts, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	texts, included := map[string]string{}, map[string]bool{}
	includes := regexp.MustCompile(`(?m)^[ \t]*-- include (.*)$`)
	for _, path := range append(scripts, parts...) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(text)
		for _, m := range includes.FindAllStringSubmatch(texts[path], -1) {
			included["part/"+m[1]+".lua"] = true
		}
	}
	sets := regexp.MustCompile(`\n-- Sets:  (\w+)`)
	for _, path := range parts {
		require.True(t, included[path], "%s is included nowhere", path)
		body := assemble.Statements(texts[path])
		header := strings.TrimSuffix(texts[path], body)
		require.True(t, strings.HasPrefix(header, "-- "+strings.TrimSuffix(filepath.Base(path), ".lua")+": "), path)
		require.Contains(t, header, "\n-- Reads: ", path)
		if path == "part/queue.lua" || path == "part/permits.lua" || path == "part/timeouts.lua" {
			continue // its functions return to their callers, and what it sets is all of it
		}
		require.Equal(t, strings.Contains(body, "return "), strings.Contains(header, "\n-- Replies "), path)
		if m := sets.FindStringSubmatch(header); m != nil {
			require.Contains(t, body, "local "+m[1]+" ", path)
		}
	}
}
