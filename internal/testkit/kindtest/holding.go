package kindtest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

func aGrant(s *subject) {
	c := s.client()
	l := c.New(s.name)
	require.Equal(s, s.name, l.Name())
	s.free(c)
	h := s.lock(s.Context(), l)
	require.Regexp(s, "^"+c.ID+`:h\d+$`, h.Owner())
	require.Equal(s, 1, h.Count())
	require.NotZero(s, h.Token())
	require.Less(s, h.Token(), uint64(1)<<53)
	require.True(s, h.Deadline().After(time.Now().Add(holdfast.DefaultLease-patience)))
	require.True(s, h.Deadline().Before(time.Now().Add(holdfast.DefaultLease)), "trusted for less than the lease")
	require.NoError(s, h.Context().Err())
	s.held(c, h, 1)
	state := s.state(c)
	require.Positive(s, state.Remaining)
	require.LessOrEqual(s, state.Remaining, holdfast.DefaultLease)

	s.unlock(h)
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrReleased)
	require.Zero(s, h.Deadline())
	s.free(c)
	require.Equal(s, h.Token(), s.state(c).Token, "the last token is known")
}

func exclusion(s *subject) {
	a, b := s.locker(), s.locker()
	first := Take(s.Context(), s, a.TryLock)
	_ = Refused(s.Context(), s, b.TryLock)
	_ = Refused(s.Context(), s, a.TryLock) // another owner of the same client
	require.NoError(s, first.Context().Err())
	s.unlock(first)
	second := Take(s.Context(), s, b.TryLock)
	require.Greater(s, second.Token(), first.Token())
	require.NotEqual(s, first.Owner(), second.Owner())
	s.unlock(second)
}

func crowd(s *subject) {
	const clients, goroutines, rounds = 3, 4, 10
	var inside, grants atomic.Int32
	var last atomic.Uint64
	var group sync.WaitGroup
	for range clients {
		l := s.locker()
		work := func(ctx context.Context) error {
			assert.EqualValues(s, 1, inside.Add(1), "holders")
			defer inside.Add(-1)
			if s.kind.Once {
				grants.Add(1)
				return nil
			}
			h, err := l.Lock(ctx)
			if err != nil {
				return err
			}
			assert.Less(s, last.Swap(h.Token()), h.Token(), "tokens")
			grants.Add(1)
			return h.Unlock(ctx)
		}
		for range goroutines {
			group.Go(func() {
				for range rounds {
					assert.NoError(s, holdfast.Do(s.Context(), l, work))
				}
			})
		}
	}
	group.Wait()
	require.EqualValues(s, clients*goroutines*rounds, grants.Load())
	s.free(s.client())
}

func reentry(s *subject) {
	c := s.client()
	outer := s.lock(s.Context(), c.New(s.name))
	inner := s.lock(outer.Context(), c.New(s.name))
	tried := Take(inner.Context(), s, c.New(s.name).TryLock)
	for i, h := range []*holdfast.Hold{outer, inner, tried} {
		require.Equal(s, i+1, h.Count())
		require.Equal(s, outer.Owner(), h.Owner())
		require.Equal(s, outer.Token(), h.Token())
	}
	s.held(c, outer, 3)

	s.unlock(tried)
	s.unlock(inner)
	require.ErrorIs(s, context.Cause(inner.Context()), holdfast.ErrReleased)
	require.Zero(s, inner.Deadline())
	require.NoError(s, outer.Context().Err(), "the outer hold goes on")
	require.True(s, outer.Deadline().After(time.Now()))
	s.held(c, outer, 1)
	_ = Refused(s.Context(), s, s.locker().TryLock)
	s.unlock(outer)
	s.free(c)
}

// hastyReentry: an owner that has the lock is not told that somebody else has it. (A kind that asks first and looks at the
// time then may let it in.)
func hastyReentry(s *subject) {
	c := s.client()
	l := c.New(s.name)
	h := s.lock(s.Context(), l)
	for range 20 {
		again, err := l.Lock(h.Context(), holdfast.Wait(time.Nanosecond))
		if err == nil {
			s.unlock(again)
			continue
		}
		require.ErrorIs(s, err, holdfast.ErrUnavailable)
		require.NotErrorIs(s, err, holdfast.ErrNotAcquired)
	}
	s.held(c, h, 1)
	s.unlock(h)
	s.free(c)
}

func newOwner(s *subject) {
	c := s.client()
	l := c.New(s.name)
	own := holdfast.WithOwner(s.Context())
	h := s.lock(own, l)
	again := s.lock(own, l)
	require.Equal(s, h.Owner(), again.Owner())
	require.Equal(s, 2, again.Count())
	s.unlock(again)
	for what, ctx := range map[string]context.Context{
		"a plain context":       s.Context(),
		"WithOwner":             holdfast.WithOwner(s.Context()),
		"WithOwner in the hold": holdfast.WithOwner(h.Context()),
	} {
		_, err := l.TryLock(ctx)
		require.ErrorIs(s, err, holdfast.ErrNotAcquired, what)
		_, err = l.Lock(ctx, holdfast.Wait(0))
		require.ErrorIs(s, err, holdfast.ErrNotAcquired, what)
	}
	s.held(c, h, 1)
	s.unlock(h)
	again = s.lock(own, l)
	require.Equal(s, 1, again.Count())
	require.Greater(s, again.Token(), h.Token())
	s.unlock(again)
}

func oneOwner(s *subject) {
	const goroutines = 20
	c := s.client()
	l, ctx := c.New(s.name), holdfast.WithOwner(s.Context())
	var calls []*Pending
	for range goroutines {
		calls = append(calls, Begin(ctx, s, l.Lock))
	}
	depths := map[int]bool{}
	var holds []*holdfast.Hold
	for _, call := range calls {
		h := call.Hold()
		require.Equal(s, 1, len(depths)-len(holds)+1, "each has a depth of its own")
		depths[h.Count()], holds = true, append(holds, h)
	}
	require.Len(s, depths, goroutines)
	for i, h := range holds {
		s.held(c, h, goroutines-i)
		s.unlock(h)
	}
	s.free(c)
}

func severalNames(s *subject) {
	c := s.client()
	first := s.lock(s.Context(), c.New(s.name))
	second := s.lock(first.Context(), c.New(s.name+"-second"))
	require.Equal(s, 1, second.Count())
	if again := s.reenter(second, c.New(s.name)); again != nil {
		require.Equal(s, 2, again.Count(), "the owner of both holds")
		s.unlock(again)
	}
	s.unlock(first)
	s.free(c)
	require.ErrorIs(s, context.Cause(second.Context()), holdfast.ErrReleased, "it derives from the first")
	s.unlock(second)
}

func renewal(s *subject) {
	c := s.kind.Client(s.T, &holdfast.Options{Lease: s.kind.Lease})
	h := s.lock(s.Context(), c.New(s.name))
	first := h.Deadline()
	s.eventually("more than a lease later", func() bool { return h.Deadline().Sub(first) > s.kind.Lease })
	require.NoError(s, h.Context().Err())
	s.held(c, h, 1)
	s.unlock(h)
}

func noRenewal(s *subject) {
	c := s.client()
	h := s.lock(s.Context(), c.New(s.name, holdfast.NoRenewal()), holdfast.Lease(s.kind.Lease))
	deadline := h.Deadline()
	why := Ended(s, h)
	require.False(s, time.Now().Before(deadline), "not before its time")
	require.ErrorIs(s, why, holdfast.ErrLost)
	require.ErrorContains(s, why, "NoRenewal")
	require.NotContains(s, why.Error(), "could not be renewed", "it was not to be")
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
	s.eventually("the server's lease ends too", func() bool { return s.state(c).Owner == "" })
}

func extend(s *subject) {
	c := s.client()
	h := s.lock(s.Context(), c.New(s.name), holdfast.Lease(s.kind.Lease), holdfast.NoRenewal())
	lasts := func() {
		require.Greater(s, time.Until(h.Deadline()), 50*time.Minute)
		require.Greater(s, s.state(c).Remaining, 50*time.Minute)
	}
	require.NoError(s, h.Extend(s.Context(), time.Hour))
	lasts()
	require.NoError(s, h.Extend(s.Context(), time.Minute))
	lasts() // it never shortens the lease
	require.ErrorIs(s, h.Extend(s.Context(), 0), holdfast.ErrInvalid)
	inner := s.reenter(h, c.New(s.name))
	lasts() // nor does a re-entry
	s.leave(inner)
	s.unlock(h)
	require.ErrorIs(s, h.Extend(s.Context(), time.Minute), holdfast.ErrReleased)
}
