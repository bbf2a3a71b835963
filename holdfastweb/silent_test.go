package holdfastweb_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
