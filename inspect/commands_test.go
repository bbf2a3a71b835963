package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// sent notes commands on their way.
type sent struct {
	mu       sync.Mutex // guards the rest
	commands [][]string
	trips    int
}

func (s *sent) note(send func() error, cmds ...redis.Cmder) error {
	s.mu.Lock()
	s.trips++
	for _, cmd := range cmds {
		var words []string
		for _, arg := range cmd.Args() {
			words = append(words, fmt.Sprint(arg))
		}
		s.commands = append(s.commands, words)
	}
	s.mu.Unlock()
	return send()
}

// TestCommands: a list takes steps of a bounded size, one script for each lock, few round trips, and
// nothing that writes or goes through all keys at once.
func TestCommands(t *testing.T) {
	const others, locks, step = 20_000, 1_000, 1000
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), context.Background()
	const fill = `for i = 1, ARGV[1] do redis.call('SET', 'other:' .. i, 1) end
		for i = 1, ARGV[2] do
			redis.call('HSET', 'lock:' .. i, ARGV[3], 1) redis.call('PEXPIRE', 'lock:' .. i, 600000)
			redis.call('SET', 'redisson_lock_token:{lock:' .. i .. '}', 5000, 'PX', 600000)
		end return 1`
	require.NoError(t, rdb.Eval(ctx, fill, nil, others, locks, ours).Err())
	size := int(rdb.DBSize(ctx).Val())
	hook := &sent{}
	rdb.AddHook(redistest.Around(hook.note))
	srv.ResetStats(t)

	require.Len(t, list(t, newInspector(t, rdb, nil), inspect.Query{}), locks)
	counts := make(map[string]int)
	for _, words := range hook.commands {
		counts[words[0]]++
		if words[0] == "scan" {
			at := slices.Index(words, "count")
			require.Equal(t, strconv.Itoa(step), words[at+1])
		}
	}
	scripts := counts["evalsha_ro"] + counts["eval_ro"] + counts["evalsha"] + counts["eval"]
	require.LessOrEqual(t, counts["scan"], 2*size/step+10)
	require.LessOrEqual(t, scripts, locks+300, "one each, and those that the server does not know at first")
	require.LessOrEqual(t, hook.trips, counts["scan"]+3*locks/100+10)
	for command := range srv.CommandCalls(t) {
		require.Contains(t, []string{
			"scan", "evalsha_ro", "eval_ro", "evalsha", "eval", "get", "hello", "client|setinfo", "client",
			"time", "type", "exists", "pttl", "hlen", "hkeys", "hget", "hstrlen", "hexists", "getrange", "pubsub|numsub", "pubsub", "dbsize",
		}, command)
	}
	require.Equal(t, size, int(rdb.DBSize(ctx).Val()))
}

// TestScriptOnlyReads: from Redis 7 on the server itself sees to that.
func TestScriptOnlyReads(t *testing.T) {
	for _, p := range redistest.Programs(t) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		_, err := newInspector(t, srv.Client(t), nil).Lock(context.Background(), "x")
		require.NoError(t, err)
		calls := srv.CommandCalls(t)
		if strings.HasPrefix(p.Version, "6.") {
			require.Positive(t, calls["eval"])
			continue
		}
		require.Positive(t, calls["eval_ro"], "%v", calls)
		require.Zero(t, calls["eval"]+calls["evalsha"])
	}
}

// TestEndsEarly: who has seen enough stops the walk.
func TestEndsEarly(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := context.Background()
	for i := range 3000 {
		rdb.Set(ctx, keys.For(fmt.Sprint("lock:", i)).Token, 5000, time.Hour)
	}
	hook := &sent{}
	rdb.AddHook(redistest.Around(hook.note))
	for _, err := range newInspector(t, rdb, nil).Locks(ctx, inspect.Query{Free: true}) {
		require.NoError(t, err)
		break
	}
	require.Less(t, len(hook.commands), 1000)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range newInspector(t, rdb, nil).Locks(ended, inspect.Query{Free: true}) {
		require.ErrorIs(t, err, context.Canceled)
	}
}

// TestClaim: a lock that is handed on by force is the next one's for as long as after a release.
func TestClaim(t *testing.T) { require.Equal(t, fair.Claim, inspect.Claim) }

// TestGlob: a pattern means here what it means to Redis.
func TestGlob(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := context.Background()
	words := []string{"a", "ab", "abc", "a*c", "a/c", "a[c", "a\\c", "^", "-", "b", "ba", "aXbXc", "aab", "]", "é"}
	for _, key := range words {
		require.NoError(t, rdb.Set(ctx, key, 1, 0).Err())
	}
	for _, pattern := range []string{
		"*", "a*", "*c", "a*c", "a?c", "a??", "?", "??", "[ab]", "[a-c]", "[c-a]", "[^a]", "a[*]c", "a\\*c", "a\\[c", "a\\\\c", "[\\]]", "[", "[ab",
		"a*b*c", "**a**", "\\a", "[^-]", "a[b-", "*[bc]", "ab\\", "é", "", "x", "[]", "[^]", "a*b*b",
	} {
		if pattern == "" {
			continue // KEYS takes it for the empty name, and here it is all
		}
		want, err := rdb.Keys(ctx, pattern).Result()
		require.NoError(t, err)
		var got []string
		for _, word := range words {
			if inspect.Glob(pattern, word) {
				got = append(got, word)
			}
		}
		require.ElementsMatch(t, want, got, "%q", pattern)
	}
	require.True(t, inspect.Glob("", "x"))
}

// TestSeen: what was told lately is not told again, and what is remembered is bounded.
func TestSeen(t *testing.T) {
	require.Equal(t, []bool{true, false, true, false, false}, inspect.First(10, "a", "a", "b", "a", "b"))
	require.Equal(t, []bool{true, true, true, false, true, true, true}, inspect.First(2, "a", "b", "c", "b", "d", "e", "a"), "a is long ago")
}

// testSeveral: each name is told as if it was asked for alone, in the order of the question.
func testSeveral(t *testing.T, rdb redis.UniversalClient) {
	ctx, c, i := t.Context(), newClient(t, rdb, nil), newInspector(t, rdb, nil)
	var asked []string
	for n := range 250 { // more than travel at once, in several slots
		name := fmt.Sprintf("lock:%d", n*7%250)
		asked = append(asked, name)
		if n%3 == 0 {
			hold(t, rlock.New(c, name))
		}
	}
	asked = append(asked, "a}b", asked[0])
	locks, err := i.Several(ctx, asked)
	require.NoError(t, err)
	require.Equal(t, asked, names(locks))
	for n, l := range locks {
		if asked[n] == "a}b" {
			require.Equal(t, []inspect.Trouble{inspect.Unreadable}, troubles(l))
			continue
		}
		alone := look(t, i, l.Name)
		require.Equal(t, alone, withTimesOf(l, alone), l.Name)
		require.Equal(t, n%3 == 0 || n == 251, l.Held(), l.Name)
	}
	locks, err = i.Several(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, locks)
}

// TestSeveralTrips: a hundred names are one round trip, and who their clients are is another.
func TestSeveralTrips(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	i, c := newInspector(t, rdb, nil), newClient(t, rdb, nil)
	var asked []string
	for n := range 100 {
		asked = append(asked, fmt.Sprint("lock:", n))
		hold(t, rlock.New(c, asked[n]))
	}
	_, err := i.Several(t.Context(), asked) // the server has the script then
	require.NoError(t, err)
	hook := &sent{}
	rdb.AddHook(redistest.Around(hook.note))
	_, err = i.Several(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, 2, hook.trips)
	require.Len(t, hook.commands, 101)
}
