package holdfastweb_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// worked is for how long a server was at work for everything but this question.
func worked(t *testing.T, srv *redistest.Server) (sum time.Duration) {
	t.Helper()
	for _, took := range srv.CommandTime(t) {
		sum += took
	}
	return sum
}

// fill makes locks and keys of others.
func fill(t *testing.T, rdb *redis.Client, locks, others int) {
	t.Helper()
	const script = `for i = 1, ARGV[1] do
			redis.call('HSET', 'lock:' .. i, ARGV[3] .. i, 1) redis.call('PEXPIRE', 'lock:' .. i, 600000)
			redis.call('SET', 'redisson_lock_token:{lock:' .. i .. '}', ARGV[4] + i, 'PX', 600000)
		end
		for i = 1, ARGV[2] do redis.call('SET', 'other:' .. i, 1) end return 1`
	require.NoError(t, rdb.Eval(t.Context(), script, nil, locks, others, "11111111-2222-4333-8444-555555555555:h", time.Now().UnixMicro()).Err())
}

// share is which part of the time the server works for a page that ten people look at.
func share(t *testing.T, locks, others int, o holdfastweb.Options, lists int64) float64 {
	t.Helper()
	srv := redistest.Start(t)
	fill(t, srv.Client(t), locks, others)
	page := newPage(t, srv.Client(t), &o)
	url := served(t, page).URL
	for n := range 10 {
		watch(t, fmt.Sprintf("%s/events?page=%d", url, n%3+1)).hears("the first list", func(u update) bool { return len(u.Order) == 50 })
	}
	perList := int64(2*locks+others)/1000 + 1 // steps of a thousand keys
	// From a list to the same of a later one: so many lists and so many pauses.
	srv.ResetStats(t)
	scans := func() int64 { return srv.CommandCalls(t)["scan"] }
	within := func(n int64) {
		require.Eventually(t, func() bool { return scans() >= n }, 10*patience, 20*time.Millisecond, "lists are taken")
	}
	within(1)
	before, from, begun := worked(t, srv), time.Now(), scans()
	within(begun + perList*lists)
	return (worked(t, srv) - before).Seconds() / time.Since(from).Seconds()
}

// TestShare: a page that ten people look at has a server at work for no more of the time than it may. The
// control spares nobody, and has it at work for longer.
func TestShare(t *testing.T) {
	const locks, others = 500, 5000
	allowed := 0.1
	if testing.Short() {
		allowed = 0.3 // its pauses are a fifth as long
	}
	all := share(t, locks, others, *quick(holdfastweb.Options{}), 5)
	part := share(t, locks, others, holdfastweb.Options{Share: allowed}, 1)
	fmt.Printf("proof: a live page of %d locks among %d keys, ten viewers: of %.0f %% the server works %.2f %% of the time for it; "+
		"without pauses %.0f %%\n", locks, 2*locks+others, allowed*100, part*100, all*100)
	require.Less(t, part, allowed)
	require.Greater(t, all, part)
}

// TestManyLocks: no page has more rows than it may, and a list that is cut says so.
func TestManyLocks(t *testing.T) {
	srv := redistest.Start(t)
	fill(t, srv.Client(t), 1000, 0)
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{MaxLocks: 300, Rows: 40}))
	seen := make(map[string]bool)
	for n := 1; n <= 8; n++ {
		a := get(t, page, "/?sort=name&page="+strconv.Itoa(n))
		require.LessOrEqual(t, len(rowsOf(a)), 40)
		for _, name := range rowsOf(a) {
			seen[name] = true
		}
		require.Contains(t, a.body, "There are more than 300 locks")
		require.Equal(t, n < 8, strings.Contains(a.body, `rel="next"`))
		require.Equal(t, n > 1, strings.Contains(a.body, `rel="prev"`))
	}
	require.Greater(t, len(seen), 200, "pages are not of one list, but mostly other ones")
	require.Less(t, len(get(t, page, "/").body), 60_000)
}
