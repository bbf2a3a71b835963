package lua

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestRunWaitIsOneConnection: the replica stands still, so it has nothing of what is written now,
// and nobody counts it. Control: a WAIT that takes another connection of the same client counts it.
func TestRunWaitIsOneConnection(t *testing.T) {
	const millis = 300
	r := redistest.StartReplicated(t, 1)
	r.Primary().Command(t, "WAIT", "1", "0") // a replica counts when it has spoken for the first time
	rdb := r.Client(t, func(o *redis.Options) { o.PoolFIFO = true })
	ctx := t.Context()
	call := Recount.Call("a", "owner", 1, time.Minute.Milliseconds())
	require.NoError(t, rdb.HSet(ctx, "a", "owner", 1).Err())
	manyConns(ctx, t, rdb) // before a write that the replica has
	reply, n, err := RunWait(ctx, rdb, call, "wait", 1, 0)
	require.NoError(t, err)
	require.Equal(t, Done, reply.Status)
	require.EqualValues(t, 1, n)

	r.Replicas()[0].Pause()
	reply, n, err = RunWait(ctx, rdb, call, "wait", 1, millis)
	require.NoError(t, err)
	require.Equal(t, Done, reply.Status)
	require.Zero(t, n)

	require.NoError(t, RunAll(ctx, rdb, []Call{call})[0].Err)
	pipe := rdb.Pipeline()
	waited := pipe.Do(ctx, "wait", 1, millis)
	_, err = pipe.Exec(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, waited.Val(), "control")
}

// manyConns makes some connections for pipelines, which take turns from then on.
func manyConns(ctx context.Context, t *testing.T, rdb *redis.Client) {
	t.Helper()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			pipe := rdb.Pipeline()
			pipe.BLPop(ctx, 200*time.Millisecond, "nothing") // so that the others need one of their own
			if _, err := pipe.Exec(ctx); !errors.Is(err, redis.Nil) {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// TestRunWaitErrors: of the script, of the wait, and of a replica.
func TestRunWaitErrors(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	primary, replica := r.Primary().Client(t), r.Replicas()[0].Client(t)
	ctx := t.Context()
	call := Recount.Call("a", "owner", 1, time.Minute.Milliseconds())
	reply, _, err := RunWait(ctx, primary, call, "wait", 0, 0)
	require.NoError(t, err)
	require.Equal(t, Gone, reply.Status)
	_, _, err = RunWait(ctx, replica, call, "wait", 0, 0)
	require.True(t, IsError(err, "READONLY"), "%v", err)
	_, _, err = RunWait(ctx, replica, State.Call("a", "token"), "wait", 0, 0)
	require.ErrorContains(t, err, "WAIT cannot be used with replica instances")
	_, _, err = RunWait(ctx, primary, call, "ping")
	require.ErrorContains(t, err, "PONG")
	require.NoError(t, primary.Set(ctx, "a", "text", 0).Err())
	_, _, err = RunWait(ctx, primary, call, "wait", 0, 0)
	require.True(t, IsError(err, "WRONGTYPE"), "%v", err)
}
