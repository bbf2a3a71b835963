package kindtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// witnessed has all participants of a test observed, unless it observes them itself, and looks at what
// was told when they have been closed.
func (s *subject) witnessed() {
	client, w := s.kind.Client, &s.witness
	s.Cleanup(func() { // after those by which the clients are closed
		if !s.Failed() {
			require.Eventually(s, func() bool { return w.Wrong() == nil }, patience, time.Millisecond, "%v", (*later)(w))
		}
	})
	s.kind.Client = func(t *testing.T, opts *holdfast.Options) Client { return client(t, s.seen(opts)) }
}

// seen are the options of a participant that is observed by the test, unless it is by somebody else.
func (s *subject) seen(opts *holdfast.Options) *holdfast.Options {
	var o holdfast.Options
	if opts != nil {
		o = *opts
	}
	if o.Observer == nil {
		o.Observer = s.witness.Observer()
	}
	return &o
}

// later is what is wrong when it is printed.
type later Witness

func (w *later) String() string { return (*Witness)(w).Wrong().Error() }

// calls waits for the ends of all grants that an observer has heard of so far, and returns the calls.
func (s *subject) told(w *Witness) []Call {
	s.Helper()
	s.eventually("every end is told", func() bool { return w.Wrong() == nil })
	return w.Calls()
}

// observed: one answer for each call and one end for each hold, with what is known of it.
func observed(s *subject) {
	var w Witness
	c := s.kind.Client(s.T, &holdfast.Options{Lease: s.kind.Lease, Observer: w.Observer()})
	mine, other := c.New(s.name), s.locker()

	h := s.lock(s.Context(), mine)
	inner := s.reenter(h, mine)
	s.leave(inner)
	s.eventually("it is renewed", func() bool { return w.Renewals(s.name) > 0 })
	s.unlock(h)
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrReleased)
	calls := s.told(&w)
	first := calls[0]
	require.Equal(s, holdfast.WaitEvent{Kind: s.of(), Name: s.name}, first.Wait)
	require.Equal(s, holdfast.GrantEvent{
		Kind: s.of(), Name: s.name, Owner: h.Owner(), Token: h.Token(), Count: 1, How: holdfast.Asked, Waited: first.Granted.Waited,
	}, *first.Granted)
	require.Positive(s, first.Granted.Waited)
	require.Equal(s, "released", why(first.Ended.Reason))
	require.NoError(s, first.Ended.Err)
	require.Positive(s, first.Ended.Held)
	s.eventually("scripts are told", func() bool { return w.Scripts() > 0 || s.kind.Memory })
	if inner != nil {
		require.Equal(s, holdfast.Reentered, calls[1].Granted.How)
		require.Equal(s, 2, calls[1].Granted.Count)
		require.Equal(s, "released", why(calls[1].Ended.Reason))
	}

	n := len(calls)
	theirs := s.lock(s.Context(), other)
	_, err := mine.TryLock(s.Context())
	require.Error(s, err)
	calls = s.told(&w)[n:]
	require.Len(s, calls, 1)
	require.True(s, calls[0].Wait.Once)
	require.ErrorIs(s, calls[0].Refused.Err, holdfast.ErrNotAcquired)

	waiter := s.waiting(s.Context(), mine)
	s.unlock(theirs)
	h = waiter.Hold()
	last := func(calls []Call) Call { return calls[len(calls)-1] }
	require.True(s, last(w.Calls()).Granted.Contended || s.kind.Members != "", "it had to wait")
	s.unlock(h)
	require.Equal(s, "released", why(last(s.told(&w)).Ended.Reason))

	plain := s.lock(s.Context(), mine, holdfast.NoRenewal())
	require.ErrorIs(s, Ended(s, plain), holdfast.ErrLost)
	require.Equal(s, "lost", why(last(s.told(&w)).Ended.Reason), "at the end of its lease")
	require.NoError(s, last(w.Calls()).Ended.Err, "nobody has unlocked")

	h = s.lock(s.Context(), mine)
	require.NoError(s, c.Close(context.Background()))
	require.Equal(s, "closed", why(last(s.told(&w)).Ended.Reason))
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrClosed)
	require.NoError(s, w.Wrong())
}

// observedLoss: a loss that a renewal finds, and one that Unlock finds.
func observedLoss(s *subject) {
	for _, byUnlock := range []bool{false, true} {
		var w Witness
		o := holdfast.Options{Observer: w.Observer()}
		if !byUnlock {
			o.Lease = s.kind.Lease
		}
		s.name += "+"
		h := s.lock(s.Context(), s.kind.Client(s.T, &o).New(s.name))
		s.kind.Lose(s.T, s.name)
		if !byUnlock {
			require.ErrorIs(s, Ended(s, h), holdfast.ErrLost)
		}
		require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
		calls := s.told(&w)
		require.Len(s, calls, 1)
		require.Equal(s, "lost", why(calls[0].Ended.Reason))
		require.Equal(s, byUnlock, calls[0].Ended.Err != nil)
	}
}

// of is the kind that events have: a multilock is none, its members are.
func (s *subject) of() string {
	if s.kind.Members != "" {
		return s.kind.Members
	}
	return s.kind.Name
}
