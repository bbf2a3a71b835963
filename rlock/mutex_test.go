package rlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestHash: what a lock is in Redis, as Redisson keeps it, and that the state says so.
func TestHash(t *testing.T) {
	c, rdb := shared(t, nil)
	m, own := rlock.New(c, uniqueName(t)), holdfast.WithOwner(t.Context())
	h := take(own, t, m.Lock)
	require.Equal(t, map[string]string{h.Owner(): "1"}, rdb.HGetAll(t.Context(), m.Name()).Val())
	s, err := m.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Owner: h.Owner(), Count: 1, Token: h.Token(), Remaining: s.Remaining, Waiters: -1}, s)
	unlock(t, h)
	require.True(t, free(t, rdb, m.Name()))
	s, err = m.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Token: h.Token(), Waiters: -1}, s)
	again := take(own, t, m.Lock)
	second := take(own, t, rlock.New(c, uniqueName(t)+"-second").Lock)
	require.Equal(t, h.Owner(), again.Owner(), "the owner is the context's")
	require.Equal(t, h.Owner(), second.Owner(), "for each name")
	unlock(t, again, second)
}

// TestForceUnlockLeavesOthersAlone: what is at the name and is no lock is not deleted.
func TestForceUnlockLeavesOthersAlone(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	for _, field := range []string{"name", "mode", "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47:write"} {
		require.NoError(t, rdb.HSet(t.Context(), m.Name(), field, "Ann", "balance", 100).Err())
		there, err := m.ForceUnlock(t.Context())
		require.ErrorContains(t, err, "not released: its key has no time to live, and ")
		require.False(t, there)
		require.Equal(t, int64(1), rdb.Del(t.Context(), m.Name()).Val(), "it is still there")
	}
}

// TestSyncLockerOfNil: it panics, as it cannot return an error.
func TestSyncLockerOfNil(t *testing.T) {
	require.PanicsWithValue(t, "holdfast: unlock of unlocked lock of nil", holdfast.SyncLocker(t.Context(), nil).Unlock)
	require.Panics(t, holdfast.SyncLocker(t.Context(), nil).Lock)
}
