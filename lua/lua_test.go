package lua

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
