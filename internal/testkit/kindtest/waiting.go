package kindtest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

func refusal(s *subject) {
	h := s.lock(s.Context(), s.locker())
	_, err := s.locker().TryLock(s.Context())
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
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
	_, err := l.Lock(s.Context(), holdfast.Wait(0))
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	d := 20 * time.Millisecond
	for ; ; d *= 2 { // a busy machine may need longer than that for an answer
		start := time.Now()
		_, err = l.Lock(s.Context(), holdfast.Wait(d))
		require.GreaterOrEqual(s, time.Since(start), d)
		if !errors.Is(err, holdfast.ErrUnavailable) || d > patience {
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
	err := s.result(waiting).err
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	require.ErrorIs(s, err, why)

	_, err = l.Lock(ctx)
	require.ErrorIs(s, err, why, "it had ended before the call")
	_, err = l.TryLock(ctx)
	require.ErrorIs(s, err, why)
	s.unlock(h)
}

func giveUp(s *subject) {
	holder, c := s.client(), s.kind.Client(s.T, &holdfast.Options{Linger: time.Millisecond})
	h := s.lock(s.Context(), holder.New(s.name))
	ctx, cancel := context.WithCancel(s.Context())
	waiting := s.waiting(ctx, c.New(s.name))
	cancel()
	require.ErrorIs(s, s.result(waiting).err, context.Canceled)
	s.eventually("no subscription and no place in a queue is left", func() bool {
		return s.kind.Waiters(s.T, s.name) == 0
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
	inner := s.reenter(h, a.New(s.name))
	waiting := s.waiting(s.Context(), b.New(s.name))
	s.leave(inner)
	s.held(a, h, 1)
	s.unlock(h)
	next := s.granted(waiting) // long before the lease would end
	require.Greater(s, next.Token(), h.Token())
	s.held(a, next, 1)
	s.unlock(next)
	s.free(a)
}

func wakeupWithin(s *subject) {
	c := s.client()
	l := c.New(s.name)
	h := s.lock(s.Context(), l)
	first, second := background(s.Context(), l), background(s.Context(), c.New(s.name))
	s.unlock(h)
	var next *holdfast.Hold
	var other <-chan result
	select { // which of them called first is unknown
	case r := <-first:
		require.NoError(s, r.err)
		next, other = r.hold, second
	case r := <-second:
		require.NoError(s, r.err)
		next, other = r.hold, first
	case <-time.After(patience):
		require.Fail(s, "nobody is woken")
	}
	require.Greater(s, next.Token(), h.Token())
	require.NoError(s, next.Context().Err())
	s.unlock(next)
	last := s.granted(other)
	require.Greater(s, last.Token(), next.Token())
	s.unlock(last)
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

func holdAtLeast(s *subject) {
	const d = time.Hour
	c := s.client()
	l := c.New(s.name, holdfast.HoldAtLeast(d))
	h := s.lock(s.Context(), l)
	inner := s.lock(h.Context(), l)
	s.unlock(inner)
	s.unlock(h)
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrReleased)
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrReleased)
	state := s.state(c)
	require.Equal(s, h.Owner(), state.Owner)
	require.Equal(s, h.Token(), state.Token)
	require.Greater(s, state.Remaining, d-2*patience)
	_, err := l.TryLock(s.Context())
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	_, err = s.locker().TryLock(s.Context())
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	_, err = l.TryLock(h.Context())
	require.ErrorIs(s, err, holdfast.ErrUnavailable, "its context has ended")
}

func holdAtLeastEnds(s *subject) {
	const d = 500 * time.Millisecond
	a, b := s.client(), s.client()
	start := time.Now()
	own := holdfast.WithOwner(s.Context())
	h := s.lock(own, a.New(s.name), holdfast.HoldAtLeast(d))
	s.unlock(h)
	calls := []<-chan result{
		background(s.Context(), a.New(s.name)), background(s.Context(), b.New(s.name)), background(own, a.New(s.name)),
	}
	for range calls {
		var r result
		select {
		case r = <-calls[0]:
		case r = <-calls[1]:
		case r = <-calls[2]:
		case <-time.After(patience):
			require.Fail(s, "the lock stays taken")
		}
		require.NoError(s, r.err)
		require.GreaterOrEqual(s, time.Since(start), d)
		require.Greater(s, r.hold.Token(), h.Token())
		s.unlock(r.hold)
	}
	s.free(a)
}
