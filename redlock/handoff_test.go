package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
)

// votes is how many votes a party has sent to its masters.
func (p *party) votes() (n int) {
	for _, proxy := range p.proxies {
		n += proxy.Seen(faultproxy.Script(lua.Vote.Hash()))
	}
	return n
}

// crowd has goroutines of one process take the lock after one another, and returns their tokens in
// the order of their turns.
func crowd(t *testing.T, m holdfast.Locker, goroutines, rounds int) (tokens []uint64) {
	t.Helper()
	var g sync.WaitGroup
	for range goroutines {
		g.Go(func() {
			for range rounds {
				h, err := m.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				tokens = append(tokens, h.Token()) // the race detector watches
				if err := h.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	return tokens
}

// In a process the lock goes from hand to hand: far fewer votes than grants, and tokens grow.
func TestHandOff(t *testing.T) {
	l := newLab(t, 3)
	p := l.party(nil)
	m := p.mutex(uniqueName(t))
	require.NoError(t, use(t.Context(), m))
	before := p.votes()
	tokens := crowd(t, m, 16, 50)
	require.IsIncreasing(t, tokens)
	require.Len(t, tokens, 16*50)
	require.Less(t, p.votes()-before, 3*16*50/2)
	before = p.votes()
	crowd(t, p.mutex(m.Name(), holdfast.NoHandoff()), 4, 5)
	require.GreaterOrEqual(t, p.votes()-before, 2*4*5, "the control: each asks for itself")
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context()))
	}
	l.nothingLeft(m.Name())
}

// other has one process use the lock without end, and reports whether another one gets it.
func other(t *testing.T) bool {
	t.Helper()
	l := newLab(t, 3)
	a, b := l.party(nil), l.party(nil)
	name := uniqueName(t)
	stop := make(chan struct{})
	var grants atomic.Int64
	var g sync.WaitGroup
	for range 32 {
		g.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := lockOnce(context.Background(), a.mutex(name)); err != nil {
					t.Error(err)
					return
				}
				grants.Add(1)
			}
		})
	}
	defer func() { close(stop); g.Wait() }()
	eventually(t, "it is in use", func() bool { return grants.Load() > 1000 })
	h, err := b.mutex(name).Lock(t.Context(), holdfast.Wait(2*never))
	if err != nil {
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		return false
	}
	unlock(t, h)
	return true
}

// A process that hands the lock on gives it up when others want it.
func TestOthersGetTheirTurn(t *testing.T) {
	require.True(t, other(t))
	// The control: one that never looks keeps it.
	t.Cleanup(defence.Look.Without(t))
	t.Cleanup(defence.Reserved.Without(t)) // nor does it need tokens
	require.False(t, other(t))
}

// The lock is handed on while two of five masters fail, and a holder that lost it does not hand it
// on.
func TestHandOffAndOutage(t *testing.T) {
	l := newLab(t, 5)
	p := l.party(&holdfast.Options{Lease: 6 * time.Second})
	m := p.mutex(uniqueName(t))
	require.NoError(t, use(t.Context(), m))
	l.masters[1].Pause()
	l.masters[4].Kill()
	require.IsIncreasing(t, crowd(t, m, 8, 100))
	l.masters[1].Resume()
	require.IsIncreasing(t, crowd(t, m, 8, 100))
}
