package integration_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// TestRedissonFairOrder: 32 waiters of Go and Java are granted the lock in the order of the queue,
// several times.
func TestRedissonFairOrder(t *testing.T) {
	t.Parallel()
	for range 3 {
		want, got := mixedCrowd(t)
		require.Len(t, want, 32)
		require.Equal(t, want, got)
	}
}

// TestRedissonFairOrderControl: a release that hands the lock to the last one is seen.
func TestRedissonFairOrderControl(t *testing.T) {
	t.Parallel()
	want, got := mixedCrowd(t, mutant.Hook(lua.FairRelease,
		"local deadline = hears(first)\n  if deadline then return hand(first, 1, deadline) end",
		"local last = call('LINDEX', queue, -1)\n  if hears(last) then return hand(last, 2, hears(last)) end\n  local deadline"))
	require.ElementsMatch(t, want, got)
	require.NotEqual(t, want, got)
}

// mixedCrowd queues 32 waiters, 16 on each side, of four clients each, in pairs: GGJJGGJJ has every
// kind of hand-over. It returns the queue and the grants.
func mixedCrowd(t *testing.T, hooks ...redis.Hook) (want, got []string) {
	t.Helper()
	s := newShared(t)
	const clients, waiters = 4, 32
	var ours [clients]*fairlock.Mutex
	var theirs [clients]*java
	for i := range clients {
		ours[i], theirs[i] = s.mutex(hooks...), newJava(t, s.rdb, "java"+string(rune('a'+i)))
	}
	h := s.mustHold(ours[0])
	for i := range waiters {
		if i/2%2 == 0 {
			want = append(want, s.wait(ours[i/4%clients]))
		} else {
			want = append(want, s.waitJava(theirs[i/8%clients], i))
		}
	}
	require.Equal(t, want, s.queue())
	s.mustEnd()
	require.NoError(t, h.Unlock(t.Context()))
	s.group.Wait()
	require.Zero(t, s.rdb.Exists(t.Context(), javaName, javaQueue, javaEnds).Val(),
		"nothing is left behind but the token")
	s.mustEnd()
	return want, s.order()
}

// TestRedissonFairLateSubscribe: Redisson's waiter is handed the lock after it has taken its place
// and before it listens.
func TestRedissonFairLateSubscribe(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(0), lateSubscribe(t), "granted once: one unlock frees it")
}

// TestRedissonFairLateSubscribeControls: handed over as count 1 it would be locked for ever after
// its unlock; passed over for want of a listener it would lose its turn.
func TestRedissonFairLateSubscribeControls(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(1), lateSubscribe(t, mutant.Hook(lua.FairRelease, "id and '1' or '0'", "'1'")))
	require.Equal(t, int64(-1), lateSubscribe(t, mutant.Hook(lua.FairRelease,
		"    local deadline = ends(owner)\n    if not deadline or deadline <= now then return nil end\n",
		"    if not id and call('PUBSUB', 'NUMSUB', channel .. ':' .. owner)[2] == 0 then return nil end\n    local deadline = ends(owner)\n")))
}

// lateSubscribe returns the waiter's count when it has unlocked once, or -1 if it was not handed
// the lock.
func lateSubscribe(t *testing.T, hooks ...redis.Hook) (count int64) {
	t.Helper()
	s := newShared(t)
	h, j := s.mustHold(s.mutex(hooks...)), newJava(t, s.rdb, "java")
	count = -1
	err := j.lock(s.ctx, 7, func() {
		require.NoError(t, h.Unlock(s.ctx))
		if handed := s.rdb.HGet(s.ctx, javaName, j.owner(7)); handed.Err() == nil {
			count = 0
		}
	})
	require.NoError(t, err)
	require.Greater(t, s.rdb.PTTL(s.ctx, javaName).Val(), javaLease/2, "its own attempt has given it the whole lease")
	require.Empty(t, s.queue())
	if j.unlock(s.ctx, 7) != nil && count == 0 {
		count, err = s.rdb.HGet(s.ctx, javaName, j.owner(7)).Int64()
		require.NoError(t, err)
	}
	return count
}
