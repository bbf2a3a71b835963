package redlock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestHoldAtLeast: every master keeps the lock for its time, whether the hold is unlocked or its
// client closed, and one master that is out of reach meanwhile does not change that.
func TestHoldAtLeast(t *testing.T) {
	for _, how := range []string{"unlocked", "closed", "unlocked without one master"} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, 3)
			p := l.party(nil)
			m := p.mutex(uniqueName(t), redlock.TrustRestarts())
			h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Hour))
			require.NoError(t, err)
			eventually(t, "all have granted it", func() bool { return l.held(m.Name()) == 3 })
			switch how {
			case "closed":
				require.NoError(t, p.clients[0].Close(t.Context()))
			case "unlocked without one master":
				p.proxies[1].Silence(true)
				require.NoError(t, h.Unlock(t.Context()))
				p.proxies[1].Silence(false)
			default:
				require.NoError(t, h.Unlock(t.Context()))
			}
			for _, c := range p.clients {
				require.NoError(t, c.Close(t.Context())) // joins what is done in the background
			}
			require.Equal(t, 3, l.held(m.Name()))
			for _, rdb := range l.direct {
				require.Greater(t, rdb.PTTL(t.Context(), m.Name()).Val(), time.Hour-time.Minute)
			}
			_, err = l.party(nil).mutex(m.Name(), redlock.TrustRestarts()).TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		})
	}
}

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
	p := l.party(&holdfast.Options{Lease: 3 * time.Second})
	m, join := p.mutex(uniqueName(t)), joins[how]
	join.before(l, p, m.Name())
	h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, err)
	join.after(l, p, m.Name())
	eventually(t, "joined", func() bool { return l.direct[2].HExists(t.Context(), m.Name(), h.Owner()).Val() })
	require.NoError(t, h.Unlock(t.Context()))
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
			require.True(t, len(left) == 2 || left[0] <= 3*time.Second, left)
		})
	}
}

// lateAndLeft has a holder leave a lock that is to stay for a minute, while the network keeps an
// extension by an hour. It returns for how long the masters keep the lock when that has come to
// each.
func lateAndLeft(t *testing.T, hooks ...redis.Hook) []time.Duration {
	t.Helper()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{RetryBudget: 100 * time.Millisecond})
	for _, rdb := range p.rdbs {
		for _, hook := range hooks {
			rdb.AddHook(hook)
		}
	}
	m := p.mutex(uniqueName(t))
	h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Minute))
	require.NoError(t, err)
	eventually(t, "all have granted it", func() bool { return l.held(m.Name()) == 3 })
	var kept []*faultproxy.Rule
	for i, proxy := range p.proxies {
		require.NoError(t, l.direct[i].ScriptLoad(t.Context(), lua.Renew.Text()).Err())
		kept = append(kept, proxy.DelayRequest(faultproxy.Script(lua.Renew.Hash()), 1, time.Hour))
	}
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), holdfast.ErrUncertain)
	for _, rule := range kept {
		<-rule.Fired()
	}
	require.NoError(t, h.Unlock(t.Context()))
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context()))
	}
	for i, rule := range kept {
		before := l.masters[i].CommandCalls(t)["hexists"] // the script's question whose the lock is
		rule.Release()
		eventually(t, "it has come", func() bool { return l.masters[i].CommandCalls(t)["hexists"] > before })
	}
	return l.left(m.Name())
}

// TestHoldAtLeastNoLonger: what the network kept does not lengthen the time for which the lock was
// left. The control: as long as the hash has the owner it does.
func TestHoldAtLeastNoLonger(t *testing.T) {
	left := lateAndLeft(t)
	require.Len(t, left, 3)
	require.LessOrEqual(t, left[2], time.Minute)
	left = lateAndLeft(t, mutant.Hook(lua.Leave, "':h0%1'", "':h%1'"))
	require.Greater(t, left[0], time.Hour-time.Minute)
}

// joining has a lock that is to stay for an hour unlocked while a master is asked to take it back.
// Neither the answer to that comes, nor does that master hear that the lock is left. It returns for
// how long each keeps it then.
func joining(t *testing.T) []time.Duration {
	t.Helper()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{Lease: 3 * time.Second, RetryBudget: 100 * time.Millisecond})
	m := p.mutex(uniqueName(t))
	h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Hour), redlock.MasterTimeout(100*time.Millisecond))
	require.NoError(t, err)
	eventually(t, "all have granted it", func() bool { return l.held(m.Name()) == 3 })
	votes := p.proxies[2].On(faultproxy.Script(lua.Vote.Hash()), 1, faultproxy.HoldReply)
	p.proxies[2].On(faultproxy.Script(lua.Leave.Hash()), 0, faultproxy.DropRequest)
	require.NoError(t, l.direct[2].Del(t.Context(), m.Name()).Err())
	<-votes.Fired()
	require.NoError(t, h.Unlock(t.Context()))
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
}

// The control: a lock that need not stay is.
func TestHoldAtLeastJoiningControl(t *testing.T) {
	t.Cleanup(defence.Stay.Without(t))
	require.Empty(t, joining(t))
}
