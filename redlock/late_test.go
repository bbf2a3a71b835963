package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// never is how long a test watches that something does not happen.
const never = time.Second

// tokens has a token come from a master whose last one is far ahead, and returns it and that of a holder without that master.
func tokens(t *testing.T) (first, second uint64) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	name := uniqueName(t)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	require.NoError(t, l.direct[0].Set(t.Context(), "redisson_lock_token:{"+name+"}", ahead, time.Hour).Err())
	a.proxies[2].Stop()
	b.proxies[0].Stop()
	h := lock(t, a.mutex(name))
	require.Equal(t, ahead+1, h.Token())
	unlock(t, h)
	next := lock(t, b.mutex(name))
	unlock(t, next)
	return h.Token(), next.Token()
}

// A token that only one master knew is told to a majority before the grant counts, so the next one is greater.
func TestTokenIsTold(t *testing.T) {
	first, second := tokens(t)
	require.Greater(t, second, first)

	// The control.
	t.Cleanup(defence.Tell.Without(t))
	first, second = tokens(t)
	require.Less(t, second, first)
}

// A majority that grants the lock too late to be trusted is given back, and asked again.
func TestSlowMajority(t *testing.T) {
	l := newLab(t, 3)
	p := l.patient(&holdfast.Options{Lease: 3 * time.Second}, patience)
	require.NoError(t, lockOnce(t.Context(), p.mutex("warm")))
	for i, rdb := range l.direct { // three tokens, so that there are two rounds
		ahead := time.Now().Add(time.Duration(i+1) * time.Hour).UnixMicro()
		require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{slow}", ahead, time.Hour).Err())
	}
	var rules []*faultproxy.Rule
	for i, proxy := range p.proxies {
		for nth := 1; nth <= 2; nth++ {
			rules = append(rules, proxy.DelayReply(isVote, nth, time.Duration(1500+i)*time.Millisecond))
		}
	}
	before := p.votes()
	h := lock(t, p.mutex("slow", redlock.MasterTimeout(2500*time.Millisecond)))
	for _, r := range rules {
		require.Equal(t, 1, r.Count())
	}
	require.Greater(t, p.votes()-before, 6, "a third round, which is another election's")
	require.True(t, time.Now().Before(h.Deadline()))
	unlock(t, h)
}

// woken reports whether a waiter that is deaf to some of five masters, and does not look by itself, gets the lock within a time.
func woken(t *testing.T, within time.Duration, deaf ...int) bool {
	t.Cleanup(defence.LeaseEnd.Without(t))
	t.Cleanup(defence.CannotListen.Without(t))
	l := newLab(t, 5)
	holder, waiter := l.process(nil), l.process(nil)
	name := uniqueName(t)
	h := lock(t, holder.mutex(name))
	subscribes := faultproxy.Command("SUBSCRIBE")
	for _, i := range deaf {
		waiter.proxies[i].On(subscribes, 0, faultproxy.BlackHole) // also when it connects anew
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	granted := begin(ctx, t, waiter.mutex(name).Lock)
	eventually(t, "it listens, or wants to, as it has been refused the lock", func() bool {
		return !slices.ContainsFunc(l.all(), func(i int) bool {
			return l.listeners(name, i) == 0 && (!slices.Contains(deaf, i) || waiter.proxies[i].Seen(subscribes) == 0)
		})
	})
	unlock(t, h)
	begun := time.Now()
	eventually(t, "it has the lock, or its time is over", func() bool { return granted.Over() || time.Since(begun) > within })
	if !granted.Over() {
		return false
	}
	unlock(t, granted.Hold())
	return true
}

// A waiter is woken by the release, whichever masters it can hear.
func TestWaiterIsWoken(t *testing.T) {
	for _, deaf := range [][]int{nil, {0, 1, 2, 3}, {1, 2, 3, 4}} {
		require.True(t, woken(t, patience, deaf...), "deaf to %v", deaf)
	}
	require.False(t, woken(t, never, 0, 1, 2, 3, 4), "the control: one that hears none of them sleeps on")
}

// afterLeave has a lock of a long lease left with little time while the vote of one master is on its way, which comes when the
// leaving has found nothing there. It returns for how long that master then keeps the lock.
func afterLeave(t *testing.T) (kept time.Duration) {
	l := newLab(t, 3)
	eventually(t, "a vote that was late, and yet executed", func() bool { // else it refuses itself, on a busy machine
		p := l.patient(&holdfast.Options{Lease: long}, time.Minute)
		l.load(lua.Vote, lua.Leave)
		m := p.mutex(uniqueName(t), redlock.MasterTimeout(100*time.Millisecond), redlock.TrustRestarts())
		late := p.proxies[2].DelayRequest(isVote, 1, time.Hour)
		h, err := m.Lock(t.Context(), holdfast.HoldAtLeast(time.Minute))
		isIts := func(args []string) bool { return slices.Contains(args, h.Owner()) }
		// a tenth of a second is short here: an election may be lost, and the next one passes over the master that is silent
		if err != nil || !arrives(late.Fired()) || p.proxies[2].Seen(faultproxy.All(isVote, isIts)) != 1 {
			late.Release()
			return false
		}
		unlock(t, h)
		eventually(t, "left", func() bool { return p.proxies[2].Seen(kindtest.Script(lua.Leave)) > 0 })
		late.Release()
		p.close(t)
		kept = l.direct[2].PTTL(t.Context(), m.Name()).Val()
		return kept > 0
	})
	return kept
}

// arrives reports whether something that is expected at once has come.
func arrives(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// A vote that comes to a master after the lock was left is left too.
func TestVoteAfterLeave(t *testing.T) {
	require.LessOrEqual(t, afterLeave(t), time.Minute+time.Second)

	// The control.
	t.Cleanup(defence.LeaveLate.Without(t))
	require.Greater(t, afterLeave(t), time.Minute+time.Second)
}

// left is for how long the masters keep a lock still, shortest first. Masters that do not have it are not among them.
func (l *lab) left(name string) (list []time.Duration) {
	for _, rdb := range l.direct {
		if d := rdb.PTTL(l.Context(), name).Val(); d > 0 {
			list = append(list, d)
		}
	}
	slices.Sort(list)
	return list
}

// joins are how a master comes to grant a lock to its holder, with what is done before and after the lock is got.
var joins = map[string]struct {
	before, after func(l *lab, p *process, name string)
}{
	"has forgotten it": {
		before: func(*lab, *process, string) {},
		after:  func(l *lab, _ *process, name string) { require.NoError(l, l.direct[2].Del(l.Context(), name).Err()) },
	},
	"was started anew": {
		before: func(*lab, *process, string) {},
		after:  func(l *lab, _ *process, _ string) { l.masters[2].Restart() },
	},
	"was out of reach": {
		before: func(_ *lab, p *process, _ string) { p.proxies[2].Stop() },
		after:  func(_ *lab, p *process, _ string) { p.proxies[2].Start() },
	},
	"was a rival's": {
		before: func(l *lab, _ *process, name string) {
			require.NoError(l, l.direct[2].HSet(l.Context(), name, "rival:h1", 1).Err())
		},
		after: func(l *lab, _ *process, name string) { require.NoError(l, l.direct[2].Del(l.Context(), name).Err()) },
	},
}

// joined has a lock with an hour's HoldAtLeast unlocked after a master joined, and returns for how long each keeps it then.
func joined(t *testing.T, how string) []time.Duration {
	l := newLab(t, 3)
	p := l.process(&holdfast.Options{Lease: long})
	m, join := p.mutex(uniqueName(t)), joins[how]
	join.before(l, p, m.Name())
	h := begin(t.Context(), t, m.Lock, holdfast.HoldAtLeast(time.Hour)).Hold()
	join.after(l, p, m.Name())
	eventually(t, "joined", func() bool {
		require.NoError(t, h.Extend(t.Context(), time.Second)) // which asks all masters
		return l.direct[2].HExists(t.Context(), m.Name(), h.Owner()).Val()
	})
	unlock(t, h)
	p.close(t)
	return l.left(m.Name())
}

// TestHoldAtLeastJoined: a master that grants the lock later than the others keeps it for as long.
func TestHoldAtLeastJoined(t *testing.T) {
	t.Parallel()
	for how := range joins {
		t.Run(how, func(t *testing.T) {
			left := joined(t, how)
			require.Len(t, left, 3)
			require.Greater(t, left[0], time.Hour-time.Minute)
			require.LessOrEqual(t, left[2], time.Hour)
		})
	}
}

// TestRefusedByOneWhoHasUnlocked: who is refused by a lock that stays taken is told so, and has no advice to re-enter it.
func TestRefusedByOneWhoHasUnlocked(t *testing.T) {
	t.Parallel()
	_, p := newProcess(t, 3)
	m := p.mutex(uniqueName(t))
	h := lock(t, m, holdfast.HoldAtLeast(time.Hour))
	unlock(t, h)
	err := refused(t.Context(), t, m.TryLock)
	require.ErrorContains(t, err, "held by "+h.Owner()+", which has unlocked and leaves the lock taken for another ")
	require.NotContains(t, err.Error(), "hold.Context()")
}

// The control: without that it has the lock for a lease, and whoever unlocks does not make it longer.
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

// joining has a lock that is to stay for an hour unlocked while a master is asked to take it back. Neither the answer to that
// comes, nor does that master hear that the lock is left. It returns for how long each keeps it then.
func joining(t *testing.T) []time.Duration {
	l, p, m := newParty(t, 3, &holdfast.Options{Lease: long, RetryBudget: 500 * time.Millisecond})
	h := l.everywhere(m, holdfast.HoldAtLeast(time.Hour), redlock.MasterTimeout(2*time.Second))
	votes := p.proxies[2].On(isVote, 1, faultproxy.HoldReply)
	p.proxies[2].On(kindtest.Script(lua.Leave), 0, faultproxy.DropRequest)
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
	p.close(t)
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
