package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/semaphore"
)

// permits are a semaphore of two permits as two clients on a topology have it.
type permits struct {
	*testing.T
	ctx      context.Context
	one, two *semaphore.Semaphore
}

func newPermits(t *testing.T, top topology.Topology, name string, opts *holdfast.Options) *permits {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	return &permits{t, ctx, semaphore.New(newClient(t, top.Connect(t), opts), name, 2), semaphore.New(newClient(t, top.Connect(t), opts), name, 2)}
}

// standIn takes both permits and has the other client wait for both. What it gets is given back at once.
func (p *permits) standIn() (h *holdfast.Hold, granted <-chan error) {
	p.Helper()
	h, err := p.one.Acquire(p.ctx, 2)
	require.NoError(p, err)
	c := make(chan error, 1)
	go func() {
		next, err := p.two.Acquire(p.ctx, 2)
		if err == nil {
			err = next.Unlock(p.ctx)
		}
		c <- err
	}()
	eventually(p.ctx, p.T, "it waits", func() bool { return p.state().Waiters == 1 })
	return h, c
}

func (p *permits) state() semaphore.State {
	s, _ := p.one.State(p.ctx) // while servers change it may fail
	return s
}

// life is all that permits go through.
func (p *permits) life() {
	p.Helper()
	h, granted := p.standIn()
	_, err := p.two.TryLock(p.ctx)
	require.ErrorIs(p, err, holdfast.ErrNotAcquired)
	require.NoError(p, h.Extend(p.ctx, time.Minute))
	require.NoError(p, h.Unlock(p.ctx))
	require.NoError(p, <-granted)
	require.NoError(p, p.two.SetPermits(p.ctx, 3))
	require.NoError(p, p.two.SetPermits(p.ctx, 2))
	require.Equal(p, semaphore.State{Permits: 2, Free: 2}, p.state())
}

// TestSemaphoreStory: permits have their life on every topology and version, in several slots where
// there are slots.
func TestSemaphoreStory(t *testing.T) {
	topology.Each(t, topology.All, func(t *testing.T, top topology.Topology) {
		for _, name := range []string{"permits", "{permits}:43", "x", "y"} {
			newPermits(t, top, name, nil).life()
		}
	})
}

// TestPermitsThroughFailover: another server takes over under a holder and a waiter. It has the
// permits, so the hold goes on, and its release hands them to the waiter.
func TestPermitsThroughFailover(t *testing.T) {
	const name = "failover"
	topology.Each(t, topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		p := newPermits(t, top, name, &holdfast.Options{RetryBudget: patience})
		h, granted := p.standIn()
		top.(topology.Failover).Failover(t, name)
		require.NoError(t, h.Unlock(p.ctx), "the new server knows the hold")
		require.NoError(t, <-granted)
		h, granted = p.standIn()
		top.(topology.Replicator).AwaitReplicas(t, name)
		top.(topology.Killer).KillServing(t, name)
		require.NoError(t, h.Unlock(p.ctx))
		require.NoError(t, <-granted)
	})
}

// TestPermitsThroughReshard: the slot moves to another master under a holder and a waiter, and what they
// do while it is half moved succeeds afterwards.
func TestPermitsThroughReshard(t *testing.T) {
	const name = "reshard"
	topology.Each(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		p := newPermits(t, top, name, &holdfast.Options{RetryBudget: patience})
		h, granted := p.standIn()
		move := top.(topology.Resharder).BeginReshard(t, name)
		move.Key(t, name) // the number is there, and the permits are here
		extended := make(chan error, 1)
		go func() { extended <- h.Extend(p.ctx, time.Minute) }()
		move.Keys(t)
		require.NoError(t, <-extended)
		move.Finish(t)
		require.NoError(t, h.Unlock(p.ctx), "the new master knows the hold")
		require.NoError(t, <-granted)
		p.life()
	})
}
