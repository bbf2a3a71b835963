package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestSharedWithRedisson plays the Java side by what it sends (recorded from Redisson 4.7): its
// lock keeps ours out, its unlock wakes us, ours keeps it out and wakes it.
func TestSharedWithRedisson(t *testing.T) {
	srv := redistest.Start(t)
	java := srv.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := rlock.New(newClient(t, srv.Client(t), nil), "foo")
	const owner = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	lock := func() any {
		return java.Eval(ctx, `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil end
			return redis.call('pttl', KEYS[1])`, []string{"foo"}, 30000, owner).Val()
	}
	require.Nil(t, lock())
	granted := waitFor(ctx, t, m)
	const channel = "redisson_lock__channel:{foo}"
	require.Eventually(t, func() bool { return java.PubSubNumSub(ctx, channel).Val()[channel] == 1 }, patience,
		time.Millisecond)
	require.NoError(t, java.Del(ctx, "foo").Err())
	require.NoError(t, java.Publish(ctx, channel, "0").Err())
	<-granted

	h, err := m.Lock(ctx)
	require.NoError(t, err)
	require.Positive(t, lock(), "refused, with the milliseconds that are left")
	sub := java.Subscribe(ctx, channel)
	defer sub.Close()
	_, err = sub.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
	msg, err := sub.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, "0", msg.Payload)
	require.Nil(t, lock())
}
