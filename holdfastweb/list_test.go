package holdfastweb_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// rowsOf are the names in a list, in their order.
func rowsOf(a answer) (names []string) {
	for _, m := range regexp.MustCompile(`<tr role="row" id="r[0-9a-f]+"[^>]*><th[^>]*>(?:<a [^>]*>)?([^<]*)`).FindAllStringSubmatch(a.body, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestListOfAllKinds: each kind is there with who has it and who waits, and what looks wrong.
func TestListOfAllKinds(t *testing.T) {
	srv := redistest.Start(t)
	ctx, rdb, log := t.Context(), srv.Client(t), &kindtest.Log{}
	one, two := kindtest.NewClient(t, srv.Client(t), nil), kindtest.NewClient(t, srv.Client(t), nil)
	h := kindtest.Lock(t, rlock.New(one, "plain"))
	kindtest.Lock(t, fairlock.New(one, "fair"))
	kindtest.Begin(t.Context(), t, fairlock.New(two, "fair").Lock)
	for range 2 {
		kindtest.Lock(t, rwlock.New(one, "rw").RLocker())
	}
	require.NoError(t, kindtest.Err(semaphore.New(one, "permits", 5).Acquire(ctx, 2)))
	require.NoError(t, kindtest.Err(election.New(one, "leader").Campaign(ctx, "host-1")))
	require.NoError(t, kindtest.Err(latch.New(one, "gate").Set(ctx, 3)))
	held(t, rdb, "stuck")
	require.NoError(t, kindtest.Lock(t, rlock.New(one, "done"), holdfast.HoldAtLeast(time.Hour)).Unlock(ctx))
	require.NoError(t, rdb.Set(ctx, keys.Label(one.ID()), "web-7, build 12", time.Hour).Err())

	page := newPage(t, rdb, quick(holdfastweb.Options{Logger: log.Logger(), Title: "Locks of <staging>"}))
	var a answer
	eventually(t, "the waiter is in its place", func() bool {
		a = get(t, page, "/")
		return strings.Contains(a.body, `title="waits in the queue">1<`)
	})
	require.Equal(t, http.StatusOK, a.StatusCode, log)
	require.Equal(t, "stuck", rowsOf(a)[0], "what looks wrong is the first")
	require.Equal(t, "fair", rowsOf(a)[1], "then what is waited for")
	require.ElementsMatch(t, []string{"plain", "fair", "rw", "permits", "leader", "stuck", "done", "gate"}, rowsOf(a))
	require.Contains(t, a.body, "8 locks: 3 lock, 1 election, 1 fairlock, 1 latch, 1 rwlock, 1 semaphore")
	for _, says := range []string{
		"Locks of &lt;staging&gt;", `<span class="flag">no-end</span>`, "web-7, build 12", one.ID()[:8] + ":", "and 1 more", "2 permits", "has unlocked; it stays taken",
		fmt.Sprint(h.Token()), `<td role="cell" class="kind" data-label="kind">election</td>`, "no end",
	} {
		require.Contains(t, a.body, says)
	}
	require.NotContains(t, a.body, two.ID(), "an owner is cut in the list")

	for name, says := range map[string][]string{
		"plain":   {one.ID(), "web-7, build 12", fmt.Sprint(h.Token()), "held for"},
		"fair":    {"Waiting", two.ID()},
		"rw":      {"<td role=\"cell\" data-label=\"to\">read</td>"},
		"permits": {"5 in all, 3 free, 2 out", ">Permits</th>", `data-label="permits">2<`},
		"leader":  {"host-1"},
		"gate":    {"to count", "<dd>3</dd>"},
		"stuck":   {"the lock has no time to live"},
		"nothing": {"There is nothing at this name"},
	} {
		a := get(t, page, "/lock?name="+name)
		require.Equal(t, http.StatusOK, a.StatusCode, name)
		for _, text := range says {
			require.Contains(t, a.body, text, name)
		}
	}
	require.Empty(t, log.String())
}

// grantsOf is what a list says of each lock, in its order: the name, and how many grants there are in a second.
func grantsOf(a answer) (list []string) {
	for _, m := range regexp.MustCompile(`name=(\w+)">.*?data-label="grants/s" title="[^"]*">([^<]*)<`).FindAllStringSubmatch(a.body, -1) {
		list = append(list, m[1]+" "+m[2])
	}
	return list
}

// TestGrants: the list says how many grants of each lock there are in a second, and is sorted by that. What was seen once has none.
func TestGrants(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	held(t, rdb, "busy")
	held(t, rdb, "idle")
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	a := get(t, page, "/?sort=name")
	require.Equal(t, []string{"busy –", "idle –"}, grantsOf(a))
	require.Contains(t, a.body, `<a href="?sort=grants">Grants/s</a>`)
	says := func(target, pattern string) func() bool {
		return func() bool {
			require.NoError(t, rdb.IncrBy(t.Context(), keys.For("busy").Token, 100).Err()) // as Redisson counts
			return regexp.MustCompile(pattern).MatchString(fmt.Sprint(grantsOf(get(t, page, target))))
		}
	}
	eventually(t, "grants are seen", says("/?sort=grants", `^\[busy [1-9]\d* idle 0\]$`))
	eventually(t, "the other way round", says("/?sort=-grants", `^\[idle 0 busy [1-9]\d*\]$`))
	n, sorted := 0, says("/?sort=grants", `^\[busy [1-9]\d* (a\d+ 0 )*idle 0 (a\d+ – ?)+\]$`)
	eventually(t, "what has no rate yet is behind", func() bool {
		n++
		held(t, rdb, fmt.Sprint("a", n))
		return sorted()
	})
}

// worked is for how long a server was at work for everything but this question.
func worked(t *testing.T, srv *redistest.Server) (sum time.Duration) {
	for _, took := range srv.CommandTime(t) {
		sum += took
	}
	return sum
}

// fill makes locks and keys of others.
func fill(t *testing.T, rdb *redis.Client, locks, others int) {
	const script = `for i = 1, ARGV[1] do
			redis.call('HSET', 'lock:' .. i, ARGV[3] .. i, 1) redis.call('PEXPIRE', 'lock:' .. i, 600000)
			redis.call('SET', 'redisson_lock_token:{lock:' .. i .. '}', ARGV[4] + i, 'PX', 600000)
		end
		for i = 1, ARGV[2] do redis.call('SET', 'other:' .. i, 1) end return 1`
	require.NoError(t, rdb.Eval(t.Context(), script, nil, locks, others, "11111111-2222-4333-8444-555555555555:h", time.Now().UnixMicro()).Err())
}

// share is which part of the time the server works for a page that ten people look at.
func share(t *testing.T, locks, others int, o holdfastweb.Options, lists int64) float64 {
	srv := redistest.Start(t)
	fill(t, srv.Client(t), locks, others)
	var scans atomic.Int64 // of lists, and not those for circles of waits
	rdb := srv.Client(t)
	rdb.AddHook(redistest.Around(func(do func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "scan" && !slices.Contains(cmd.Args(), any(keys.SearchWaits)) {
				scans.Add(1)
			}
		}
		return do()
	}))
	page := newPage(t, rdb, &o)
	url := servedWithin(t, page, 0).URL // ten streams begin at once, on a machine that may be busy
	for n := range 10 {
		watch(t, fmt.Sprintf("%s/events?page=%d", url, n%3+1)).hears("the first list", func(u update) bool { return len(u.Order) == 50 })
	}
	perList := int64(2*locks+others)/1000 + 1 // steps of a thousand keys
	// From a list to the same of a later one: so many lists and so many pauses.
	srv.ResetStats(t)
	within := func(n int64) {
		require.Eventually(t, func() bool { return scans.Load() >= n }, 10*patience, 20*time.Millisecond, "lists are taken")
	}
	within(scans.Load() + 1)
	before, from, begun := worked(t, srv), time.Now(), scans.Load()
	within(begun + perList*lists)
	return (worked(t, srv) - before).Seconds() / time.Since(from).Seconds()
}

// TestShare: a page that ten people look at keeps a server at work for its share of the time. The control spares no server.
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

// looks is what a user needs who looks at locks, as in docs/security.md, without labels and what only other commands need.
const looks = "+scan +evalsha_ro +eval_ro +exists +get +getrange +hexists +hget +hkeys +hlen +hscan +hstrlen +llen +lrange +pttl +strlen " +
	"+time +type +zcard +zcount +zrange +zrangebyscore +zscore +pubsub|numsub %R~*"

// TestRefused: without each permission the page says that Redis refuses, and what to do, and never that there are no locks: or
// it shows all locks, where nothing that they are known by was refused. The control is the rule as a whole.
func TestRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := looks
	if srv.Major() < 7 { // no scripts that only read, nor such a permission
		all = strings.NewReplacer("_ro", "", "%R~*", "~*").Replace(looks)
	}
	rdb := srv.Client(t)
	const us = "11111111-2222-4333-8444-555555555555:h"
	ctx := t.Context()
	require.NoError(t, rdb.HSet(ctx, "plain", us+"1", 1).Err())
	require.NoError(t, rdb.HSet(ctx, "rw", "mode", "read", us+"1", 1).Err())
	require.NoError(t, rdb.RPush(ctx, "redisson_lock_queue:{plain}", us+"2").Err())
	require.NoError(t, rdb.ZAdd(ctx, "redisson_lock_timeout:{plain}", redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: us + "2"}).Err())
	for _, name := range []string{"plain", "rw"} {
		require.NoError(t, rdb.Set(ctx, "redisson_lock_token:{"+name+"}", 5000, time.Hour).Err())
	}
	for word := range strings.FieldsSeq("nothing " + all) {
		rule := strings.Fields(strings.Replace(all+" ", word+" ", "", 1))
		srv.Command(t, append([]string{"ACL", "SETUSER", "watcher", "reset", "on", ">secret"}, rule...)...)
		srv.Command(t, "SCRIPT", "FLUSH")
		user := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "watcher", Password: "secret"})
		page := newPage(t, user, quick(holdfastweb.Options{}))
		var a answer
		eventually(t, word+": something is known", func() bool {
			a = get(t, page, "/")
			return !strings.Contains(a.body, "Redis is being asked")
		})
		if says := strings.Contains(a.body, "Redis has refused since") || strings.Contains(a.body, "because Redis refuses"); says {
			require.Contains(t, a.body, "docs/security.md", word)
			require.Contains(t, a.body, "Nothing is known.", word)
			require.NotContains(t, a.body, "No answer", word)
			require.NotContains(t, a.body, "No locks that", word)
			require.NotContains(t, a.body, "0 locks", word)
			require.NotEqual(t, "nothing", word, a.body)
		} else {
			require.ElementsMatch(t, []string{"plain", "rw"}, rowsOf(a), word)
		}
		a = get(t, page, "/lock?name=plain")
		if a.StatusCode != http.StatusOK {
			require.Contains(t, a.body, "docs/security.md", word)
			require.NotContains(t, a.body, "No answer", word)
		}
		page.Close()
		require.NoError(t, user.Close())
	}
}

// TestRefusedListStaysRefused: rows that Redis shows do not hide that it refuses the list.
func TestRefusedListStaysRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), "a", owner, 1).Err())
	srv.Command(t, "ACL", "SETUSER", "watcher", "on", ">secret", "+@all", "-scan", "~*")
	user := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "watcher", "secret" })
	page := newPage(t, user, quick(holdfastweb.Options{}))
	url := served(t, page).URL
	one := watch(t, url+"/events?name=a")
	one.hears("the lock", func(u update) bool { return strings.Contains(u.Body, "Held by") })
	require.NoError(t, rdb.HSet(t.Context(), "a", owner, 2).Err())
	one.hears("the lock again", func(u update) bool { return strings.Contains(u.Body, ">2<") })
	require.Contains(t, get(t, page, "/").body, "Redis has refused since")
}

// TestSilentIsNotEmpty: of a server that takes its time for the first answer, nobody says that it has no locks.
func TestSilentIsNotEmpty(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t, func(o *redis.Options) { o.ReadTimeout = 2 * patience })
	held(t, rdb, "a")
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	url := served(t, page).URL
	srv.Pause()
	defer srv.Resume()
	v := watch(t, url+"/events")
	empty := func(u update) {
		require.NotContains(t, u.Head, "No locks")
		require.NotContains(t, u.Head, "0 locks")
	}
	v.hears("that it is silent", func(u update) bool { empty(u); return strings.Contains(u.Head, "has not answered since") })
	srv.Resume()
	v.hears("the lock", func(u update) bool { empty(u); return u.has(">a</a>") })
}

// TestOneMasterIsSilent: the page of a lock has what the others say.
func TestOneMasterIsSilent(t *testing.T) {
	t.Parallel()
	var rdbs []redis.UniversalClient
	servers := redistest.StartMasters(t, 3)
	for _, srv := range servers {
		rdb := srv.Client(t)
		held(t, rdb, "a")
		rdbs = append(rdbs, rdb)
	}
	page := newPage(t, rdbs[0], quick(holdfastweb.Options{Masters: rdbs[1:]}))
	require.Equal(t, 3, strings.Count(get(t, page, "/lock?name=a").body, "Held by"))
	servers[0].Pause()
	a := get(t, page, "/lock?name=a")
	servers[0].Resume()
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Equal(t, 1, strings.Count(a.body, "No answer from "), a.body)
	require.Equal(t, 2, strings.Count(a.body, "Held by"))
}

// TestOneMasterOfAClusterIsSilent: the list has what the others say while the first one takes longer than the test waits.
func TestOneMasterOfAClusterIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no")) // the others serve on
	rdb := cluster.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = 2 * patience })
	// taken makes a lock of a master's that somebody has.
	taken := func(master *redistest.Server, prefix string) (name string) {
		for n := 0; name == "" || cluster.Master(t, name).Addr() != master.Addr(); n++ {
			name = fmt.Sprint(prefix, n)
		}
		held(t, rdb, name)
		return name
	}
	masters := slices.SortedFunc(slices.Values(cluster.Masters(t)), func(a, b *redistest.Server) int {
		return strings.Compare(a.Addr(), b.Addr()) // in this order they are asked
	})
	silent, gone, still := taken(masters[0], "silent"), taken(masters[1], "gone"), taken(masters[2], "still")
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	shows := func(names ...string) bool {
		body := get(t, page, "/").body
		return !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(body, "name="+name+"\"") })
	}
	eventually(t, "all are known", func() bool { return shows(silent, gone, still) })
	masters[0].Pause()
	defer masters[0].Resume()
	require.NoError(t, rdb.Del(t.Context(), gone).Err())
	added := taken(masters[2], "added")
	eventually(t, "what another one has got is shown", func() bool { return shows(silent, still, added) })
	masters[0].Resume()
	eventually(t, "what is gone is not shown any more", func() bool { return !shows(gone) && shows(silent) })
}

// whole is a writer of somebody's middleware, which passes nothing on before the end.
type whole struct{ http.ResponseWriter }

// TestNothingIsPassedOn: behind middleware that cannot flush a page is not live and says why; no browser asks again and again.
func TestNothingIsPassedOn(t *testing.T) {
	page := newPage(t, redistest.Shared(t).Client(t), quick(holdfastweb.Options{}))
	w := httptest.NewRecorder()
	page.ServeHTTP(whole{w}, httptest.NewRequest(http.MethodGet, "/events", nil))
	require.Equal(t, http.StatusNotImplemented, w.Code)
	require.NotContains(t, w.Body.String(), "retry")
	require.Contains(t, w.Body.String(), "Unwrap or Flush")
}
