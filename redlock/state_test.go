package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// seen is a lock of the process's that does not take a slow machine for a silent master.
func (p *process) seen(name string) *redlock.Mutex {
	return p.mutex(name, redlock.MasterTimeout(5*time.Second))
}

// everywhere is a lock that is held at all masters.
func (l *lab) everywhere(m *redlock.Mutex, opts ...holdfast.Option) *holdfast.Hold {
	h := lock(l, m, opts...)
	eventually(l.T, "every master has it", func() bool { return l.held(m.Name()) == len(l.masters) })
	return h
}

// The state is the majority's view, with what each master says beside it.
func TestState(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 4} {
		l := newLab(t, n)
		p, other := l.process(nil), l.process(nil)
		m := p.seen(uniqueName(t))
		for _, seen := range []*redlock.Mutex{m, other.seen(m.Name())} {
			s := kindtest.State(t, seen)
			require.Empty(t, s.Owner)
			require.Equal(t, -1, s.Waiters)
			h := l.everywhere(m)
			inner := take(h.Context(), t, m.Lock)
			eventually(t, "counted everywhere", func() bool {
				s = kindtest.State(t, seen)
				counted := 0
				for _, at := range s.Masters {
					if at.Count == 2 {
						counted++
					}
				}
				return counted == n
			})
			require.Equal(t, h.Owner(), s.Owner)
			require.Equal(t, 2, s.Count)
			require.Equal(t, h.Token(), s.Token)
			require.Greater(t, s.Remaining, 20*time.Second)
			require.LessOrEqual(t, s.Remaining, holdfast.DefaultLease)
			for i, at := range s.Masters {
				require.NoError(t, at.Err)
				require.Equal(t, h.Owner(), at.Owner)
				require.Contains(t, at.Master, itoa(uint64(i+1))+" (") //nolint:gosec // small
			}
			unlock(t, inner, h)
			eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
			s = kindtest.State(t, seen)
			require.Empty(t, s.Owner)
			require.GreaterOrEqual(t, s.Token, h.Token())
		}
	}
}

// A majority decides who holds the lock: a minority's key that is gone, or somebody else's, changes nothing.
func TestStateIsTheMajoritys(t *testing.T) {
	t.Parallel()
	l, p := newProcess(t, 5)
	m := p.seen(uniqueName(t))
	dead := "11111111-2222-4333-8444-555555555555:h"
	at := func(i int, owner string, lease time.Duration) { l.give(i, m.Name(), owner, lease) }
	state := func() redlock.State { return kindtest.State(t, m) }
	at(0, dead+"1", time.Hour)
	at(1, dead+"1", time.Hour)
	s := state()
	require.Empty(t, s.Owner, "two of five are votes and no lock")
	require.Equal(t, dead+"1", s.Masters[0].Owner)

	at(2, dead+"1", time.Minute)
	at(3, dead+"2", time.Hour)
	s = state()
	require.Equal(t, dead+"1", s.Owner)
	require.LessOrEqual(t, s.Remaining, time.Minute, "then it is no majority any more")
	require.Greater(t, s.Remaining, 50*time.Second)
	at(3, dead+"1", 30*time.Minute)
	s = state()
	require.LessOrEqual(t, s.Remaining, 30*time.Minute)
	require.Greater(t, s.Remaining, 29*time.Minute)
	for _, i := range []int{0, 1, 3} {
		require.NoError(t, l.direct[i].Persist(t.Context(), m.Name()).Err())
	}
	require.Negative(t, state().Remaining, "a majority has no end")

	// The rest is silent: nobody knows whose the lock is, for they may have it as the two do.
	for _, i := range []int{2, 3} {
		require.NoError(t, l.direct[i].Del(t.Context(), m.Name()).Err())
	}
	require.Empty(t, state().Owner)
	p.proxies[4].Stop()
	s, err := m.State(t.Context())
	tells(t, err, holdfast.ErrUnavailable, "2 of 5 masters agreed, and 3 have to; 1 (", "held by "+dead+"1; 3 (")
	require.ErrorContains(t, err, "): free; ")
	require.Len(t, s.Masters, 5)
	require.Error(t, s.Masters[4].Err)
	kindtest.Forced(t, m) // it may have been held
	require.Zero(t, l.held(m.Name()))

	// A majority that is silent may have a holder, also where no other master names one.
	require.Empty(t, state().Owner)
	p.proxies[2].Stop()
	p.proxies[3].Stop()
	tells(t, kindtest.Err(m.State(t.Context())), holdfast.ErrUnavailable, "2 of 5 masters agreed, and 3 have to")
	require.ErrorIs(t, kindtest.Err(m.ForceUnlock(t.Context())), holdfast.ErrUnavailable)
}

// With a minority out of reach the state is known and the lock can be forced; without a majority the error says why.
func TestStateAndOutage(t *testing.T) {
	t.Parallel()
	eachOutage(t, func(t *testing.T, o outage) {
		l := newLab(t, 3)
		p, holder := l.process(nil), l.process(nil)
		m := p.seen(uniqueName(t))
		h := l.everywhere(holder.mutex(m.Name()), holdfast.Lease(time.Hour))
		o.on(l, p, 0)
		s := kindtest.State(t, m)
		require.Equal(t, h.Owner(), s.Owner)
		require.Error(t, s.Masters[0].Err)
		require.NoError(t, s.Masters[1].Err)

		o.on(l, p, 1)
		s, err := m.State(t.Context())
		tells(t, err, holdfast.ErrUnavailable, not(holdfast.ErrUncertain), "1 of 3 masters agreed, and 2 have to; 1 (")
		require.ErrorContains(t, err, "held by "+h.Owner())
		require.Len(t, s.Masters, 3)
		require.Empty(t, s.Owner)
		there, err := m.ForceUnlock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, holdfast.ErrUncertain, "nothing was released")
		require.False(t, there)
		o.off(l, p, 1)
		eventually(t, "the second is back", func() bool {
			s, _ := m.State(t.Context())
			// the killed one has lost its data, so then it depends on the first who has the lock
			return s.Masters[1].Err == nil
		})
		kindtest.Forced(t, m)
		o.off(l, p, 0)
		require.ErrorIs(t, h.Extend(t.Context(), time.Hour), holdfast.ErrLost)
	})
}

// What was released at too few masters, as far as is known, is no success, and the error says at how many it was.
func TestForceUnlockWithoutAMajority(t *testing.T) {
	t.Parallel()
	l, p := newProcess(t, 3)
	m := p.seen(uniqueName(t))
	l.everywhere(l.process(nil).seen(m.Name()))
	for _, proxy := range p.proxies[1:] {
		proxy.On(kindtest.Script(lua.Force), 1, faultproxy.DropReply)
		proxy.On(kindtest.Script(lua.Force), 2, faultproxy.DropReply) // where a connection was stale
	}
	there, err := m.ForceUnlock(t.Context())
	tells(t, err, holdfast.ErrUnavailable, holdfast.ErrUncertain, "1 of 3 masters agreed, and 2 have to")
	tells(t, err, "released; 2 (", `redlock: force unlock "`+m.Name()+`": `)
	require.False(t, there)
}

// A caller who leaves is not kept by masters that are silent.
func TestStateIsCancelled(t *testing.T) {
	t.Parallel()
	_, p := newProcess(t, 3)
	m := p.seen(uniqueName(t))
	for _, proxy := range p.proxies {
		proxy.Silence(true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { _, err := m.State(ctx); done <- err }()
	go func() { _, err := m.ForceUnlock(ctx); done <- err }()
	hellos := faultproxy.Command("HELLO")
	eventually(t, "both ask", func() bool { return p.proxies[0].Seen(hellos) >= cap(done) })
	cancel()
	for range cap(done) {
		err := <-done
		tells(t, err, context.Canceled, holdfast.ErrUnavailable)
	}
	require.ErrorContains(t, kindtest.Err(m.State(ctx)), "not sent")
}

// What one process left for the rest of its time is forced too, also where a master has not heard of the leaving.
func TestForceUnlockOfALockThatWasLeft(t *testing.T) {
	t.Parallel()
	l, p := newProcess(t, 3)
	m := p.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(5*time.Second))
	h := l.everywhere(m, holdfast.HoldAtLeast(time.Hour))
	p.proxies[1].Silence(true)
	unlock(t, h)
	p.proxies[1].Silence(false)
	require.Equal(t, 3, l.held(m.Name()))
	admin := l.process(nil).seen(m.Name())
	s := kindtest.State(t, admin)
	require.Equal(t, h.Owner(), s.Owner)
	kindtest.Forced(t, admin)
	require.Zero(t, l.held(m.Name()))
}

// What is no lock is left alone.
func TestForceUnlockLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	m := l.process(nil).seen(uniqueName(t))
	for _, rdb := range l.direct {
		require.NoError(t, rdb.HSet(t.Context(), m.Name(), "name", "Ann").Err())
	}
	there, err := m.ForceUnlock(t.Context())
	require.ErrorContains(t, err, "not released: its key has no time to live, and ")
	require.False(t, there)
	require.Equal(t, 3, l.held(m.Name()))
}

// forced is one process's hold of a lock that one process, before whose masters there are hooks, frees unasked.
type forced struct {
	*lab
	hold *holdfast.Hold
	name string
	by   *process
}

func newForced(t *testing.T, same bool, hooks ...redis.Hook) forced {
	l := newLab(t, 3)
	holder := l.process(nil)
	by := holder
	if !same {
		by = l.process(nil)
	}
	m := holder.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second))
	f := forced{l, l.everywhere(m, holdfast.Lease(3*time.Second)), m.Name(), by}
	for _, rdb := range by.rdbs {
		kindtest.Hooked(rdb, hooks...)
	}
	return f
}

func (f *forced) force() {
	kindtest.Forced(f, f.by.mutex(f.name, redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second)))
}

// TestForceUnlockIsNoticed: a lock is freed, and nobody takes it. Its holder does not take it back: the next renewal says that
// the lock is lost. It asks a master too that does not know the holder, which must not take it in as if nothing had happened.
func TestForceUnlockIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ same, unknown bool }{
		"in the same process": {same: true}, "in another process": {}, "where a master does not know the holder": {unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForced(t, c.same)
			if c.unknown {
				require.NoError(t, f.direct[2].Del(t.Context(), f.name).Err())
			}
			f.force()
			err := awaitEnd(t, f.hold)
			require.ErrorIs(t, err, holdfast.ErrLost)
			require.ErrorContains(t, err, "not known to have held it without a break", "and not because its lease ended")
			require.ErrorIs(t, f.hold.Unlock(t.Context()), holdfast.ErrLost)
			eventually(t, "nothing is left", func() bool { return f.held(f.name) == 0 })
		})
	}
}

// The control: without a token used up, the holder restores its hold, and nothing says that somebody wanted it gone.
func TestForceUnlockIsNoticedControl(t *testing.T) {
	t.Parallel()
	f := newForced(t, true, mutant.Hook(lua.Force, "call('SET', tokens, token,", "call('SET', tokens, last,"))
	f.force()
	eventually(t, "the holder has it again", func() bool { return f.held(f.name) == 3 })
	require.NoError(t, f.hold.Context().Err())
	unlock(t, f.hold)
}
