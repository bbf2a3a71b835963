package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// pair is two clients on a topology: what one has, the other waits for.
type pair struct {
	*testing.T
	ctx      context.Context
	one, two *holdfast.Client
}

func newPair(t *testing.T, top topology.Topology, opts *holdfast.Options) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	return &pair{t, ctx, newClient(t, top.Connect(t), opts), newClient(t, top.Connect(t), opts)}
}

// member is a kind of lock in that situation.
type member struct {
	name    string       // of its key
	meddle  func() error // an operation of who has it
	fresh   bool         // that makes a key: while the slot is half moved Redis says TRYAGAIN of a key that is not there
	end     func() error // gives it back
	follows chan error   // of the one who waits: it got it, and gave it back
	before  func() bool  // it waits
}

// waiting has the second client wait, and returns when it does.
func (p *pair) waiting(m member, wait func() error) member {
	p.Helper()
	m.follows = make(chan error, 1)
	go func() { m.follows <- wait() }()
	eventually(p.ctx, p.T, m.name+" is waited for", func() bool { return len(m.follows) > 0 || m.before() })
	require.Empty(p, m.follows, m.name)
	return m
}

// gets takes a lock and gives it back.
func (p *pair) gets(h *holdfast.Hold, err error) error {
	if err != nil {
		return err
	}
	return h.Unlock(p.ctx)
}

// held is of a lock that the first client holds.
func (p *pair) held(name string, h *holdfast.Hold, err error, before func() bool) member {
	p.Helper()
	require.NoError(p, err)
	return member{
		name: name, before: before,
		meddle: func() error { return h.Extend(p.ctx, time.Minute) },
		end:    func() error { return h.Unlock(p.ctx) },
	}
}

// family are the kinds that the tests over all kinds of lock do not have, with names that share a slot.
func (p *pair) family(tag string) []member {
	p.Helper()
	return []member{p.readers(tag + ":rw"), p.counted(tag + ":latch"), p.leaders(tag + ":leader"),
		p.several(tag+":both", tag+":and", "elsewhere")}
}

// readers: the first one reads, and the second one is to write.
func (p *pair) readers(name string) member {
	mine, other := rwlock.New(p.one, name), rwlock.New(p.two, name)
	h, err := mine.RLock(p.ctx)
	m := p.held(name, h, err, func() bool {
		s, err := mine.State(p.ctx)
		return err == nil && s.Waiters == 1
	})
	return p.waiting(m, func() error { return p.gets(other.Lock(p.ctx)) })
}

// counted: the second one waits for a latch.
func (p *pair) counted(name string) member {
	mine, other := latch.New(p.one, name), latch.New(p.two, name)
	_, err := mine.Set(p.ctx, 2)
	require.NoError(p, err)
	left := 2
	count := func() error {
		left--
		now, err := mine.CountDown(p.ctx)
		if err == nil && now != left {
			err = errors.New("it counted twice, or not")
		}
		return err
	}
	m := member{name: name, fresh: true, meddle: count, before: func() bool { return true }, end: func() error {
		for left > 0 {
			if err := count(); err != nil {
				return err
			}
		}
		return nil
	}}
	return p.waiting(m, func() error { return other.Wait(p.ctx) })
}

// leaders: the first one leads, and the second one is a candidate. Observers are told of both.
func (p *pair) leaders(name string) member {
	mine, other := election.New(p.one, name), election.New(p.two, name)
	h, err := mine.Campaign(p.ctx, "one")
	m := p.held(name, h, err, func() bool {
		s, err := fairlock.New(p.one, name).State(p.ctx) // its lock is one
		return err == nil && s.Waiters == 1
	})
	told := make(chan error, 1)
	go func() {
		for leader, err := range mine.Observe(p.ctx) {
			if err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
				told <- err
				return
			}
			if leader.Value == "two" {
				told <- nil
				return
			}
		}
		told <- errors.New("nobody was told of the second leader")
	}()
	return p.waiting(m, func() error {
		h, err := other.Campaign(p.ctx, "two")
		if err != nil {
			return err
		}
		return errors.Join(<-told, h.Unlock(p.ctx))
	})
}

// several: the first one holds all, and the second one wants them.
func (p *pair) several(names ...string) member {
	of := func(c *holdfast.Client) *multilock.Mutex {
		return multilock.New(rlock.New(c, names[0]), rlock.New(c, names[1]), fairlock.New(c, names[2]))
	}
	h, err := of(p.one).Lock(p.ctx)
	m := p.held(names[0], h, err, func() bool {
		s, err := fairlock.New(p.one, names[2]).State(p.ctx) // which is the first of them in the order
		return err == nil && s.Waiters == 1
	})
	return p.waiting(m, func() error { return p.gets(of(p.two).Lock(p.ctx)) })
}

// finish gives everything back, and waits until those who waited have had it.
func (p *pair) finish(members []member) {
	p.Helper()
	for _, m := range members {
		require.NoError(p, m.end(), "the server knows %s", m.name)
		require.NoError(p, <-m.follows, m.name)
	}
}

// TestFamilyStory: the other kinds have their life on every topology and version.
func TestFamilyStory(t *testing.T) {
	topology.Each(t, topology.All, func(t *testing.T, top topology.Topology) {
		p := newPair(t, top, nil)
		for _, tag := range []string{"story", "{story}"} {
			members := p.family(tag)
			for _, m := range members {
				require.NoError(t, m.meddle(), m.name)
			}
			p.finish(members)
		}
	})
}

// TestFamilyThroughFailover: another server takes over under them, in good order, and because the old
// one was killed. It knows of all that was there.
func TestFamilyThroughFailover(t *testing.T) {
	const tag = "{failover}"
	topology.Each(t, topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		p := newPair(t, top, &holdfast.Options{RetryBudget: patience})
		members := p.family(tag)
		top.(topology.Failover).Failover(t, tag)
		p.finish(members)
		members = p.family(tag)
		top.(topology.Replicator).AwaitReplicas(t, tag)
		top.(topology.Killer).KillServing(t, tag)
		p.finish(members)
	})
}

// TestFamilyThroughReshard: their slot moves to another master under them. What they do while it is
// half moved succeeds afterwards.
func TestFamilyThroughReshard(t *testing.T) {
	const tag = "{reshard}"
	topology.Each(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		p := newPair(t, top, &holdfast.Options{RetryBudget: patience})
		members := p.family(tag)
		move := top.(topology.Resharder).BeginReshard(t, tag)
		moved, finished := make(chan error, len(members)), make(chan error, len(members))
		for _, m := range members {
			move.Key(t, m.name) // that is there, and all else of it is here
			done := moved
			if m.fresh {
				done = finished
			}
			go func() { done <- m.meddle() }()
		}
		move.Keys(t)
		for _, m := range members {
			if !m.fresh {
				require.NoError(t, <-moved)
			}
		}
		move.Finish(t)
		for _, m := range members {
			if m.fresh {
				require.NoError(t, <-finished)
			}
		}
		p.finish(members)
		p.finish(p.family(tag))
	})
}
