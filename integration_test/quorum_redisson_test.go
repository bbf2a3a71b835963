package integration_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestQuorumSharedWithRedisson plays Redisson's lock at each master, as its locks over several
// servers take it, by what it sends (recorded from Redisson 4.7): a lock voted by ours is taken for
// it everywhere, its locks at a majority keep ours out, and its unlock wakes us.
func TestQuorumSharedWithRedisson(t *testing.T) {
	masters := redistest.StartMasters(t, 3)
	rdbs := directly(t, masters)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := redlock.New(quorumOf(t, nil, addrsOf(masters)...), "foo")
	const owner, channel = "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "redisson_lock__channel:{foo}"
	lock := func(i int) any {
		return rdbs[i].Eval(ctx, `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil end
			return redis.call('pttl', KEYS[1])`, []string{"foo"}, 30000, owner).Val()
	}
	free := func() bool { return strings.Join(holdersOf(ctx, rdbs, "foo"), "") == "" }

	h, err := m.Lock(ctx)
	require.NoError(t, err)
	for i := range rdbs {
		require.Eventually(t, func() bool { return holdersOf(ctx, rdbs, "foo")[i] == h.Owner() }, patience,
			time.Millisecond)
		require.Positive(t, lock(i), "refused, with the milliseconds that are left")
	}
	require.NoError(t, h.Unlock(ctx))
	require.Eventually(t, free, patience, time.Millisecond)

	require.Nil(t, lock(0))
	require.Nil(t, lock(2))
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	granted := make(chan error, 1)
	go func() {
		h, err := m.Lock(ctx)
		if err == nil {
			err = h.Unlock(ctx)
		}
		granted <- err
	}()
	for _, rdb := range rdbs {
		require.Eventually(t, func() bool { return rdb.PubSubNumSub(ctx, channel).Val()[channel] == 1 }, patience,
			time.Millisecond)
	}
	require.Equal(t, owner, holdersOf(ctx, rdbs, "foo")[0], "not touched")
	for _, i := range []int{0, 2} {
		require.NoError(t, rdbs[i].Del(ctx, "foo").Err())
		require.NoError(t, rdbs[i].Publish(ctx, channel, "0").Err())
	}
	require.NoError(t, <-granted)
	require.Eventually(t, free, patience, time.Millisecond)
	for i := range rdbs {
		require.Nil(t, lock(i), "nothing of ours is left")
	}
}
