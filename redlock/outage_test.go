package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// outage is a way for a master to be out of reach, of one process or of all.
type outage struct {
	name    string
	on, off func(l *lab, p *process, i int)
}

var outages = []outage{
	{"killed", ofMaster((*redistest.Server).Kill), ofMaster((*redistest.Server).Restart)},
	{"stopped", ofMaster((*redistest.Server).Pause), ofMaster((*redistest.Server).Resume)},
	{"cut off", ofWay((*faultproxy.Proxy).Stop), ofWay((*faultproxy.Proxy).Start)},
	switched("black hole", (*faultproxy.Proxy).Silence),
	switched("requests lost", (*faultproxy.Proxy).LoseRequests),
	switched("replies lost", (*faultproxy.Proxy).LoseReplies),
}

func ofMaster(do func(*redistest.Server)) func(*lab, *process, int) {
	return func(l *lab, _ *process, i int) { do(l.masters[i]) }
}

func ofWay(do func(*faultproxy.Proxy)) func(*lab, *process, int) {
	return func(_ *lab, p *process, i int) { do(p.proxies[i]) }
}

func switched(name string, set func(*faultproxy.Proxy, bool)) outage {
	return outage{name, ofWay(func(p *faultproxy.Proxy) { set(p, true) }), ofWay(func(p *faultproxy.Proxy) { set(p, false) })}
}

// eachOutage runs a test of each; in the quick level of one of each sort: a master that is gone, and one that says nothing.
func eachOutage(t *testing.T, test func(t *testing.T, o outage)) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			if o.name != "killed" && o.name != "black hole" {
				level.ForAll(t)
			}
			t.Parallel()
			test(t, o)
		})
	}
}

// use locks, enters again, extends and unlocks.
func use(ctx context.Context, m holdfast.Locker) error {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	inner, err := m.Lock(h.Context())
	if err != nil {
		return err
	}
	if err := inner.Unlock(ctx); err != nil {
		return err
	}
	if err := h.Extend(ctx, time.Minute); err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// With two of five masters out of reach everything works, also while they come and go.
func TestMinorityIsOut(t *testing.T) {
	t.Parallel()
	eachOutage(t, func(t *testing.T, o outage) {
		l, p, m := newParty(t, 5, nil)
		require.NoError(t, use(t.Context(), m))
		for range 2 { // flapping
			o.on(l, p, 1)
			o.on(l, p, 3)
			for range 5 {
				require.NoError(t, use(t.Context(), m))
			}
			o.off(l, p, 1)
			o.off(l, p, 3)
		}
		require.NoError(t, use(t.Context(), m))
		p.close(t)
		eventually(t, "nothing is left", func() bool { return l.held(m.Name()) == 0 })
	})
}

// With three of five masters out of reach the lock is not granted: the error has what each said, and nothing is left.
func TestMajorityIsOut(t *testing.T) {
	t.Parallel()
	eachOutage(t, func(t *testing.T, o outage) {
		l := newLab(t, 5)
		p := l.process(&holdfast.Options{RetryBudget: 500 * time.Millisecond})
		m := p.mutex(uniqueName(t), redlock.TrustRestarts()) // of one that was started while this process had no time, too
		require.NoError(t, use(t.Context(), m))
		eventually(t, "released everywhere", func() bool { return l.held(m.Name()) == 0 })
		for i := range 3 {
			o.on(l, p, i)
		}
		_, err := m.Lock(t.Context())
		tells(t, err, "2 of 5 masters agreed, and 3 have to; 1 (127.0.0.1:", "): granted", not(holdfast.ErrNotAcquired))
		left := 0
		for _, rdb := range l.direct[3:] {
			left += int(rdb.Exists(t.Context(), m.Name()).Val())
		}
		require.Zero(t, left, "the survivors hold nothing")
		soon, leave := context.WithCancel(t.Context())
		before := p.proxies[4].Seen(isVote)
		go func() {
			defer leave() // it has been told, and asks once more
			eventually(t, "it asks again", func() bool { return p.proxies[4].Seen(isVote) > before+1 || soon.Err() != nil })
		}()
		_, err = m.Lock(soon)
		leave()
		tells(t, err, holdfast.ErrUnavailable, "of 5 masters agreed")
		for i := range 3 {
			o.off(l, p, i)
		}
		if o.name == "killed" {
			return // they do not vote yet
		}
		eventually(t, "it works again", func() bool { return use(t.Context(), m) == nil })
	})
}

// TestAMajorityThatCannotBeHad: one master has granted the lock to another, and two are silent: nobody knows who has it.
func TestAMajorityThatCannotBeHad(t *testing.T) {
	t.Parallel()
	eachOutage(t, func(t *testing.T, o outage) {
		l, p, m := newParty(t, 3, nil)
		require.NoError(t, use(t.Context(), m))
		eventually(t, "released everywhere", func() bool { return l.held(m.Name()) == 0 })
		l.give(0, m.Name(), "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:h1", time.Hour)
		o.on(l, p, 1)
		o.on(l, p, 2)
		m = p.mutex(m.Name(), redlock.MasterTimeout(200*time.Millisecond))
		for range 3 { // who refuses is asked first then
			_, err := m.Lock(t.Context(), holdfast.Wait(time.Second))
			tells(t, err, holdfast.ErrUnavailable, not(holdfast.ErrNotAcquired))
		}
	})
}

// Who loses the majority is told before anybody else can have the lock; who keeps it does not notice.
func TestHoldAndOutage(t *testing.T) {
	t.Parallel()
	for _, out := range []int{2, 3} {
		eachOutage(t, func(t *testing.T, o outage) {
			l, p, m := newParty(t, 5, &holdfast.Options{Lease: 3 * time.Second})
			h := lock(t, m)
			for i := range out {
				o.on(l, p, i)
			}
			if out == 2 {
				begin := h.Deadline()
				eventually(t, "renewed again and again", func() bool {
					return h.Context().Err() != nil || h.Deadline().After(begin.Add(4*time.Second))
				})
				require.NoError(t, context.Cause(h.Context()))
				unlock(t, h)
				return
			}
			deadline := h.Deadline()
			require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
			require.ErrorContains(t, context.Cause(h.Context()), "of 5 masters agreed")
			require.False(t, h.Deadline().After(deadline.Add(3*time.Second)))
			for i := range 3 {
				o.off(l, p, i)
			}
		})
	}
}

// nothingLeft waits until no master has a holder, and every key has an end.
func (l *lab) nothingLeft(name string) {
	eventually(l.T, "no master has a holder", func() bool { return l.held(name) == 0 })
	for _, rdb := range l.direct {
		for _, key := range rdb.Keys(context.Background(), "*").Val() {
			require.Positive(l, rdb.PTTL(context.Background(), key).Val(), "key %s has no time to live", key)
		}
	}
}

// Who leaves while the masters are asked again and again has an error that the attempts which go on meanwhile do not write to.
func TestLeavingWhileItFails(t *testing.T) {
	t.Parallel()
	_, p, m := newParty(t, 3, &holdfast.Options{RetryBudget: time.Minute})
	h := lock(t, m)
	recounts := kindtest.Script(lua.Recount)
	var later []*faultproxy.Rule
	for _, proxy := range p.proxies[:2] {
		for nth := range 3 { // whatever is sent twice because a connection may have been stale
			proxy.On(recounts, nth+1, faultproxy.DropRequest)
		}
		later = append(later, proxy.On(recounts, 4, faultproxy.BlackHole))
	}
	ctx, cancel := context.WithCancel(h.Context())
	result := begin(ctx, t, m.Lock)
	for _, r := range later {
		<-r.Fired()
	}
	cancel()
	err := result.Err()
	require.ErrorIs(t, err, context.Canceled)
	text := err.Error()
	eventually(t, "it goes on", func() bool { return p.proxies[0].Seen(recounts) >= 5 })
	require.Equal(t, text, err.Error())
	unlock(t, h)
}

// votes is how many votes a process has sent to its masters.
func (p *process) votes() (n int) {
	for _, proxy := range p.proxies {
		n += proxy.Seen(isVote)
	}
	return n
}

// In a process the lock goes from hand to hand: far fewer votes than grants, and tokens grow.
func TestHandOff(t *testing.T) {
	t.Parallel()
	l, p, m := newParty(t, 3, nil)
	require.NoError(t, use(t.Context(), m))
	before := p.votes()
	tokens := kindtest.Chain(t, m, 16, 50)
	require.IsIncreasing(t, tokens)
	require.Less(t, p.votes()-before, 3*16*50/2)
	before = p.votes()
	kindtest.Chain(t, p.mutex(m.Name(), holdfast.NoHandoff()), 4, 5)
	require.GreaterOrEqual(t, p.votes()-before, 2*4*5, "the control: each asks for itself")
	p.close(t)
	l.nothingLeft(m.Name())
}

// The lock is handed off while two of five masters fail, and a holder that lost it does not hand it on.
func TestHandOffAndOutage(t *testing.T) {
	t.Parallel()
	l, _, m := newParty(t, 5, &holdfast.Options{Lease: 6 * time.Second})
	require.NoError(t, use(t.Context(), m))
	l.masters[1].Pause()
	l.masters[4].Kill()
	require.IsIncreasing(t, kindtest.Chain(t, m, 8, 100))
	l.masters[1].Resume()
	require.IsIncreasing(t, kindtest.Chain(t, m, 8, 100))
}

// asksForItself has the masters silent to the first waiter, which leaves, and returns how many votes the next one asks for.
func asksForItself(t *testing.T, wait time.Duration) int {
	l := newLab(t, 3)
	name := uniqueName(t)
	p, h := l.versed(nil), lock(t, l.process(nil).mutex(name))
	m := p.mutex(name, redlock.MasterTimeout(patience))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := begin(ctx, t, m.Lock)
	eventually(t, "it listens", func() bool { return l.listeners(name, 0) == 1 })
	queued := func() int { return kindtest.Goroutines("queue.(*Ticket).Wait(") }
	before := queued()
	next := begin(t.Context(), t, m.Lock, holdfast.Wait(wait))
	eventually(t, "the next one waits", func() bool { return queued() > before })
	asked := p.votes()
	for _, proxy := range p.proxies {
		proxy.On(isVote, 1, faultproxy.HoldReply)
		defer proxy.Clear()
	}
	unlock(t, h)
	eventually(t, "it asks", func() bool { return p.votes() > asked })
	cancel()
	require.ErrorIs(t, first.Err(), context.Canceled)
	asked = p.votes()
	if h, err := next.Result(); err == nil {
		unlock(t, h)
	}
	return p.votes() - asked
}

// TestNextAsksWhereMastersAreSilent: what is under way for one who has left is not waited for where the masters are silent.
func TestNextAsksWhereMastersAreSilent(t *testing.T) {
	require.Positive(t, asksForItself(t, 5*time.Second))
	t.Cleanup(defence.LateFor.Without(t))
	eventually(t, "control: it waits for its turn in vain", func() bool { return asksForItself(t, time.Second) == 0 })
}
