package rlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestLockAndUnlock(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	ctx := t.Context()

	before := time.Now()
	h, err := m.Lock(ctx)
	require.NoError(t, err)
	const trusted = holdfast.DefaultLease * 98 / 100
	require.WithinRange(t, h.Deadline(), before.Add(trusted), time.Now().Add(holdfast.DefaultLease))
	require.Equal(t, 1, h.Count())
	require.Regexp(t, "^"+c.ID()+`:h\d+$`, h.Owner())
	require.NotZero(t, h.Token())
	require.NoError(t, h.Context().Err())

	require.Equal(t, map[string]string{h.Owner(): "1"}, rdb.HGetAll(ctx, m.Name()).Val(),
		"the hash as Redisson keeps it")
	s, err := m.State(ctx)
	require.NoError(t, err)
	require.Equal(t, h.Owner(), s.Owner)
	require.Equal(t, 1, s.Count)
	require.Equal(t, h.Token(), s.Token)
	require.Equal(t, -1, s.Waiters)
	require.InDelta(t, holdfast.DefaultLease, s.Remaining, float64(time.Second*5))

	require.NoError(t, h.Unlock(ctx))
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrReleased)
	require.True(t, free(t, rdb, m.Name()))
	s, err = m.State(ctx)
	require.NoError(t, err)
	require.Equal(t, holdfast.State{Token: h.Token(), Waiters: -1}, s)

	err = h.Unlock(ctx)
	require.ErrorIs(t, err, holdfast.ErrReleased, "a second call is harmless and says so")
	require.EqualError(t, err, `rlock: unlock "`+m.Name()+`": lock released`)
}

func TestOneOwnerSeveralGoroutines(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	ctx := holdfast.WithOwner(t.Context())
	holds := make(chan *holdfast.Hold, 20)
	var group sync.WaitGroup
	for range cap(holds) {
		group.Go(func() {
			h, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			holds <- h
		})
	}
	group.Wait()
	close(holds)
	depths := map[int]bool{}
	var owner string
	for h := range holds {
		owner = h.Owner()
		depths[h.Count()] = true
		require.Equal(t, 20-len(depths)+1, count(t, rdb, m.Name(), owner))
		require.NoError(t, h.Unlock(ctx))
	}
	require.Len(t, depths, 20, "each re-entry has a depth of its own")
	require.True(t, free(t, rdb, m.Name()))

	again, err := m.Lock(ctx)
	require.NoError(t, err)
	require.Equal(t, owner, again.Owner(), "the owner is the context's")
	require.NoError(t, again.Unlock(ctx))
}

func TestOwnerHoldsSeveralNames(t *testing.T) {
	c, _ := shared(t, nil)
	a, b := rlock.New(c, uniqueName(t)+"a"), rlock.New(c, uniqueName(t)+"b")
	first, err := a.Lock(t.Context())
	require.NoError(t, err)
	second, err := b.Lock(first.Context())
	require.NoError(t, err)
	require.Equal(t, first.Owner(), second.Owner())
	require.Equal(t, 1, second.Count())
	require.NoError(t, second.Unlock(t.Context()))
	require.NoError(t, first.Unlock(t.Context()))
}

func TestGivingUp(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	h, err := m.Lock(t.Context())
	require.NoError(t, err)

	_, err = m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the context of the call has no deadline")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = m.Lock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	why := errors.New("why")
	caused, giveUp := context.WithCancelCause(t.Context())
	giveUp(why)
	_, err = m.Lock(caused)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, err, why)

	var op *holdfast.Error
	require.ErrorAs(t, err, &op)
	require.Equal(t, holdfast.Error{Op: "lock", Kind: "rlock", Name: m.Name(), Err: op.Err}, *op)

	require.NoError(t, h.Unlock(t.Context()))
	h, err = m.Lock(t.Context(), holdfast.Wait(time.Minute))
	require.NoError(t, err)
	_, limited := h.Context().Deadline()
	require.False(t, limited, "the hold does not inherit the limit of the wait")
	require.NoError(t, h.Unlock(t.Context()))
	require.True(t, free(t, rdb, m.Name()))
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

func TestForceUnlock(t *testing.T) {
	c, rdb := shared(t, nil)
	other, _ := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	there, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.False(t, there)

	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	granted := make(chan error, 1)
	go func() {
		h, err := rlock.New(other, m.Name()).Lock(t.Context())
		if err == nil {
			err = h.Unlock(t.Context())
		}
		granted <- err
	}()
	awaitSubscriber(t, rdb, m.Name())
	there, err = m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, <-granted, "waiters are woken")
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost, "a holder of the same client is told at once")
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
}

// TestDoWithoutTheKey: the key was deleted while the function ran.
func TestDoWithoutTheKey(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	err := holdfast.Do(t.Context(), m, func(ctx context.Context) error {
		return rdb.Del(ctx, m.Name()).Err()
	})
	require.ErrorIs(t, err, holdfast.ErrLost, "nil only if held from start to end")
}

// TestSyncLockerOfNil: it panics, as it cannot return an error.
func TestSyncLockerOfNil(t *testing.T) {
	require.PanicsWithValue(t, "holdfast: unlock of unlocked lock of nil", holdfast.SyncLocker(t.Context(), nil).Unlock)
	require.Panics(t, holdfast.SyncLocker(t.Context(), nil).Lock)
}
