package kindtest

import (
	"context"
	"errors"
	"strings"
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

// hastyReentry: an owner is not told that another has its lock. (Kinds that ask before they look at the time may let it in.)
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
		Tells(s, err, holdfast.ErrUnavailable, Not(holdfast.ErrNotAcquired))
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
		require.ErrorIs(s, Err(l.TryLock(ctx)), holdfast.ErrNotAcquired, what)
		require.ErrorIs(s, Err(l.Lock(ctx, holdfast.Wait(0))), holdfast.ErrNotAcquired, what)
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
	Tells(s, why, holdfast.ErrLost, "NoRenewal")
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

func refusal(s *subject) {
	h := s.lock(s.Context(), s.locker())
	err := Refused(s.Context(), s, s.locker().TryLock)
	require.NotErrorIs(s, err, holdfast.ErrUnavailable)
	require.ErrorContains(s, err, "held by "+h.Owner()+", whose lease ha") // has or, on a busy machine, had
	var op *holdfast.Error
	require.ErrorAs(s, err, &op)
	require.Equal(s, holdfast.Error{Op: "try", Kind: s.kind.Name, Name: s.name, Err: op.Err}, *op)
	s.unlock(h)
}

func wait(s *subject) {
	c := s.client()
	h := s.lock(s.Context(), s.locker())
	l := c.New(s.name)
	_ = Refused(s.Context(), s, l.Lock, holdfast.Wait(0))
	var err error
	d := 20 * time.Millisecond
	for ; ; d *= 2 { // a busy machine may need longer than that to ask, and for an answer
		start := time.Now()
		_, err = l.Lock(s.Context(), holdfast.Wait(d))
		require.GreaterOrEqual(s, time.Since(start), d)
		if d > patience || !errors.Is(err, holdfast.ErrUnavailable) && strings.Contains(err.Error(), h.Owner()) {
			break
		}
	}
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	require.NotErrorIs(s, err, context.DeadlineExceeded, "the context of the call has no deadline")
	require.ErrorContains(s, err, h.Owner())
	var op *holdfast.Error
	require.ErrorAs(s, err, &op)
	require.Equal(s, holdfast.Error{Op: "lock", Kind: s.kind.Name, Name: s.name, Err: op.Err}, *op)
	s.unlock(h)

	h = s.lock(s.Context(), c.New(s.name, holdfast.Wait(time.Minute)))
	_, limited := h.Context().Deadline()
	require.False(s, limited, "the hold does not inherit the limit of the wait")
	s.unlock(h)
}

func endedWait(s *subject) {
	h := s.lock(s.Context(), s.locker())
	l := s.locker()
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(s.Context())
	waiting := s.waiting(ctx, l)
	cancel(why)
	Tells(s, waiting.Err(), holdfast.ErrNotAcquired, why)
	soon, end := context.WithTimeout(s.Context(), 20*time.Millisecond)
	defer end()
	require.ErrorIs(s, Err(l.Lock(soon)), context.DeadlineExceeded)
	require.ErrorIs(s, Err(l.Lock(ctx)), why, "it had ended before the call")
	require.ErrorIs(s, Err(l.TryLock(ctx)), why)
	s.unlock(h)
}

func giveUp(s *subject) {
	holder, c := s.client(), s.kind.Client(s.T, &holdfast.Options{Linger: time.Millisecond})
	h := s.lock(s.Context(), holder.New(s.name))
	ctx, cancel := context.WithCancel(s.Context())
	waiting := s.waiting(ctx, c.New(s.name))
	cancel()
	require.ErrorIs(s, waiting.Err(), context.Canceled)
	s.eventually("no subscription and no place in a queue is left", func() bool {
		return s.kind.Waiters(s.T, s.name) == 0 && s.state(holder).Waiters <= 0
	})
	s.held(holder, h, 1)
	s.unlock(h)
	s.free(holder)
	h = s.lock(s.Context(), holder.New(s.name))
	s.unlock(h)
	s.free(holder)
}

func wakeup(s *subject) {
	a, b := s.client(), s.client()
	h := s.lock(s.Context(), a.New(s.name))
	waiting := s.waiting(s.Context(), b.New(s.name))
	s.leave(s.reenter(h, a.New(s.name))) // past who waits
	s.held(a, h, 1)
	s.unlock(h)
	next := waiting.Hold() // long before the lease would end
	require.Greater(s, next.Token(), h.Token())
	s.held(a, next, 1)
	s.unlock(next)
	s.free(a)
}

func wakeupWithin(s *subject) {
	c := s.client()
	l := c.New(s.name)
	h := s.lock(s.Context(), l)
	calls := []*Pending{Begin(s.Context(), s, l.Lock), Begin(s.Context(), s, c.New(s.name).Lock)}
	s.unlock(h)
	last := h.Token()
	InTurn(s, func(h *holdfast.Hold) {
		require.Greater(s, h.Token(), last)
		require.NoError(s, h.Context().Err())
		last = h.Token()
	}, calls...)
	s.free(c)
}

func deadHolder(s *subject) {
	h := s.lock(s.Context(), s.locker(), holdfast.Lease(s.kind.Lease), holdfast.NoRenewal())
	c := s.client()
	next := s.lock(s.Context(), c.New(s.name)) // nobody tells of the end of the lease
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrLost, "the holder knows before anybody else is inside")
	require.Greater(s, next.Token(), h.Token())
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
	s.held(c, next, 1)
	s.unlock(next)
}

// holdAtLeast: when Unlock returns the hold has ended, and the server keeps the rest of the time, also beyond the lease.
func holdAtLeast(s *subject) {
	for _, d := range []time.Duration{2 * patience, time.Hour} {
		s.name += "+"
		c := s.kind.Client(s.T, &holdfast.Options{Lease: 3 * patience})
		l := c.New(s.name, holdfast.HoldAtLeast(d))
		before := time.Now()
		h := s.lock(s.Context(), l)
		granted := time.Now()
		require.Greater(s, s.state(c).Remaining, d-patience, "from the grant on")
		s.leave(s.reenter(h, l))
		s.unlock(h)
		require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrReleased)
		require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrReleased)
		state := s.state(c)
		end := time.Now().Add(state.Remaining + time.Millisecond) // a key lives through its last millisecond
		require.True(s, end.After(before.Add(d)), "not too early")
		require.True(s, end.Before(granted.Add(d+d/50+patience)), "nor much too late")
		require.Equal(s, h.Owner(), state.Owner)
		require.Equal(s, h.Token(), state.Token)
		_ = Refused(s.Context(), s, l.TryLock)
		_ = Refused(s.Context(), s, s.locker().TryLock)
		err := Err(l.TryLock(h.Context())) // whose context has ended
		Tells(s, err, holdfast.ErrReleased, Not(holdfast.ErrUnavailable), Not(holdfast.ErrNotAcquired))
		if c.Force != nil {
			there, err := s.client().Force(s.Context(), s.name)
			require.NoError(s, err)
			require.True(s, there)
			s.free(c)
		}
	}
}

// holdAtLeastFails: UnlockNow gives up what is left, and so does Do if it was asked to and its function fails.
func holdAtLeastFails(s *subject) {
	c := s.client()
	l := c.New(s.name, holdfast.HoldAtLeast(time.Hour))
	h := s.lock(s.Context(), l)
	inner := s.reenter(h, l)
	require.NoError(s, inner.UnlockNow(s.Context()), "the owner has it for another hold, too")
	require.ErrorIs(s, inner.UnlockNow(s.Context()), holdfast.ErrReleased)
	s.leave(s.reenter(h, l))
	require.Greater(s, s.state(c).Remaining, time.Hour-patience)
	require.NoError(s, h.UnlockNow(s.Context()))
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrReleased)
	require.ErrorIs(s, h.UnlockNow(s.Context()), holdfast.ErrReleased)
	s.free(c)

	h = s.lock(s.Context(), l)
	inner = s.reenter(h, l)
	require.NoError(s, inner.Unlock(s.Context()))
	require.ErrorIs(s, inner.UnlockNow(s.Context()), holdfast.ErrReleased, "and it gives up nothing of the other's")
	s.unlock(h)
	require.Greater(s, s.state(c).Remaining, time.Hour-patience)

	bad := errors.New("bad")
	fails := func(context.Context) error { return bad }
	s.name += "+"
	l = c.New(s.name, holdfast.HoldAtLeast(time.Hour))
	require.ErrorIs(s, holdfast.Do(s.Context(), l, fails, holdfast.ReleaseOnError()), bad)
	s.free(c)
	require.Panics(s, func() {
		_ = holdfast.Do(s.Context(), l, func(context.Context) error { panic("bad") }, holdfast.ReleaseOnError())
	})
	s.free(c)
	require.NoError(s, holdfast.Do(s.Context(), l, func(context.Context) error { return nil }, holdfast.ReleaseOnError()))
	require.Greater(s, s.state(c).Remaining, time.Hour-patience, "it did not fail")

	s.name += "+"
	require.ErrorIs(s, holdfast.Do(s.Context(), c.New(s.name, holdfast.HoldAtLeast(time.Hour)), fails), bad)
	require.Greater(s, s.state(c).Remaining, time.Hour-patience, "it was not asked to")
}

// holdAtLeastCalled: who is woken by the release has its own lock stay as well.
func holdAtLeastCalled(s *subject) {
	a, b := s.client(), s.client()
	h := s.lock(s.Context(), a.New(s.name))
	next := s.waiting(s.Context(), b.New(s.name), holdfast.HoldAtLeast(time.Hour))
	s.unlock(h)
	h = next.Hold()
	s.unlock(h)
	state := s.state(a)
	require.Equal(s, h.Owner(), state.Owner)
	require.Greater(s, state.Remaining, time.Hour-2*patience)
}

// holdAtLeastSoon: a waiter has a lock soon after its HoldAtLeast, not at the next poll. A busy machine is late, not always.
func holdAtLeastSoon(s *subject) {
	const d, soon = 200 * time.Millisecond, 800 * time.Millisecond
	for _, before := range []bool{true, false} { // somebody waits when the lock is left, or comes then
		took := soon
		for round := 0; took >= soon; round++ {
			require.Less(s, round, 10, "nobody has it for %v", took)
			s.name += "+"
			h := s.lock(s.Context(), s.locker(), holdfast.HoldAtLeast(d))
			granted, l := time.Now(), s.locker()
			var next *Pending
			if before {
				next = s.waiting(s.Context(), l)
				s.unlock(h)
			} else {
				s.unlock(h)
				next = Begin(s.Context(), s, l.Lock)
			}
			h = next.Hold()
			took = time.Since(granted)
			s.unlock(h)
		}
	}
}

func holdAtLeastEnds(s *subject) {
	const d = 500 * time.Millisecond
	a, b := s.client(), s.client()
	start := time.Now()
	own := holdfast.WithOwner(s.Context())
	h := s.lock(own, a.New(s.name), holdfast.HoldAtLeast(d))
	s.unlock(h)
	InTurn(s, func(next *holdfast.Hold) {
		require.GreaterOrEqual(s, time.Since(start), d)
		require.Greater(s, next.Token(), h.Token())
	}, Begin(s.Context(), s, a.New(s.name).Lock), Begin(s.Context(), s, b.New(s.name).Lock), Begin(own, s, a.New(s.name).Lock))
	s.free(a)
}
