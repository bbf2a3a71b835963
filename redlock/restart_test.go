package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/redlock"
)

// A master without its data is asked at the next renewal to take the hold back, with count and token, for a later unlock.
func TestMasterIsJoinedAgain(t *testing.T) {
	t.Parallel()
	l, _, m := newParty(t, 5, &holdfast.Options{Lease: 3 * time.Second})
	h := l.everywhere(m)
	inner := take(h.Context(), t, m.Lock)
	for _, i := range []int{0, 4} { // the home too
		l.masters[i].Restart()
	}
	for _, i := range []int{0, 4} {
		eventually(t, "joined again", func() bool {
			return l.direct[i].HGet(t.Context(), m.Name(), h.Owner()).Val() == "2"
		})
		require.Equal(t, itoa(h.Token()), l.direct[i].Get(t.Context(), "redisson_lock_token:{"+m.Name()+"}").Val())
		require.Positive(t, l.direct[i].PTTL(t.Context(), m.Name()).Val())
	}
	// A minority that the hold stands on without those that came back.
	require.NoError(t, h.Context().Err())
	unlock(t, inner, h)
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
}

// The control: without it the master stays without the hold.
func TestMasterIsJoinedAgainControl(t *testing.T) {
	t.Cleanup(defence.Join.Without(t))
	l := newLab(t, 3)
	m := l.process(&holdfast.Options{Lease: 3 * time.Second}).mutex(uniqueName(t))
	h := lock(t, m)
	l.masters[0].Restart()
	begin := h.Deadline()
	eventually(t, "renewed a few times", func() bool { return h.Deadline().After(begin.Add(2 * time.Second)) })
	require.Zero(t, l.direct[0].Exists(t.Context(), m.Name()).Val())
	unlock(t, h)
}

// rolling restarts the two masters that a hold was won at, one when the vote of the other counts again, and returns how the
// hold ended, if it did. The first restart is soon after that, and the third master has granted the lock a moment before.
func rolling(t *testing.T) error {
	const lease = 3 * time.Second
	l := newLab(t, 3)
	p := l.process(&holdfast.Options{Lease: lease})
	p.proxies[2].Stop()
	m := p.mutex(uniqueName(t))
	h := lock(t, m)
	p.proxies[2].Start()
	for _, i := range []int{1, 0} {
		eventually(t, "everywhere", func() bool { return l.held(m.Name()) == 3 || h.Context().Err() != nil })
		l.masters[i].Restart()
		counts := time.Now().Add(lease + 2*time.Second) // ages are told in seconds
		eventually(t, "renewed until its vote counts",
			func() bool { return h.Deadline().After(counts.Add(lease/2)) || h.Context().Err() != nil })
	}
	if cause := context.Cause(h.Context()); cause != nil {
		return cause
	}
	return h.Unlock(t.Context())
}

// A hold survives that its masters are restarted one after the other without their data.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	require.NoError(t, rolling(t))
}

// The control: if each of them might have granted the lock to others all the time it would be lost.
func TestRollingRestartControl(t *testing.T) {
	t.Cleanup(defence.Anew.Without(t))
	require.ErrorIs(t, rolling(t), holdfast.ErrLost)
}

// forgotten has a process hold the lock by masters 0, 1 and 2 alone, and has 2 forget it. The two
// others come back, and another process asks. It returns what became of that.
func forgotten(t *testing.T, knew bool, opts ...holdfast.Option) (second *holdfast.Hold, err error) {
	l := newLab(t, 5)
	name := uniqueName(t)
	lease := &holdfast.Options{Lease: 20 * time.Second, RetryBudget: 300 * time.Millisecond}
	a, b := l.process(lease), l.process(lease)
	if knew {
		require.NoError(t, use(t.Context(), b.mutex("other")))
	}
	for _, i := range []int{3, 4} {
		a.proxies[i].Stop()
	}
	h := lock(t, a.mutex(name))
	require.Equal(t, 3, l.held(name))
	l.masters[2].Restart()
	for _, i := range []int{3, 4} {
		a.proxies[i].Start()
	}
	second, err = b.mutex(name, opts...).TryLock(t.Context())
	require.NoError(t, h.Context().Err(), "the first one still holds it")
	if err == nil {
		unlock(t, second)
		return second, nil
	}
	eventually(t, "nothing of the second one is left", func() bool {
		for _, owner := range l.holders(name) {
			for id := range owner {
				if id != h.Owner() {
					return false
				}
			}
		}
		return true
	})
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost, "two masters of five know of it")
	return nil, err
}

// A master that restarted without its data does not vote, so that there are not two holders.
func TestDelayedRestart(t *testing.T) {
	t.Parallel()
	for name, knew := range map[string]bool{"it was known before": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			second, err := forgotten(t, knew)
			require.Nil(t, second)
			tells(t, err, holdfast.ErrNotAcquired, "of 5 masters agreed, and 3 have to; 1 (")
			require.ErrorContains(t, err, "): granted, but it started ")
		})
	}
}

// The controls: with the rule switched off, by the option or altogether, there are two.
func TestDelayedRestartControl(t *testing.T) {
	require.NoError(t, kindtest.Err(forgotten(t, true, redlock.TrustRestarts())))
	t.Cleanup(defence.Restarts.Without(t))
	for _, knew := range []bool{true, false} {
		require.NoError(t, kindtest.Err(forgotten(t, knew)))
	}
}

// besieged has a process hold the lock by three masters of five, one of which loses its data; all but two then name another
// owner, as while that one asks for it. It returns how the hold ends, nil if it goes on when the other has given them back.
func besieged(t *testing.T) error {
	l := newLab(t, 5)
	a := l.process(&holdfast.Options{Lease: 9 * time.Second})
	m := a.mutex(uniqueName(t))
	require.NoError(t, use(t.Context(), a.mutex("other"))) // it knows all masters
	for _, i := range []int{3, 4} {
		a.proxies[i].Stop()
	}
	h := lock(t, m)
	before := h.Deadline()
	a.proxies[2].Stop()
	l.masters[2].Restart()
	for i := 2; i < 5; i++ {
		l.give(i, m.Name(), "somebody:h1", time.Minute)
	}
	votes := isVote
	asked := a.proxies[2].Seen(votes)
	for i := 2; i < 5; i++ {
		a.proxies[i].Start()
	}
	eventually(t, "they are asked together, and again", func() bool {
		all := true
		for _, proxy := range a.proxies[2:] {
			all = all && proxy.Seen(votes) >= asked+4 // two may be one: by its hash, and by its text
		}
		return all || h.Context().Err() != nil
	})
	for i := 2; i < 5; i++ {
		require.NoError(t, l.direct[i].Del(t.Context(), m.Name()).Err())
	}
	eventually(t, "renewed or lost", func() bool { return h.Deadline().After(before) || h.Context().Err() != nil })
	if err := context.Cause(h.Context()); err != nil {
		return err
	}
	return h.Unlock(t.Context())
}

// Who asks for the lock in the moment in which a master has lost it is not taken for one who has it.
func TestRivalAtARestartedMaster(t *testing.T) {
	level.ForAll(t) // TestDelayedRestart has the control of the same defence
	require.NoError(t, besieged(t))
	// The control: without the rule that such a master does not count.
	t.Cleanup(defence.Restarts.Without(t))
	require.ErrorIs(t, besieged(t), holdfast.ErrLost)
}

// A master that restarted votes again after a lease.
func TestRestartedMasterVotesAgain(t *testing.T) {
	t.Parallel()
	l, _, m := newParty(t, 3, &holdfast.Options{Lease: 4 * time.Second, RetryBudget: 100 * time.Millisecond})
	require.NoError(t, lockOnce(t.Context(), m))
	l.masters[0].Restart()
	l.masters[1].Restart()
	tells(t, kindtest.Err(m.Lock(t.Context())), "its vote counts in", not(holdfast.ErrNotAcquired))
	eventually(t, "it votes", func() bool {
		h, err := m.TryLock(t.Context())
		return err == nil && h.Unlock(t.Context()) == nil
	})
}

// A server that does not say since when it runs does not vote, unless restarts are trusted.
func TestInfoIsDenied(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	for _, rdb := range l.direct {
		require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err())
	}
	p := l.process(&holdfast.Options{RetryBudget: 500 * time.Millisecond})
	m := p.mutex(uniqueName(t))
	_, err := m.Lock(t.Context())
	tells(t, err, "does not tell since when it runs", "NOPERM")
	require.False(t, errors.Is(err, holdfast.ErrNotAcquired))
	eventually(t, "nothing is left", func() bool { return l.held(m.Name()) == 0 })
	require.NoError(t, use(t.Context(), p.mutex(m.Name(), redlock.TrustRestarts())))
}

// Masters that are all new, and were never met before, can be used at once: also if two of five
// cannot be reached, or are held by somebody who left them behind.
func TestNewMasters(t *testing.T) {
	t.Parallel()
	eachOutage(t, func(t *testing.T, o outage) {
		l := newLab(t, 5)
		a, b := l.process(nil), l.process(nil)
		m := b.mutex(uniqueName(t))
		h := lock(t, a.mutex(m.Name()))
		for _, i := range []int{0, 4} {
			o.on(l, a, i)
		}
		unlock(t, h)
		require.NoError(t, lockOnce(t.Context(), m))
	})
	t.Run("held by hand", func(t *testing.T) {
		l := newLab(t, 5)
		for n := 1; n <= 3; n++ {
			name := uniqueName(t)
			for i := range n {
				l.give(i, name, "somebody:1", time.Minute)
			}
			_, err := l.process(nil).mutex(name, redlock.MasterTimeout(5*time.Second)).TryLock(t.Context())
			require.Equal(t, n == 3, errors.Is(err, holdfast.ErrNotAcquired), err)
			require.Equal(t, n < 3, err == nil, err)
		}
	})
}
