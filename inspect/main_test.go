package inspect_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	hold       = kindtest.Lock
)

func newInspector(t testing.TB, rdb redis.UniversalClient, opts *inspect.Options) *inspect.Inspector {
	i, err := inspect.New(rdb, opts)
	require.NoError(t, err)
	return i
}

// list is what an iterator gives, by the names, in their order.
func list(t testing.TB, i *inspect.Inspector, q inspect.Query) (locks []inspect.Lock) {
	for l, err := range i.Locks(context.Background(), q) {
		require.NoError(t, err)
		locks = append(locks, l)
	}
	slices.SortFunc(locks, func(a, b inspect.Lock) int { return strings.Compare(a.Name, b.Name) })
	return locks
}

func names(locks []inspect.Lock) []string {
	list := make([]string, len(locks))
	for n, l := range locks {
		list[n] = l.Name
	}
	return list
}

// look is what an Inspector says of a name.
func look(t testing.TB, i *inspect.Inspector, name string) inspect.Lock {
	l, err := i.Lock(context.Background(), name)
	require.NoError(t, err)
	return l
}

func troubles(l inspect.Lock) (list []inspect.Trouble) {
	for _, p := range l.Problems {
		list = append(list, p.Trouble)
	}
	return list
}

// suite are the tests that run on all servers, one after the other on each.
var suite = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"shapes": testShapes, "names": testNames, "problems": testProblems, "a waiter listens": testWaiterListens,
	"end": testEnd, "end one of several": testEndOneOfSeveral, "several": testSeveral,
}

// TestServers runs the suite on a server of each version, and on a cluster of the first and the last one.
func TestServers(t *testing.T) {
	programs := redistest.Programs(t)
	for n, p := range programs {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			runSuite(t, redistest.Start(t, redistest.Exec(p.Path)).Client(t))
		})
		if n > 0 && n < len(programs)-1 {
			continue
		}
		t.Run("cluster of "+p.Name, func(t *testing.T) {
			level.ForAll(t)
			t.Parallel()
			runSuite(t, redistest.StartCluster(t, 2, 0, redistest.Exec(p.Path)).Client(t))
		})
	}
}

func runSuite(t *testing.T, rdb redis.UniversalClient) {
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			flush := func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() }
			if cluster, ok := rdb.(*redis.ClusterClient); ok {
				require.NoError(t, cluster.ForEachMaster(t.Context(), flush))
			} else {
				require.NoError(t, flush(t.Context(), rdb.(*redis.Client)))
			}
			test(t, rdb)
		})
	}
}
