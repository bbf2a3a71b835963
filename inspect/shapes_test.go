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

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// testShapes: every kind is found, by its exact name, with all that Redis has of it.
func testShapes(t *testing.T, rdb redis.UniversalClient) {
	ctx := t.Context()
	opts := &holdfast.Options{Prefix: "app:"}
	a, b := newClient(t, rdb, opts), newClient(t, rdb, opts)
	i := newInspector(t, rdb, nil)

	plain := hold(t, rlock.New(a, "plain"))
	kindtest.Take(plain.Context(), t, rlock.New(a, "plain").TryLock)
	fair := hold(t, fairlock.New(a, "fair"))
	kindtest.Begin(ctx, t, fairlock.New(b, "fair").Lock)
	rw := rwlock.New(a, "rw")
	reads := kindtest.Take(ctx, t, rw.TryRLock)
	readsToo := kindtest.Take(ctx, t, rwlock.New(b, "rw").TryRLock)
	kindtest.Begin(ctx, t, rwlock.New(b, "rw").Lock)
	writes := hold(t, rwlock.New(a, "{w}rite"))
	permits := semaphore.New(a, "permits", 3)
	two, err := permits.TryAcquire(ctx, 2)
	require.NoError(t, err)
	kindtest.Begin(ctx, t, func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
		return semaphore.New(b, "permits", 3).Acquire(ctx, 3)
	})
	require.NoError(t, kindtest.Err(latch.New(a, "latch").Set(ctx, 5)))
	for _, call := range rdb.Keys(ctx, "holdfast_latch:{app:latch}:*").Val() { // (a cluster asks one of its servers)
		require.NoError(t, rdb.Del(ctx, call).Err()) // as its end does: the latch is found all the same
	}
	leads, err := election.New(a, "leader").Campaign(ctx, "host-7 eu", holdfast.Wait(patience))
	require.NoError(t, err)
	one := rdb
	if _, cluster := rdb.(*redis.ClusterClient); cluster { // which is no master of a quorum; and two run at a time, with one name
		one = redistest.Start(t).Client(t)
	}
	quorum := hold(t, redlock.New([]*holdfast.Client{newClient(t, one, opts)}, "quorum", redlock.TrustRestarts()))
	done := hold(t, rlock.New(a, "done"))
	require.NoError(t, done.Unlock(ctx))

	eventually(t, "all who wait have places", func() bool {
		waits := 0
		for _, l := range list(t, i, inspect.Query{}) {
			waits += max(l.Waiters, 0)
		}
		return waits == 3
	})
	all := list(t, i, inspect.Query{})
	if one != rdb {
		all = append(all, look(t, newInspector(t, one, nil), "app:quorum"))
		slices.SortFunc(all, func(a, b inspect.Lock) int { return strings.Compare(a.Name, b.Name) })
	}
	require.Equal(t, []string{"app:fair", "app:latch", "app:leader", "app:permits", "app:plain", "app:quorum", "app:rw", "app:{w}rite"}, names(all))
	for _, l := range all {
		require.Empty(t, l.Problems, l.Name)
		if one == rdb || l.Name != "app:quorum" {
			require.Equal(t, l, withTimesOf(look(t, i, l.Name), l), "asked for alone")
		}
		require.NotEmpty(t, l.Server)
		require.True(t, l.Held())
		switch l.Name {
		case "app:plain":
			require.Equal(t, inspect.Plain, l.Kind)
			require.Equal(t, []inspect.Holder{{Owner: plain.Owner(), Raw: plain.Owner(), Count: 2, Remaining: l.Remaining}}, l.Holders)
			require.GreaterOrEqual(t, l.Token, plain.Token())
			require.InDelta(t, 30*time.Second, l.Remaining, float64(10*time.Second))
			require.Equal(t, -1, l.Waiters)
			require.WithinDuration(t, l.At, l.Granted(), patience)
		case "app:fair":
			require.Equal(t, inspect.Fair, l.Kind)
			require.Equal(t, fair.Owner(), l.Holders[0].Owner)
			require.Equal(t, b.ID(), l.Queue[0].Client())
			require.Equal(t, 1, l.Queue[0].Listening)
			require.True(t, l.Queue[0].Alive())
			require.InDelta(t, 15*time.Second, l.Queue[0].Remaining, float64(10*time.Second))
		case "app:rw":
			require.Equal(t, inspect.ReadWrite, l.Kind)
			require.Len(t, l.Holders, 2)
			for _, h := range l.Holders {
				require.Equal(t, inspect.Read, h.Mode)
				require.Contains(t, []string{reads.Owner(), readsToo.Owner()}, h.Owner)
				require.InDelta(t, 30*time.Second, h.Remaining, float64(10*time.Second))
			}
			require.Equal(t, b.ID(), l.Queue[0].Client())
			require.Zero(t, l.Granted())
		case "app:{w}rite":
			require.Equal(t, inspect.Write, l.Holders[0].Mode)
			require.Equal(t, writes.Owner(), l.Holders[0].Owner)
			require.Equal(t, writes.Token(), l.Token)
		case "app:permits":
			require.Equal(t, inspect.Semaphore, l.Kind)
			require.Equal(t, &inspect.Permits{All: 3, Free: 1, Out: 2}, l.Permits)
			require.Equal(t, two.Owner(), l.Holders[0].Owner)
			require.Equal(t, 2, l.Holders[0].Count)
			require.Equal(t, 3, l.Queue[0].Wants)
		case "app:latch":
			require.Equal(t, inspect.Latch, l.Kind)
			require.Equal(t, int64(5), l.Count)
		case "app:leader":
			require.Equal(t, inspect.Election, l.Kind)
			require.Equal(t, &inspect.Leader{Owner: leads.Owner(), Token: leads.Token(), Value: "host-7 eu"}, l.Leader)
		case "app:quorum":
			require.Equal(t, inspect.Plain, l.Kind)
			require.Equal(t, quorum.Owner(), l.Holders[0].Owner)
		}
	}
	require.Equal(t, []string{"app:done"}, names(list(t, i, inspect.Query{Match: "app:d*", Free: true})))
	require.Equal(t, inspect.Free, look(t, i, "app:done").Kind)
	require.Equal(t, inspect.Nothing, look(t, i, "app:never").Kind)
	require.Empty(t, list(t, i, inspect.Query{Match: "app:d*"}))
	require.Equal(t, []string{"app:fair", "app:permits", "app:rw"}, names(list(t, i, inspect.Query{Contended: true})))
}

// withTimesOf is a lock as another one, where the two may differ because time has passed.
func withTimesOf(l, as inspect.Lock) inspect.Lock {
	l.At, l.Remaining = as.At, as.Remaining
	for n := range l.Holders {
		l.Holders[n].Remaining = as.Holders[n].Remaining
	}
	for n := range l.Queue {
		l.Queue[n].Remaining = as.Queue[n].Remaining
	}
	return l
}

// testNames: names come back as they were given, whatever is in them.
func testNames(t *testing.T, rdb redis.UniversalClient) {
	c := newClient(t, rdb, nil)
	i := newInspector(t, rdb, nil)
	want := []string{
		" ", "*", "[a]", "a b", "a:{b}:c", "orders/42", "q?", "{c}", "{d}e", "{f}:{g}", "\xff\x00\n", "\u00e9\u2603",
		"both", "{both}", "redisson_lock_token:x", "holdfast_latch:{y}:z",
	}
	for _, name := range want {
		hold(t, rlock.New(c, name))
	}
	all := list(t, i, inspect.Query{})
	require.ElementsMatch(t, want, names(all))
	for _, l := range all {
		if l.Name == "both" || l.Name == "{both}" {
			require.Equal(t, []inspect.Trouble{inspect.TwoSpellings}, troubles(l))
		} else {
			require.Empty(t, l.Problems, l.Name)
		}
	}
	named, err := i.Several(context.Background(), want)
	require.NoError(t, err)
	require.Equal(t, want, names(named), "all at once, in their order")
	for _, l := range named {
		require.Len(t, l.Holders, 1, l.Name)
	}
	for _, name := range want { // a pattern that means this name alone
		require.True(t, inspect.Matches(escaped(name), name))
		require.Equal(t, []string{name}, names(list(t, i, inspect.Query{Match: escaped(name)})), "%q", name)
	}
	require.Equal(t, []string{"{both}", "{c}", "{d}e", "{f}:{g}"}, names(list(t, i, inspect.Query{Match: "{*"})))
}

// escaped is a pattern for one name.
func escaped(name string) string {
	var p []byte
	for _, c := range []byte(name) {
		switch c {
		case '*', '?', '[', ']', '\\', '^', '-':
			p = append(p, '\\')
		}
		p = append(p, c)
	}
	return string(p)
}

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

// TestCommands: a list takes bounded steps, one script a lock, few round trips, and nothing that writes or walks all keys.
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
		require.NoError(t, kindtest.Err(newInspector(t, srv.Client(t), nil).Lock(context.Background(), "x")))
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

// TestClaim: a lock that is handed off by force is the next one's for as long as after a release.
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
	require.NoError(t, kindtest.Err(i.Several(t.Context(), asked)))
	require.Equal(t, 2, hook.trips)
	require.Len(t, hook.commands, 101)
}
