package lua

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestRunWaitIsOneConnection: the replica stands still, so it has nothing of what is written now, and nobody counts it. Control:
// a WAIT that takes another connection of the same client counts it.
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

	_, err = Run(ctx, rdb, call)
	require.NoError(t, err)
	require.EqualValues(t, 1, rdb.Wait(ctx, 1, millis*time.Millisecond).Val(), "control")
}

// manyConns makes some connections that take turns.
func manyConns(ctx context.Context, t *testing.T, rdb *redis.Client) {
	t.Helper()
	for range 8 {
		conn := rdb.Conn()
		defer conn.Close()
		require.NoError(t, conn.Ping(ctx).Err())
	}
}

// TestRunWaitErrors: of the script, of the wait, and of a replica that says "not held" of what it does not have.
func TestRunWaitErrors(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	primary, replica := r.Primary().Client(t), r.Replicas()[0].Client(t)
	ctx := t.Context()
	call := Recount.Call("a", "owner", 1, time.Minute.Milliseconds())
	reply, _, err := RunWait(ctx, primary, call, "wait", 0, 0)
	require.NoError(t, err)
	require.Equal(t, Gone, reply.Status)
	_, _, err = RunWait(ctx, replica, call, "wait", 0, 0)
	require.ErrorContains(t, err, "WAIT cannot be used with replica instances")
	_, _, err = RunWait(ctx, primary, call, "ping")
	require.ErrorContains(t, err, "PONG")
	require.NoError(t, primary.Set(ctx, "a", "text", 0).Err())
	_, _, err = RunWait(ctx, primary, call, "wait", 0, 0)
	require.True(t, IsError(err, "WRONGTYPE"), "%v", err)
}
