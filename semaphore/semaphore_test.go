package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestPermits: all or none, by several clients, with growing tokens, and everything is given back.
func TestPermits(t *testing.T) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	one, err := a.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, one.Count())
	two, err := b.Acquire(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, two.Count())
	require.Greater(t, two.Token(), one.Token())
	require.Zero(t, l.free())
	_, err = b.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	s, err := a.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, s.Permits)
	require.Zero(t, s.Free)
	counts := map[string]int{}
	for _, h := range s.Holders {
		counts[h.Owner] = h.Count
		require.Greater(t, h.Remaining, 10*time.Second)
	}
	require.Equal(t, map[string]int{one.Owner(): 1, two.Owner(): 2}, counts)
	unlock(t, one)
	_, err = b.TryAcquire(t.Context(), 2)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.Equal(t, 1, l.free(), "none, where not all")
	again, err := b.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	unlock(t, two, again)
	l.settled()
}

// TestNothingIsReentered: a hold is an owner of its own, also under the context of another.
func TestNothingIsReentered(t *testing.T) {
	l := newLab(t, 2)
	s := l.process(nil)
	ctx := holdfast.WithOwner(t.Context())
	one, err := s.Lock(ctx)
	require.NoError(t, err)
	two, err := s.Lock(one.Context())
	require.NoError(t, err)
	require.NotEqual(t, one.Owner(), two.Owner())
	_, err = s.TryLock(two.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	unlock(t, one, two)
	l.settled()
}

// TestBadNumbers are refused before anything is sent, and what the semaphore does not have is refused
// by the server, at once.
func TestBadNumbers(t *testing.T) {
	l := newLab(t, 3)
	s := l.process(nil)
	for _, n := range []int{0, -1, 1 << 40} {
		_, err := s.Acquire(t.Context(), n)
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, "n is ")
		require.ErrorIs(t, s.SetPermits(t.Context(), n), holdfast.ErrInvalid)
		_, err = semaphore.New(newClient(t, l.rdb, nil), l.name, n).Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, "permits is ")
	}
	_, err := s.TryAcquire(t.Context(), 10_001)
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "n is 10001; use at least 1 and at most 10000")
	require.Zero(t, l.rdb.Exists(t.Context(), l.name).Val())
	for _, opt := range []holdfast.Option{holdfast.HoldAtLeast(time.Second), holdfast.Keep(time.Second)} {
		_, err := s.Lock(t.Context(), opt)
		require.ErrorIs(t, err, holdfast.ErrInvalid)
	}
	_, err = s.Acquire(t.Context(), 4)
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "4 permits were asked for")
	require.ErrorContains(t, err, "has 3")
	l.settled()
	var none *semaphore.Semaphore
	_, err = none.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrInvalid)
}

// TestArrival: who came first is served first, over clients, and who wants many is not passed by who
// wants one, who asks later or does not wait.
func TestArrival(t *testing.T) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	var held []*holdfast.Hold
	for range 3 {
		h, err := a.Lock(t.Context())
		require.NoError(t, err)
		held = append(held, h)
	}
	many := acquire(t.Context(), b, 3)
	l.waiting(1)
	first := acquire(t.Context(), a, 1)
	l.waiting(2)
	second := acquire(t.Context(), b, 1)
	l.waiting(3)
	unlock(t, held[0], held[1])
	require.Equal(t, 2, l.free())
	_, err := a.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "two are free, for who waits")
	require.Empty(t, first)
	unlock(t, held[2])
	h := granted(t, many)
	require.Empty(t, first)
	l.waiting(2)
	unlock(t, h)
	one, two := granted(t, first), granted(t, second)
	require.Greater(t, two.Token(), one.Token())
	unlock(t, one, two)
	l.settled()
}

// TestALeaverLetsTheOthersIn: who stops waiting makes room for those behind it at once.
func TestALeaverLetsTheOthersIn(t *testing.T) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	h, err := a.Acquire(t.Context(), 2)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	many := acquire(ctx, a, 3)
	l.waiting(1)
	one := acquire(t.Context(), b, 1)
	l.waiting(2)
	cancel()
	r := await(t, many)
	require.ErrorIs(t, r.err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, r.err, context.Canceled)
	unlock(t, granted(t, one), h)
	l.settled()
}

// TestSetPermits: more are handed out at once; of fewer nothing is granted until enough came back, and
// who waits for more than there are is told.
func TestSetPermits(t *testing.T) {
	l := newLab(t, 2)
	a, b := l.process(nil), l.process(nil)
	h, err := a.Acquire(t.Context(), 2)
	require.NoError(t, err)
	waits := []<-chan result{acquire(t.Context(), a, 1)}
	l.waiting(1)
	waits = append(waits, acquire(t.Context(), b, 1))
	l.waiting(2)
	require.NoError(t, b.SetPermits(t.Context(), 4))
	one, two := granted(t, waits[0]), granted(t, waits[1])
	many := acquire(t.Context(), a, 3)
	l.waiting(1)
	last := acquire(t.Context(), b, 1)
	l.waiting(2)
	require.NoError(t, b.SetPermits(t.Context(), 1))
	s, err := a.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, [...]int{1, -3, 1}, [...]int{s.Permits, s.Free, s.Waiters})
	require.ErrorIs(t, await(t, many).err, holdfast.ErrInvalid)
	unlock(t, h, one) // one is out, of one
	require.Empty(t, last)
	unlock(t, two)
	unlock(t, granted(t, last))
	l.permits = 1
	l.settled()
}

// TestTheServersNumberCounts: not that of whoever comes later.
func TestTheServersNumberCounts(t *testing.T) {
	l := newLab(t, 2)
	h, err := l.process(nil).Lock(t.Context())
	require.NoError(t, err)
	l.permits = 5
	_, err = l.process(nil).TryAcquire(t.Context(), 2)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NoError(t, l.rdb.Del(t.Context(), l.name).Err(), "as if it were evicted")
	four, err := l.process(nil).TryAcquire(t.Context(), 4)
	require.NoError(t, err, "those that are out are known still")
	require.Zero(t, l.free())
	unlock(t, h, four)
	l.settled()
}

// TestEveryKeyEnds.
func TestEveryKeyEnds(t *testing.T) {
	l := newLab(t, 1)
	a, b := l.process(nil), l.process(nil)
	h, err := a.Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	waits := acquire(ctx, b, 1)
	l.waiting(1)
	keys, err := l.rdb.Keys(t.Context(), "*"+l.name+"*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 5)
	for _, key := range keys {
		require.Positive(t, l.rdb.PTTL(t.Context(), key).Val(), key)
	}
	cancel()
	await(t, waits)
	unlock(t, h)
	l.settled()
}
