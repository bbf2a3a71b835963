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
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Owners as they stand in Redis.
const (
	ours   = "11111111-2222-4333-8444-555555555555:h1"
	theirs = "99999999-2222-4333-8444-555555555555:17"
)

// testProblems: what looks wrong is said, and what only looks strange is not.
func testProblems(t *testing.T, rdb redis.UniversalClient) {
	ctx, i := context.Background(), newInspector(t, rdb, nil)
	now := rdb.Time(ctx).Val()
	place := func(d time.Duration) float64 { return float64(now.Add(d).UnixMilli()) }
	set := func(name string, more ...string) {
		rdb.Set(ctx, keys.For(name).Token, now.UnixMicro(), time.Hour)
		for _, command := range more {
			var args []any
			for word := range strings.FieldsSeq(command) {
				args = append(args, word)
			}
			require.NoError(t, rdb.Do(ctx, args...).Err(), command)
		}
	}
	set("no-end", "HSET no-end "+ours+" 1")
	set("not-a-lock", "HSET not-a-lock colour red size 4")
	set("of-modes", "HSET of-modes mode read path /etc size 77")
	set("another-type", "RPUSH another-type x")
	set("no-number", "SET no-number x PX 60000")
	set("no-owner", "HSET no-owner mode read", "PEXPIRE no-owner 60000")
	set("bad-token", "HSET bad-token "+ours+" 1", "PEXPIRE bad-token 60000", "SET "+keys.For("bad-token").Token+" seven")
	set("endless-token", "HSET endless-token "+ours+" 1", "PEXPIRE endless-token 60000", "SET "+keys.For("endless-token").Token+" 99999999999999999999")
	set("wrong-type", "HSET wrong-type "+ours+" 1", "PEXPIRE wrong-type 60000", "SET "+keys.For("wrong-type").Queue+" x")
	set("of-redisson", "HSET of-redisson "+theirs+" 1", "PEXPIRE of-redisson 60000")
	set("count-0", "HSET count-0 "+theirs+" 0", "PEXPIRE count-0 60000")
	set("their-timeout", "HSET their-timeout "+ours+" 1", "PEXPIRE their-timeout 60000", "SET {their-timeout}:timeout x")
	set("lost-number")
	rdb.ZAdd(ctx, keys.ForPermits("lost-number").Ends, redis.Z{Score: place(time.Minute), Member: ours})
	set("writers", "HSET writers mode read "+theirs+" 1", "PEXPIRE writers 60000")
	rdb.ZAdd(ctx, keys.ForReadWrite("writers").Writers, redis.Z{Score: place(time.Minute), Member: ours},
		redis.Z{Score: place(-time.Second), Member: theirs})
	set("dead")
	set("ended")
	for name, d := range map[string]time.Duration{"dead": time.Minute, "ended": -time.Second} {
		rdb.RPush(ctx, keys.For(name).Queue, ours, theirs)
		rdb.ZAdd(ctx, keys.For(name).Deadlines, redis.Z{Score: place(d), Member: ours}, redis.Z{Score: place(d), Member: theirs})
	}
	rdb.HSet(ctx, "no-token", ours, 1)
	rdb.PExpire(ctx, "no-token", time.Minute)
	rdb.HSet(ctx, "redisson's", theirs, 1)
	rdb.PExpire(ctx, "redisson's", time.Minute)
	rdb.HSet(ctx, "rw-redisson's", "mode", "read", theirs, 1)
	rdb.PExpire(ctx, "rw-redisson's", time.Minute)
	rdb.HSet(ctx, "user:1", "name", "x", "mode", "dark")

	want := map[string][]inspect.Trouble{
		"no-end": {inspect.NoEnd}, "not-a-lock": {inspect.NotALock}, "another-type": {inspect.NotALock}, "no-number": {inspect.NotALock},
		"of-modes": {inspect.NotALock}, "endless-token": {inspect.BadToken},
		"no-owner": {inspect.NoOwner}, "bad-token": {inspect.BadToken}, "wrong-type": {inspect.WrongType}, "of-redisson": nil,
		"count-0": nil, "their-timeout": nil, "lost-number": {inspect.NoOwner}, "dead": {inspect.DeadQueue}, "ended": {inspect.DeadQueue},
		"writers": {inspect.DeadQueue},
	}
	check := func(locks []inspect.Lock) {
		got := map[string][]inspect.Trouble{}
		for _, l := range locks {
			got[l.Name] = troubles(l)
			for _, p := range l.Problems {
				require.NotContains(t, p.Text, "\n")
			}
		}
		require.Equal(t, want, got)
	}
	check(list(t, i, inspect.Query{}))
	want["no-token"], want["redisson's"], want["rw-redisson's"] = []inspect.Trouble{inspect.NoToken}, nil, nil
	all := list(t, i, inspect.Query{Redisson: true})
	check(all)
	require.Len(t, all, len(want), "each once")

	require.True(t, look(t, i, "redisson's").Holders[0].Redisson)
	require.Zero(t, look(t, i, "dead").Queue[0].Listening)
	require.Equal(t, 2, look(t, i, "dead").Waiters)
	require.Zero(t, look(t, i, "ended").Waiters)
	require.Equal(t, 1, look(t, i, "writers").Waiters, "whose places count")
	require.Len(t, look(t, i, "writers").Queue, 2)
	require.Equal(t, time.Duration(-1e6), look(t, i, "no-end").Remaining)
	endless := look(t, i, "endless-token")
	require.Zero(t, endless.Token)
	require.True(t, endless.Granted().IsZero())
}

// testWaiterListens is the control of dead queues: the same places are alive while somebody listens.
func testWaiterListens(t *testing.T, rdb redis.UniversalClient) {
	ctx, i := context.Background(), newInspector(t, rdb, nil)
	k := keys.For("queue")
	rdb.Set(ctx, k.Token, 5000, time.Hour)
	rdb.RPush(ctx, k.Queue, theirs)
	rdb.ZAdd(ctx, k.Deadlines, redis.Z{Score: float64(rdb.Time(ctx).Val().Add(time.Minute).UnixMilli()), Member: theirs})
	require.Equal(t, []inspect.Trouble{inspect.DeadQueue}, troubles(look(t, i, "queue")))
	redistest.Subscribed(t, rdb, k.Mailbox(theirs)) // a classic one, also in a cluster
	l := look(t, i, "queue")
	require.Empty(t, l.Problems)
	require.Equal(t, 1, l.Queue[0].Listening)
}

// TestListsAreBounded: of many holders and waiters the first ones are told, and how many there are.
func TestListsAreBounded(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx, i := context.Background(), newInspector(t, rdb, &inspect.Options{List: 8})
	const fill = `for i = 1, 10000 do
		local owner = '11111111-2222-4333-8444-555555555555:h' .. i
		redis.call('RPUSH', KEYS[1], owner) redis.call('ZADD', KEYS[2], ARGV[1], owner)
		redis.call('HSET', KEYS[3], owner, 1) redis.call('ZADD', KEYS[4], ARGV[1], owner)
		end redis.call('HSET', KEYS[3], 'mode', 'read') redis.call('PEXPIRE', KEYS[3], 60000) redis.call('SET', KEYS[5], 0)
		redis.call('HSET', KEYS[6], 'x', string.rep('y', 1000000)) return 1`
	ends := rdb.Time(ctx).Val().Add(time.Minute).UnixMilli()
	require.NoError(t, rdb.Eval(ctx, fill, []string{
		keys.For("fair").Queue, keys.For("fair").Deadlines, "rw", keys.ForPermits("sem").Ends, "sem", "foreign",
	}, ends).Err())
	fair, rw, sem, foreign := look(t, i, "fair"), look(t, i, "rw"), look(t, i, "sem"), look(t, i, "foreign")
	require.Equal(t, 10000, fair.Waiters)
	require.Len(t, fair.Queue, 8)
	require.Len(t, sem.Holders, 8)
	require.Equal(t, int64(10000), sem.Permits.Out)
	require.LessOrEqual(t, len(rw.Holders), 8)
	require.NotEmpty(t, rw.Holders)
	for _, l := range []inspect.Lock{fair, rw, sem} {
		require.True(t, l.More, l.Kind)
	}
	require.Equal(t, inspect.Foreign, foreign.Kind)
	require.False(t, foreign.More)
}

// TestEndLeavesOthersData: somebody's hash with a mode is not a read-write lock, and none of its many fields is a hold.
func TestEndLeavesOthersData(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	i := newInspector(t, rdb, &inspect.Options{List: 8})
	const fill = `redis.call('HSET', KEYS[1], 'mode', 'read', 'path', '/etc', 'size', 77)
		redis.call('HSET', KEYS[2], 'mode', 'read', 'size', 77)
		for i = 1, 5000 do redis.call('HSET', KEYS[2], '11111111-2222-4333-8444-555555555555:h' .. i, 1) end return 1`
	require.NoError(t, rdb.Eval(t.Context(), fill, []string{"few", "many"}).Err())
	for _, name := range []string{"few", "many"} {
		require.Error(t, kindtest.Err(i.End(t.Context(), name, inspect.Grant{Owner: "size"})))
		require.Equal(t, "77", rdb.HGet(t.Context(), name, "size").Val(), name)
	}
	require.Equal(t, inspect.Foreign, look(t, i, "few").Kind)
}

// TestUnreadableOnce: a lock that the server refuses to show is told once, however it was found, and nothing unknown is said.
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

// TestRefusedConnection: a server that lets nobody in has answered. go-redis leaves a pipeline's commands without an error then.
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
