package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// faults are what can happen to one command between client and server.
var faults = []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut, faultproxy.BlackHole}

// strike has the next run of a script meet a fault at each of the masters. It returns how many did.
func (p *party) strike(s *lua.Script, fault faultproxy.Action, at ...int) (met func() int) {
	var rules []*faultproxy.Rule
	for _, i := range at {
		p.proxies[i].Clear()
		rules = append(rules, p.proxies[i].On(faultproxy.Script(s.Hash()), 1, fault))
	}
	return func() (n int) {
		for _, r := range rules {
			n += r.Count()
		}
		return n
	}
}

// nothingLeft waits until no master has a holder, and every key has an end.
func (l *lab) nothingLeft(name string) {
	l.Helper()
	eventually(l.T, "no master has a holder", func() bool { return l.held(name) == 0 })
	for _, rdb := range l.direct {
		for _, key := range rdb.Keys(context.Background(), "*").Val() {
			require.Positive(l, rdb.PTTL(context.Background(), key).Val(), "key %s has no time to live", key)
		}
	}
}

// Each operation of a hold's life meets each fault, at two masters and at all five. It is repeated
// where a majority did not hear of it or did not say so, and happens once.
func TestFaultsAtEachCommand(t *testing.T) {
	for _, fault := range faults {
		for _, at := range [][]int{{0, 1}, {0, 1, 2, 3, 4}} {
			t.Run(fault.String()+" at "+itoa(uint64(len(at))), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, 5)
				p := l.party(&holdfast.Options{Lease: 3 * time.Second})
				m := p.mutex(uniqueName(t))
				ctx := t.Context()
				require.NoError(t, use(ctx, m)) // the scripts are known, the connections there
				counts := func(owner, want string) {
					n := 0
					for _, h := range l.holders(m.Name()) {
						require.LessOrEqual(t, len(h), 1)
						if h[owner] == want {
							n++
						}
					}
					require.GreaterOrEqual(t, n, 3, "a majority has the count of %s", want)
				}

				met := p.strike(lua.Vote, fault, at...)
				outer, err := m.Lock(ctx)
				require.NoError(t, err)
				eventually(t, "the fault was met", func() bool { return met() > 0 })
				renewed := func() {
					before := outer.Deadline()
					eventually(t, "renewed, and everywhere",
						func() bool { return outer.Deadline().After(before) && l.held(m.Name()) == 5 })
				}
				eventually(t, "a majority knows", func() bool { return l.held(m.Name()) >= 3 })

				renewed() // all masters have the hold, and none is waited for
				met = p.strike(lua.Recount, fault, at...)
				inner, err := m.Lock(outer.Context())
				require.NoError(t, err)
				eventually(t, "the fault was met", func() bool { return met() > 0 })
				counts(outer.Owner(), "2")

				renewed() // all masters have the hold, and none is waited for
				met = p.strike(lua.Recount, fault, at...)
				require.NoError(t, inner.Unlock(ctx))
				eventually(t, "the fault was met", func() bool { return met() > 0 })
				counts(outer.Owner(), "1")

				met = p.strike(lua.Release, fault, at...)
				require.NoError(t, outer.Unlock(ctx))
				eventually(t, "the fault was met", func() bool { return met() > 0 })
				for _, c := range p.clients {
					require.NoError(t, c.Close(ctx))
				}
				l.nothingLeft(m.Name())
			})
		}
	}
}

// Who leaves while masters are being asked leaves nothing behind, whether their answers come late
// or never.
func TestLeavingInTheMiddle(t *testing.T) {
	for _, fault := range []faultproxy.Action{faultproxy.HoldReply, faultproxy.BlackHole} {
		t.Run(fault.String(), func(t *testing.T) {
			l := newLab(t, 3)
			p := l.party(nil)
			m := p.mutex(uniqueName(t))
			require.NoError(t, use(t.Context(), m))
			var rules []*faultproxy.Rule
			for _, proxy := range p.proxies {
				rules = append(rules, proxy.On(faultproxy.Script(lua.Vote.Hash()), 1, fault))
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the request was cancelled")
			result := make(chan error, 1)
			go func() {
				_, err := m.Lock(ctx, redlock.MasterTimeout(10*time.Second))
				result <- err
			}()
			for _, r := range rules {
				<-r.Fired()
			}
			cancel(why)
			err := <-result
			require.ErrorIs(t, err, holdfast.ErrUnavailable)
			require.ErrorIs(t, err, why)
			for _, r := range rules {
				r.Release()
			}
			for _, c := range p.clients {
				require.NoError(t, c.Close(t.Context()))
			}
			l.nothingLeft(m.Name())
		})
	}
}

// Who leaves while the masters are asked again and again has an error that the attempts which go on
// meanwhile do not write to.
func TestLeavingWhileItFails(t *testing.T) {
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{RetryBudget: time.Minute})
	m := p.mutex(uniqueName(t))
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	recounts := faultproxy.Script(lua.Recount.Hash())
	var later []*faultproxy.Rule
	for _, proxy := range p.proxies[:2] {
		for nth := range 3 { // whatever is sent twice because a connection may have been stale
			proxy.On(recounts, nth+1, faultproxy.DropRequest)
		}
		later = append(later, proxy.On(recounts, 4, faultproxy.BlackHole))
	}
	ctx, cancel := context.WithCancel(h.Context())
	result := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		result <- err
	}()
	for _, r := range later {
		<-r.Fired()
	}
	cancel()
	err = <-result
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	text := err.Error()
	eventually(t, "it goes on", func() bool { return p.proxies[0].Seen(recounts) >= 5 })
	require.Equal(t, text, err.Error())
	require.NoError(t, h.Unlock(t.Context()))
}

// minority has a lock refused because two masters of three are out of reach, and returns how many
// hold it then.
func minority(t *testing.T) (left int) {
	t.Helper()
	l := newLab(t, 3)
	p := l.party(&holdfast.Options{RetryBudget: 100 * time.Millisecond})
	m := p.mutex(uniqueName(t), redlock.MasterTimeout(patience)) // the budget is for those that refuse
	require.NoError(t, use(t.Context(), m))
	eventually(t, "released everywhere", func() bool { return l.held(m.Name()) == 0 })
	for _, proxy := range p.proxies[1:] {
		proxy.Stop()
	}
	_, err := m.Lock(t.Context())
	require.Error(t, err)
	return int(l.direct[0].Exists(t.Context(), m.Name()).Val())
}

// The votes of a minority are given back before the error is returned.
func TestMinorityIsGivenBack(t *testing.T) { require.Zero(t, minority(t)) }

// The control.
func TestMinorityIsGivenBackControl(t *testing.T) {
	t.Cleanup(defence.Withdraw.Without(t))
	require.Equal(t, 1, minority(t))
}

// Close ends holds with ErrClosed and releases them everywhere; waiters are woken.
func TestClose(t *testing.T) {
	l := newLab(t, 5)
	p, other := l.party(nil), l.party(nil)
	m := p.mutex(uniqueName(t))
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	waiters := make(chan error, 2)
	for _, m := range []*redlock.Mutex{m, other.mutex(m.Name())} {
		go func() {
			_, err := m.Lock(t.Context())
			waiters <- err
		}()
	}
	eventually(t, "the other one waits", func() bool {
		return l.direct[0].PubSubNumSub(t.Context(),
			"redisson_lock__channel:{"+m.Name()+"}").Val()["redisson_lock__channel:{"+m.Name()+"}"] > 0
	})
	require.NoError(t, p.clients[0].Close(t.Context()))
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrClosed)
	first, second := <-waiters, <-waiters
	if first == nil {
		first, second = second, first
	}
	require.ErrorIs(t, first, holdfast.ErrClosed)
	require.NoError(t, second, "the other process gets it")
	_, err = m.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrClosed)
	for _, c := range other.clients {
		require.NoError(t, c.Close(t.Context()))
	}
	l.nothingLeft(m.Name())
}
