package holdfastweb_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestOneMasterIsSilent: the page of a lock has what the others say.
func TestOneMasterIsSilent(t *testing.T) {
	t.Parallel()
	var rdbs []redis.UniversalClient
	servers := redistest.StartMasters(t, 3)
	for _, srv := range servers {
		rdb := srv.Client(t)
		require.NoError(t, rdb.HSet(t.Context(), "a", "11111111-2222-4333-8444-555555555555:h1", 1).Err())
		require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{a}", 5000, time.Hour).Err())
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
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := cluster.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = 2 * patience })
	names := map[string]string{} // by the master
	for n := 0; len(names) < 3; n++ {
		name := fmt.Sprint("silent", n)
		at := cluster.Master(t, name).Addr()
		if names[at] != "" {
			continue
		}
		names[at] = name
		require.NoError(t, rdb.HSet(t.Context(), name, "11111111-2222-4333-8444-555555555555:h1", 1).Err())
		require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{"+name+"}", 5000, time.Hour).Err())
	}
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	shows := func(body string) (n int) {
		for _, name := range names {
			n += strings.Count(body, "name="+name+"\"")
		}
		return n
	}
	eventually(t, "all are known", func() bool { return shows(get(t, page, "/").body) == 3 })
	first := cluster.Masters(t)[0]
	for _, m := range cluster.Masters(t) {
		if m.Addr() < first.Addr() {
			first = m
		}
	}
	gone, still := "", ""
	for at, name := range names {
		switch {
		case at == first.Addr():
		case gone == "":
			gone = name
		default:
			still = name
		}
	}
	added := ""
	for n := 0; added == ""; n++ {
		if name := fmt.Sprint("later", n); cluster.Master(t, name).Addr() == cluster.Master(t, still).Addr() {
			added = name
		}
	}
	first.Pause()
	defer first.Resume()
	require.NoError(t, rdb.Del(t.Context(), gone).Err())
	require.NoError(t, rdb.HSet(t.Context(), added, "11111111-2222-4333-8444-555555555555:h1", 1).Err())
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{"+added+"}", 5000, time.Hour).Err())
	eventually(t, "what another one has got is shown", func() bool {
		body := get(t, page, "/").body
		return strings.Contains(body, "name="+added+"\"") && strings.Contains(body, "name="+still+"\"") &&
			strings.Contains(body, "name="+names[first.Addr()]+"\"")
	})
	first.Resume()
	eventually(t, "what is gone is not shown any more", func() bool {
		body := get(t, page, "/").body
		return !strings.Contains(body, "name="+gone+"\"") && strings.Contains(body, "name="+names[first.Addr()]+"\"")
	})
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

// TestFarServerIsNotSilent: many keys and no locks take a server that is far away longer than the page takes
// to call one silent. It has answered all the while.
func TestFarServerIsNotSilent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Debug())
	srv.Command(t, "DEBUG", "POPULATE", "70000")
	rdb := redis.NewClient(&redis.Options{Addr: faultproxy.Distance(t, srv.Addr(), 80*time.Millisecond)})
	defer rdb.Close()
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	v := watch(t, served(t, page).URL+"/events")
	v.hears("the list", func(u update) bool {
		require.NotContains(t, u.Head, "has owed an answer")
		return strings.Contains(u.Head, "No locks that anybody has")
	})
}
