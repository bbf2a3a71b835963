package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// pair is two clients of the same servers: what one has, the other waits for.
type pair struct {
	*testing.T
	ctx      context.Context
	one, two *holdfast.Client
	nodes    func() []topology.Node
}

func newPair(t *testing.T, one, two redis.UniversalClient, nodes func() []topology.Node, opts *holdfast.Options) *pair {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	return &pair{t, ctx, newClient(t, one, opts), newClient(t, two, opts), nodes}
}

// member is a kind of lock in that situation.
type member struct {
	name    string       // of its key
	meddle  func() error // an operation of who has it
	enter   func() error // if it can be re-entered, that; it needs the key of the name only
	fresh   bool         // that makes a key: while the slot is half moved Redis says TRYAGAIN of a key that is not there
	end     func() error // gives it back
	follows chan error   // of the one who waits: it got it, and gave it back
	before  func() bool  // it waits
}

// waiting has the second client wait, and returns when it does.
func (p *pair) waiting(m member, wait func() error) member {
	m.follows = make(chan error, 1)
	go func() { m.follows <- wait() }()
	kindtest.Eventually(p.T, m.name+" is waited for", func() bool { return len(m.follows) > 0 || m.before() })
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
	require.NoError(p, err)
	return member{
		name: name, before: before,
		meddle: func() error { return h.Extend(p.ctx, time.Minute) },
		end:    func() error { return h.Unlock(p.ctx) },
	}
}

// family are all kinds, with names that share a slot.
func (p *pair) family(tag string) []member {
	members := []member{p.readers(tag + ":rw"), p.counted(tag + ":latch"), p.deleted(tag + ":deleted"),
		p.leaders(tag + ":leader"), p.permits(tag + ":permits"), p.several(tag+":both", tag+":and", "elsewhere")}
	for _, k := range kinds {
		members = append(members, p.plain(k, tag+":"+k.name))
	}
	return members
}

// plain: the first one has a lock, and the second one waits for it, in line or for the word of its release.
func (p *pair) plain(k kind, name string) member {
	mine, other := k.make(p.one, name), k.make(p.two, name)
	h, err := mine.Lock(p.ctx, holdfast.Wait(patience))
	m := p.held(name, h, err, func() bool {
		if k.nobody < 0 {
			return len(channels(p.nodes(), "CHANNELS", name))+len(channels(p.nodes(), "SHARDCHANNELS", name)) > 0
		}
		s, err := mine.State(p.ctx)
		return err == nil && s.Waiters == 1
	})
	var inner *holdfast.Hold
	m.enter = func() (err error) {
		inner, err = mine.Lock(h.Context(), holdfast.Wait(patience))
		return err
	}
	m.end = func() error {
		if inner != nil {
			if err := inner.Unlock(p.ctx); err != nil {
				return err
			}
		}
		return h.Unlock(p.ctx)
	}
	return p.waiting(m, func() error { return p.gets(other.Lock(p.ctx)) })
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

// permits: the first one has both permits, and the second one wants both. Then there are more of them, and fewer.
func (p *pair) permits(name string) member {
	mine, other := semaphore.New(p.one, name, 2), semaphore.New(p.two, name, 2)
	h, err := mine.Acquire(p.ctx, 2)
	m := p.held(name, h, err, func() bool {
		s, err := mine.State(p.ctx)
		return err == nil && s.Waiters == 1
	})
	return p.waiting(m, func() error {
		if err := p.gets(other.Acquire(p.ctx, 2)); err != nil {
			return err
		}
		err := errors.Join(other.SetPermits(p.ctx, 3), other.SetPermits(p.ctx, 2))
		if s, _ := other.State(p.ctx); err == nil && (s.Permits != 2 || s.Free != 2) {
			err = errors.New("there are not two free permits")
		}
		return err
	})
}

// counted: both wait for a latch.
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
	return p.waiting(m, func() error {
		both := make(chan error, 1)
		go func() { both <- mine.Wait(p.ctx) }()
		return errors.Join(other.Wait(p.ctx), <-both)
	})
}

// deleted: the latch that both wait for is taken away.
func (p *pair) deleted(name string) member {
	m := p.counted(name)
	m.end = func() error {
		_, err := latch.New(p.one, name).Delete(p.ctx)
		return err
	}
	return m
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

// lives is what they go through where nothing happens to the servers.
func (p *pair) lives(members []member) {
	for _, m := range members {
		if m.enter != nil {
			require.NoError(p, m.enter(), m.name)
		}
		require.NoError(p, m.meddle(), m.name)
	}
	p.finish(members)
}

// finish gives everything back, and waits until those who waited have had it.
func (p *pair) finish(members []member) {
	for _, m := range members {
		require.NoError(p, m.end(), "the server knows %s", m.name)
		require.NoError(p, <-m.follows, m.name)
	}
}

// channels are those with a part of a name in them that somebody listens to at one of the servers.
func channels(nodes []topology.Node, which, part string) (all []string) {
	for _, node := range nodes {
		reply, err := node.Try("PUBSUB", which)
		list, _ := reply.([]any)
		for _, one := range list {
			if name, _ := one.(string); err == nil && strings.Contains(name, part) {
				all = append(all, name)
			}
		}
	}
	return all
}

// prefixable are the kinds that somebody holds.
var prefixable = map[string]func(c *holdfast.Client, name string) holdfast.Locker{
	"rlock":     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
	"fairlock":  func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	"rwlock":    func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) },
	"reader":    func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name).RLocker() },
	"semaphore": func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, 1) },
	"multilock": func(c *holdfast.Client, name string) holdfast.Locker { return multilock.New(rlock.New(c, name)) },
	"redlock": func(c *holdfast.Client, name string) holdfast.Locker {
		return redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts(), redlock.MasterTimeout(5*time.Second)) // of a busy machine
	},
}

// TestPrefix: a name and a client's prefix are the name in Redis, of every kind, and in errors. Without the prefix it is
// another lock. Each kind has a server of its own, for a client may have something to give back after its user has unlocked.
func TestPrefix(t *testing.T) {
	for kind, lock := range prefixable {
		t.Run(kind, func(t *testing.T) {
			srv := redistest.Start(t)
			ours := newClient(t, srv.Client(t), &holdfast.Options{Prefix: "team:"})
			plain := newClient(t, srv.Client(t), nil)
			mine, same, other := lock(ours, kind), lock(plain, "team:"+kind), lock(plain, kind)
			require.Equal(t, "team:"+kind, mine.Name())
			h := kindtest.Lock(t, mine)
			mustBeUnder(t, srv.Client(t), "team:"+kind)
			if kind != "reader" {
				kindtest.Refused(t.Context(), t, same.TryLock)
				require.ErrorContains(t, kindtest.Err(mine.TryLock(t.Context())), `"team:`+kind+`"`)
			}
			unlike := kindtest.Take(t.Context(), t, other.TryLock) // control: without the prefix
			require.NoError(t, unlike.Unlock(t.Context()))
			granted := kindtest.Begin(t.Context(), t, same.Lock, holdfast.Wait(patience))
			require.NoError(t, h.Unlock(t.Context()))
			kindtest.Unlock(t, granted.Hold())

			for name, remedy := range map[string]string{"": "give the lock a name", "a}": "remove it", "{": "close it",
				strings.Repeat("x", 1020): "name has 1025 bytes, 5 of them Options.Prefix; use at most 1024"} {
				kindtest.Tells(t, kindtest.Err(lock(ours, name).Lock(t.Context())), holdfast.ErrInvalid, remedy)
			}
		})
	}
}

// mustBeUnder checks that there are keys, and that all of them are of a name.
func mustBeUnder(t *testing.T, rdb *redis.Client, name string) {
	all := rdb.Keys(t.Context(), "*").Val()
	require.NotEmpty(t, all)
	for _, key := range all {
		require.True(t, key == name || strings.Contains(key, "{"+name+"}"), "%s is not of %s", key, name)
	}
}

// TestPrefixOfOthers: likewise of the kinds that nobody holds.
func TestPrefixOfOthers(t *testing.T) {
	srv := redistest.Start(t)
	ours := newClient(t, srv.Client(t), &holdfast.Options{Prefix: "team:"})
	plain := newClient(t, srv.Client(t), nil)

	l := latch.New(ours, "latch")
	require.Equal(t, "team:latch", l.Name())
	require.NoError(t, kindtest.Err(l.Set(t.Context(), 1)))
	mustBeUnder(t, srv.Client(t), "team:latch")
	n, err := latch.New(plain, "team:latch").CountDown(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, l.Wait(t.Context(), holdfast.Wait(patience)))
	require.ErrorContains(t, kindtest.Err(latch.New(ours, "").Count(t.Context())), "give the lock a name")
	require.NoError(t, srv.Client(t).FlushAll(t.Context()).Err())

	e := election.New(ours, "election")
	require.Equal(t, "team:election", e.Name())
	h, err := e.Campaign(t.Context(), "me")
	require.NoError(t, err)
	mustBeUnder(t, srv.Client(t), "team:election")
	leader, err := election.New(plain, "team:election").Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "me", leader.Value)
	require.ErrorIs(t, kindtest.Err(election.New(plain, "election").Leader(t.Context())), election.ErrNoLeader)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorContains(t, kindtest.Err(election.New(ours, "").Leader(t.Context())), "give the lock a name")
}

// TestPrefixesOfMasters: the masters of a lock have one name for it.
func TestPrefixesOfMasters(t *testing.T) {
	var clients []*holdfast.Client
	for _, prefix := range []string{"a:", "a:", "b:"} {
		clients = append(clients, newClient(t, redistest.Start(t).Client(t), &holdfast.Options{Prefix: prefix}))
	}
	_, err := redlock.New(clients, "x", redlock.TrustRestarts()).Lock(t.Context(), holdfast.Wait(time.Second))
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, `Options.Prefix of clients[2] is "b:", and that of clients[0] is "a:"; give all`)
	require.NoError(t, kindtest.Pair(t.Context(), redlock.New(clients[:2], "x", redlock.TrustRestarts()), holdfast.Wait(patience)))
}
