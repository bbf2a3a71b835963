package redlock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// left is for how long the masters keep a lock still, shortest first. Masters that do not have it
// are not among them.
func (l *lab) left(name string) (list []time.Duration) {
	for _, rdb := range l.direct {
		if d := rdb.PTTL(l.Context(), name).Val(); d > 0 {
			list = append(list, d)
		}
	}
	slices.Sort(list)
	return list
}

// joins are how a master comes to grant a lock to who holds it already, with what is to be done
// before and after the lock is got.
var joins = map[string]struct {
	before, after func(l *lab, p *party, name string)
}{
	"has forgotten it": {
		before: func(*lab, *party, string) {},
		after:  func(l *lab, _ *party, name string) { require.NoError(l, l.direct[2].Del(l.Context(), name).Err()) },
	},
	"was started anew": {
		before: func(*lab, *party, string) {},
		after:  func(l *lab, _ *party, _ string) { l.masters[2].Restart() },
	},
	"was out of reach": {
		before: func(_ *lab, p *party, _ string) { p.proxies[2].Stop() },
		after:  func(_ *lab, p *party, _ string) { p.proxies[2].Start() },
	},
	"was a rival's": {
		before: func(l *lab, _ *party, name string) {
			require.NoError(l, l.direct[2].HSet(l.Context(), name, "rival:h1", 1).Err())
		},
		after: func(l *lab, _ *party, name string) { require.NoError(l, l.direct[2].Del(l.Context(), name).Err()) },
	},
}

// joined has a lock that is to stay for an hour unlocked when a master has joined the holder. It
// returns for how long each keeps it then.
func joined(t *testing.T, how string) []time.Duration {
	t.Helper()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{Lease: long})
	m, join := p.mutex(uniqueName(t)), joins[how]
	join.before(l, p, m.Name())
	h := lock(t, m, holdfast.HoldAtLeast(time.Hour))
	join.after(l, p, m.Name())
	eventually(t, "joined", func() bool {
		require.NoError(t, h.Extend(t.Context(), time.Second)) // which asks all masters
		return l.direct[2].HExists(t.Context(), m.Name(), h.Owner()).Val()
	})
	unlock(t, h)
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context())) // joins what is done in the background
	}
	return l.left(m.Name())
}

// TestHoldAtLeastJoined: a master that grants the lock later than the others keeps it for as long.
func TestHoldAtLeastJoined(t *testing.T) {
	for how := range joins {
		t.Run(how, func(t *testing.T) {
			left := joined(t, how)
			require.Len(t, left, 3)
			require.Greater(t, left[0], time.Hour-time.Minute)
			require.LessOrEqual(t, left[2], time.Hour)
		})
	}
}

// The control: without that it has the lock for a lease, and whoever unlocks does not make it
// longer.
func TestHoldAtLeastJoinedControl(t *testing.T) {
	t.Cleanup(defence.JoinStays.Without(t))
	for how := range joins {
		t.Run(how, func(t *testing.T) {
			left := joined(t, how)
			require.GreaterOrEqual(t, len(left), 2)
			require.True(t, len(left) == 2 || left[0] <= long, left)
		})
	}
}

// joining has a lock that is to stay for an hour unlocked while a master is asked to take it back.
// Neither the answer to that comes, nor does that master hear that the lock is left. It returns for
// how long each keeps it then.
func joining(t *testing.T) []time.Duration {
	t.Helper()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{Lease: long, RetryBudget: 100 * time.Millisecond})
	m := p.mutex(uniqueName(t))
	h := lock(t, m, holdfast.HoldAtLeast(time.Hour), redlock.MasterTimeout(2*time.Second))
	eventually(t, "all have granted it", func() bool { return l.held(m.Name()) == 3 })
	votes := p.proxies[2].On(faultproxy.Script(lua.Vote.Hash()), 1, faultproxy.HoldReply)
	p.proxies[2].On(faultproxy.Script(lua.Leave.Hash()), 0, faultproxy.DropRequest)
	require.NoError(t, l.direct[2].Del(t.Context(), m.Name()).Err())
	for asked := false; !asked; {
		select {
		case <-votes.Fired():
			asked = true
		default:
			require.NoError(t, h.Extend(t.Context(), time.Second))
		}
	}
	unlock(t, h)
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context())) // joins what is done in the background
	}
	return l.left(m.Name())
}

// TestHoldAtLeastJoining: what a master may have granted at the last moment is not given back.
func TestHoldAtLeastJoining(t *testing.T) {
	left := joining(t)
	require.Len(t, left, 3)
	require.Greater(t, left[0], time.Hour-time.Minute)

	// The control: a lock that need not stay is.
	t.Cleanup(defence.Stay.Without(t))
	require.Empty(t, joining(t))
}
