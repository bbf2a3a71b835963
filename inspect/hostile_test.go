package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestEndLeavesOthersData: a hash of somebody else's that has a mode, as read-write locks do, is none,
// and no field of it is anybody's hold, however many there are.
func TestEndLeavesOthersData(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	i := newInspector(t, rdb, &inspect.Options{List: 8})
	const fill = `redis.call('HSET', KEYS[1], 'mode', 'read', 'path', '/etc', 'size', 77)
		redis.call('HSET', KEYS[2], 'mode', 'read', 'size', 77)
		for i = 1, 5000 do redis.call('HSET', KEYS[2], '11111111-2222-4333-8444-555555555555:h' .. i, 1) end return 1`
	require.NoError(t, rdb.Eval(t.Context(), fill, []string{"few", "many"}).Err())
	for _, name := range []string{"few", "many"} {
		_, err := i.End(t.Context(), name, inspect.Grant{Owner: "size"})
		require.Error(t, err)
		require.Equal(t, "77", rdb.HGet(t.Context(), name, "size").Val(), name)
	}
	require.Equal(t, inspect.Foreign, look(t, i, "few").Kind)
}

// TestUnreadableOnce: a lock that the server refuses to show is told once, whatever it was found by,
// and nothing is said of it that nobody knows.
func TestUnreadableOnce(t *testing.T) {
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), t.Context()
	rdb.HSet(ctx, "lock", ours, 1)
	rdb.PExpire(ctx, "lock", time.Minute)
	rdb.Set(ctx, keys.For("lock").Token, 7, time.Minute)
	rdb.RPush(ctx, keys.For("lock").Queue, theirs)
	require.NoError(t, rdb.Do(ctx, "ACL", "SETUSER", "narrow", "on", ">p", "~mine:*", "&*", "+@all").Err())
	narrow := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "narrow", Password: "p"})
	defer narrow.Close()
	all := list(t, newInspector(t, narrow, nil), inspect.Query{Redisson: true})
	require.Equal(t, []string{"lock"}, names(all))
	require.Equal(t, []inspect.Trouble{inspect.Unreadable}, troubles(all[0]))
	require.Negative(t, all[0].Remaining)
}

// TestMasterIsDown: of a cluster in which one master does not answer, what the others have is told, also of
// owners whose labels would be at that one. Then comes the error.
func TestMasterIsDown(t *testing.T) {
	level.ForAll(t)
	cluster := redistest.StartCluster(t, 3, 0)
	rdb, ctx := cluster.Client(t), t.Context()
	there := 0
	down := cluster.Nodes[0] // SCAN goes by addresses, so this is any of them
	for _, node := range cluster.Nodes {
		require.NoError(t, node.Client(t).ConfigSet(ctx, "cluster-require-full-coverage", "no").Err())
	}
	for n := range 60 {
		name := fmt.Sprint("lock ", n)
		require.NoError(t, rdb.HSet(ctx, name, fmt.Sprintf("%08d-2222-4333-8444-555555555555:h1", n), 1).Err())
		rdb.PExpire(ctx, name, time.Hour)
		rdb.Set(ctx, keys.For(name).Token, 7, time.Hour)
		if cluster.Master(t, name) != down {
			there++
		}
	}
	down.Kill()
	told, failed := 0, 0
	for _, err := range newInspector(t, rdb, nil).Locks(ctx, inspect.Query{}) {
		if err != nil {
			failed++
			continue
		}
		require.Zero(t, failed, "the error comes last")
		told++
	}
	require.Equal(t, there, told)
	require.Equal(t, 1, failed)
}

// TestRefusedConnection: a server that lets nobody in has answered, and says why. go-redis leaves the
// commands of a pipeline without an error then.
func TestRefusedConnection(t *testing.T) {
	srv := redistest.Start(t)
	require.NoError(t, srv.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Password: "wrong"})
	defer rdb.Close()
	i := newInspector(t, rdb, nil)
	_, err := i.Lock(t.Context(), "lock")
	require.ErrorContains(t, err, "WRONGPASS")
	for _, err := range i.Locks(t.Context(), inspect.Query{Redisson: true}) {
		require.ErrorContains(t, err, "WRONGPASS")
	}
	_, err = i.End(t.Context(), "lock", inspect.Grant{Token: 7})
	require.ErrorContains(t, err, "WRONGPASS")
	require.False(t, strings.Contains(fmt.Sprint(err), "may have ended"))
}

// TestNodeIsSilent: a node of a cluster does not answer, at which somebody may listen. Then it is not known who
// does, and no waiter passes for dead. The control: all have answered, and nobody listens.
func TestNodeIsSilent(t *testing.T) {
	srv := redistest.Start(t)
	rdb, proxy, k := srv.Client(t), faultproxy.New(t, srv.Addr()), keys.For("queue")
	rdb.Set(t.Context(), k.Token, 5000, time.Hour)
	rdb.RPush(t.Context(), k.Queue, ours)
	rdb.ZAdd(t.Context(), k.Deadlines, redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: ours})
	for _, silent := range []bool{false, true} {
		listening, problems := 0, []inspect.Trouble{inspect.DeadQueue}
		if silent {
			listening, problems = -1, nil
			proxy.Stop()
		}
		cluster := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: srv.Addr()}, {Addr: proxy.Addr()}}}}, nil
			},
		})
		l := look(t, newInspector(t, cluster, nil), "queue")
		require.NoError(t, cluster.Close())
		require.Equal(t, listening, l.Queue[0].Listening)
		require.Equal(t, problems, troubles(l))
	}
}
