package inspect_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Owners as they stand in Redis.
const (
	ours   = "11111111-2222-4333-8444-555555555555:h1"
	theirs = "99999999-2222-4333-8444-555555555555:17"
)

// testProblems: what looks wrong is said, and what only looks strange is not.
func testProblems(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
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
		t.Helper()
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
	t.Helper()
	ctx, i := context.Background(), newInspector(t, rdb, nil)
	k := keys.For("queue")
	rdb.Set(ctx, k.Token, 5000, time.Hour)
	rdb.RPush(ctx, k.Queue, theirs)
	rdb.ZAdd(ctx, k.Deadlines, redis.Z{Score: float64(rdb.Time(ctx).Val().Add(time.Minute).UnixMilli()), Member: theirs})
	require.Equal(t, []inspect.Trouble{inspect.DeadQueue}, troubles(look(t, i, "queue")))
	sub := rdb.Subscribe(ctx, k.Mailbox(theirs)) // a classic one, also in a cluster
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(t, err)
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
