package lua

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var all = []*Script{HeadStart, HeadStartBeside, Recount, Release, Renew, Leave, Pass, State}

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
	f.t.Helper()
	r, err := Run(f.t.Context(), f.rdb, c)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) acquire(owner, again string) Reply {
	f.t.Helper()
	return f.run(Acquire.Call(f.name, f.token, owner, 30000, 3600000, again))
}

func (f *fixture) hash() map[string]string { return f.rdb.HGetAll(f.t.Context(), f.name).Val() }

func (f *fixture) pttl(key string) time.Duration { return f.rdb.PTTL(f.t.Context(), key).Val() }

func TestAcquire(t *testing.T) {
	f := newFixture(t)
	first := f.acquire("a", "0")
	require.Equal(t, Done, first.Status)
	require.Len(t, first.Text(0), 16, "microseconds, until the year 2286")
	require.Equal(t, map[string]string{"a": "1"}, f.hash())
	require.InDelta(t, 30*time.Second, f.pttl(f.name), float64(5*time.Second))
	require.InDelta(t, time.Hour, f.pttl(f.token), float64(5*time.Second))

	denied := f.acquire("b", "0")
	require.Equal(t, Denied, denied.Status)
	require.InDelta(t, 30000, denied.Int(0), 5000)

	require.NoError(t, f.rdb.PExpire(t.Context(), f.name, time.Second).Err())
	again := f.acquire("a", "1")
	require.Equal(t, first.Text(0), again.Text(0), "a repeated attempt gets the outcome of the first")
	require.Greater(t, again.Text(2), first.Text(0), "and the time of its own")
	require.InDelta(t, 30*time.Second, f.pttl(f.name), float64(5*time.Second), "with the lease counted anew")
	require.Equal(t, map[string]string{"a": "1"}, f.hash())
	require.Equal(t, Denied, f.acquire("b", "1").Status, "but not another's")

	require.NoError(t, f.rdb.Persist(t.Context(), f.name).Err())
	require.Equal(t, int64(-1), f.acquire("b", "0").Int(0), "no time to live is an answer and not a grant")
}

// TestLate: a request that reaches the server after its time does nothing, whatever it finds there.
func TestLate(t *testing.T) {
	f := newFixture(t)
	now := f.rdb.Time(t.Context()).Val().UnixMicro()
	fair := []any{f.name, f.token, "queue:" + f.name, "deadlines:" + f.name, "channel:" + f.name, "a", 30000, 3600000}
	for name, call := range map[string]func(until int64) Call{
		"acquire": func(until int64) Call {
			return Acquire.Call(f.name, f.token, "a", 30000, 3600000, "0", 1,
				until)
		},
		"acquire again": func(until int64) Call {
			return Acquire.Call(f.name, f.token, "a", 30000, 3600000, "1", 1,
				until)
		},
		"fair": func(until int64) Call {
			return FairAcquire.Call(append(fair, "0", 0, 2000, "PUBLISH",
				until)...)
		},
		"fair place": func(until int64) Call {
			return FairAcquire.Call(append(fair, "1", 15000, 2000, "PUBLISH",
				until)...)
		},
	} {
		for _, until := range []int64{0, 1, 999, now - 1} {
			late := f.run(call(until))
			require.Equal(t, Late, late.Status, name)
			require.GreaterOrEqual(t, late.Text(0), strconv.FormatInt(now, 10), "it tells the server's time")
			require.Zero(t, f.rdb.Exists(t.Context(), f.name, f.token, "queue:"+f.name, "deadlines:"+f.name).Val(),
				name)
		}
		for _, until := range []int64{now + time.Hour.Microseconds(), 99 * now} {
			require.Equal(t, Done, f.run(call(until)).Status, name)
			require.NoError(t, f.rdb.Del(t.Context(), f.name).Err())
		}
		require.NoError(t, f.rdb.Del(t.Context(), f.token).Err())
	}
}

func TestRecount(t *testing.T) {
	f := newFixture(t)
	require.Equal(t, Gone, f.run(Recount.Call(f.name, "a", 2, 30000)).Status)
	require.Empty(t, f.hash(), "it never makes the key")
	f.acquire("a", "0")
	for range 2 { // as often as one likes
		require.Equal(t, Done, f.run(Recount.Call(f.name, "a", 2, 1000)).Status)
		require.Equal(t, map[string]string{"a": "2"}, f.hash())
	}
	require.Greater(t, f.pttl(f.name), 20*time.Second, "never shortens")
	f.run(Recount.Call(f.name, "a", 1, 60000))
	require.Greater(t, f.pttl(f.name), 50*time.Second)
	require.Equal(t, Gone, f.run(Recount.Call(f.name, "b", 2, 1000)).Status)
	require.Equal(t, map[string]string{"a": "1"}, f.hash())
}

func TestRelease(t *testing.T) {
	f := newFixture(t)
	sub := f.rdb.Subscribe(t.Context(), f.channel)
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)

	require.Equal(t, Gone, f.run(Release.Call(f.name, f.channel, "a", "PUBLISH")).Status)
	f.acquire("a", "0")
	require.Equal(t, Gone, f.run(Release.Call(f.name, f.channel, "b", "PUBLISH")).Status)
	require.Equal(t, map[string]string{"a": "1"}, f.hash(), "another's lock is not touched")
	r := f.run(Release.Call(f.name, f.channel, "a", "PUBLISH"))
	require.Equal(t, Done, r.Status)
	require.Empty(t, r.Text(0))
	require.Empty(t, f.hash())
	msg, err := sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0", msg.Payload)

	f.acquire("a", "0")
	r = f.run(Release.Call(f.name, f.channel, "a", "NOSUCHCOMMAND"))
	require.Equal(t, Done, r.Status, "a server without the command is told by PUBLISH")
	_, err = sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
}

func TestRenew(t *testing.T) {
	f := newFixture(t)
	require.Equal(t, Gone, f.run(Renew.Call(f.name, f.token, "a", 60000, 3600000)).Status)
	require.Empty(t, f.hash(), "it never brings the key back")
	f.acquire("a", "0")
	require.Equal(t, Gone, f.run(Renew.Call(f.name, f.token, "b", 60000, 3600000)).Status)
	require.Less(t, f.pttl(f.name), 40*time.Second, "another's lease is not touched")
	require.Equal(t, Done, f.run(Renew.Call(f.name, f.token, "a", 60000, 7200000)).Status)
	require.Greater(t, f.pttl(f.name), 50*time.Second)
	require.Greater(t, f.pttl(f.token), 90*time.Minute)
	require.Equal(t, Done, f.run(Renew.Call(f.name, f.token, "a", 1000, 3600000)).Status)
	require.Greater(t, f.pttl(f.name), 50*time.Second, "a late, shorter one does not shorten")
	require.NoError(t, f.rdb.Persist(t.Context(), f.name).Err())
	f.run(Renew.Call(f.name, f.token, "a", 60000, 3600000))
	require.Positive(t, f.pttl(f.name), "a key without a time to live gets one again")
}

// TestPass: kept while nobody listens, and released as soon as somebody does.
func TestPass(t *testing.T) {
	f := newFixture(t)
	pass := Pass.Call(f.name, f.token, f.channel, "a", 60000, 3600000, "PUBLISH", 16)
	require.Equal(t, Gone, f.run(pass).Status)
	require.Empty(t, f.hash(), "it never brings the key back")
	f.acquire("a", "0")
	kept := f.run(pass)
	require.Equal(t, Done, kept.Status)
	require.Less(t, kept.Text(0), kept.Text(1), "a block of tokens")
	require.Equal(t, kept.Text(1), f.rdb.Get(t.Context(), f.token).Val(), "that nobody else gets")
	require.Equal(t, map[string]string{"a": "1"}, f.hash())
	require.Greater(t, f.pttl(f.name), 50*time.Second)

	sub := f.rdb.Subscribe(t.Context(), f.channel)
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	released := f.run(pass)
	require.Equal(t, Denied, released.Status)
	require.Equal(t, int64(1), released.Int(0))
	require.Empty(t, f.hash())
	msg, err := sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0", msg.Payload)
	require.Equal(t, Gone, f.run(pass).Status)
}

func TestState(t *testing.T) {
	f := newFixture(t)
	free := f.run(State.Call(f.name, f.token))
	require.Equal(t, Denied, free.Status)
	require.Equal(t, "0", free.Text(0))
	token := f.acquire("a", "0").Text(0)
	held := f.run(State.Call(f.name, f.token))
	require.Equal(t, Done, held.Status)
	require.Equal(t, []string{"a", "1", token}, []string{held.Text(0), held.Text(1), held.Text(3)})
	require.InDelta(t, 30000, held.Int(2), 5000)
}

// TestWrongType: no script changes a key that is not a lock's.
func TestWrongType(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.rdb.Set(t.Context(), f.name, "mine", time.Minute).Err())
	for _, c := range []Call{
		Acquire.Call(f.name, f.token, "a", 30000, 3600000, "0"),
		Recount.Call(f.name, "a", 1, 30000),
		Release.Call(f.name, f.channel, "a", "PUBLISH"),
		Renew.Call(f.name, f.token, "a", 30000, 3600000),
		Pass.Call(f.name, f.token, f.channel, "a", 30000, 3600000, "PUBLISH", 16),
		State.Call(f.name, f.token),
	} {
		_, err := Run(t.Context(), f.rdb, c)
		require.True(t, IsError(err, "WRONGTYPE"), "%s: %v", c.script.Name(), err)
		require.False(t, IsError(err, "OOM"))
	}
	require.Equal(t, "mine", f.rdb.Get(t.Context(), f.name).Val())
}

// TestRunAll: each call has its own result, and scripts that the server forgot are sent once more.
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
	srv.Kill()
	for _, r := range RunAll(t.Context(), rdb, []Call{State.Call("a", "t")}) {
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

// FuzzParse: whatever a server or a proxy replies, there is an error or a reply and never a panic.
func FuzzParse(f *testing.F) {
	f.Add(int64(1), "token", 1)
	f.Fuzz(func(t *testing.T, n int64, s string, shape int) {
		for _, v := range []any{nil, n, s, []any{}, []any{s}, []any{n}, []any{n, s}, []any{n, nil, n},
			map[any]any{s: n}} {
			r, err := parse(v, nil)
			if err != nil {
				continue
			}
			_, _ = r.Int(shape&3), r.Text(shape&3)
		}
	})
}
