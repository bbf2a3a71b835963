package holdfastweb_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// looks is what a user may do who looks at locks, as docs/security.md has it, without labels and without what is
// for other commands than the page's.
const looks = "+scan +evalsha_ro +eval_ro +exists +get +getrange +hexists +hget +hkeys +hlen +hscan +hstrlen +llen +lrange +pttl +strlen " +
	"+time +type +zcard +zcount +zrange +zrangebyscore +zscore +pubsub|numsub %R~*"

// TestRefused: without each permission the page says that Redis refuses, and what to do, and never that there are
// no locks: or it shows all locks, where nothing that they are known by was refused. The control is the rule as a
// whole.
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
		if says := strings.Contains(a.body, "Redis refuses"); says {
			require.Contains(t, a.body, "docs/security.md", word)
			require.Contains(t, a.body, "Nothing is known yet.", word)
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
	require.Contains(t, get(t, page, "/").body, "Redis refuses")
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
	v.hears("that it is silent", func(u update) bool { empty(u); return strings.Contains(u.Head, "has owed an answer") })
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

// TestOneMasterOfAClusterIsSilent: the list has what the others say, while the first one owes its answer for
// longer than the test waits.
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

// TestNothingIsPassedOn: behind middleware that cannot flush a page is not live, and says why; a browser is
// not asked to come again every other second.
func TestNothingIsPassedOn(t *testing.T) {
	page := newPage(t, redistest.Shared(t).Client(t), quick(holdfastweb.Options{}))
	w := httptest.NewRecorder()
	page.ServeHTTP(whole{w}, httptest.NewRequest(http.MethodGet, "/events", nil))
	require.Equal(t, http.StatusNotImplemented, w.Code)
	require.NotContains(t, w.Body.String(), "retry")
	require.Contains(t, w.Body.String(), "Unwrap or Flush")
}
