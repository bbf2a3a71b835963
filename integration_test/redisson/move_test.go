package redisson

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// movePrefix is what the fleet's name mapper puts in front.
const movePrefix = "team:"

// movePermits is how many permits the semaphore of a fleet that moves has.
const movePermits = 2

// TestMove does what docs/redisson.md says of moving a running fleet, and moves it back: a fleet of
// Redisson's with a name mapper, of which one process after the other is replaced by one of ours while
// all go on. There is never more than one holder, tokens grow with every grant, whoever has it, and all
// go on getting it after each step: what was left behind would stand for a lease, which is longer than
// anybody waits. Not beside other tests: storms leave it too little of the machine.
func TestMove(t *testing.T) {
	kinds := append([]kind{{theirs: "permits"}}, kinds[1:]...) // a fleet takes tokens from its fenced locks, before it moves
	topology.EachLocal(t, topology.Single|topology.Cluster, func(t *testing.T, top topology.Topology) {
		w := Shared(t)
		for _, k := range kinds {
			t.Run(k.theirs, func(t *testing.T) {
				t.Parallel()
				m := newMove(t, w, top, k, movePrefix)
				for range 2 {
					m.join(m.redisson())
				}
				m.goesOn()
				m.replace(m.holdfast)
				m.replace(m.redisson) // the way back
				m.end()
				require.Empty(t, m.wrong)
			})
		}
	})
}

// TestMoveControl leaves out a step: the first process in Go has no prefix. Both hold "the lock" then, and
// the test says so.
func TestMoveControl(t *testing.T) {
	t.Parallel()
	topology.EachLocal(t, topology.Single, func(t *testing.T, top topology.Topology) {
		m := newMove(t, Shared(t), top, kinds[1], "")
		m.join(m.redisson())
		m.goesOn()
		m.join(m.holdfast())
		until(m.ctx, t, "two hold it", func() bool { return m.found("inside with") })
		m.end()
	})
}

// move is a fleet that moves, and what its processes do: they lock, look whether they are alone, and
// unlock, again and again.
type move struct {
	*testing.T
	kind
	ctx    context.Context
	w      *Worker
	top    topology.Topology
	name   string // as clients are given it
	prefix string // of ours
	lease  time.Duration
	most   int32 // how many may be inside

	members []*member // oldest first
	started int
	inside  atomic.Int32

	mu    sync.Mutex // guards the rest
	last  uint64     // token
	wrong []string
}

// member is a process of the fleet: a client with threads, or goroutines.
type member struct {
	name   string
	lock   []func() (token string, unlock func() error, err error) // one for each thread
	close  func()
	leaves atomic.Bool
	grants atomic.Int64
	group  sync.WaitGroup
}

func newMove(t *testing.T, w *Worker, top topology.Topology, k kind, prefix string) *move {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) // each step has its own limit
	t.Cleanup(cancel)
	m := &move{T: t, kind: k, ctx: ctx, w: w, top: top, name: "move:" + k.theirs, prefix: prefix, lease: long, most: 1}
	if k.bounded { // W4: the last one may sleep for all of it
		m.lease = Patience * 2 / 3
	}
	j := w.Connect(t, top, Settings{Prefix: movePrefix}).Thread(t)
	real := Ask{Op: "lock", Kind: "lock", Name: m.name + ":real"}
	require.NoError(t, j.Do(t, real).Err())
	require.Equal(t, int64(1), top.Admin(t).Exists(ctx, movePrefix+real.Name).Val(), "it is Redisson")
	if k.theirs == "permits" {
		m.most = movePermits
		require.True(t, j.Do(t, Ask{Op: "trySetPermits", Kind: k.theirs, Name: m.name, N: movePermits}).Yes())
	}
	return m
}

// redisson is a process of Redisson's.
func (m *move) redisson() *member {
	m.Helper()
	c := m.w.Connect(m.T, m.top, Settings{Prefix: movePrefix, Watchdog: millis(m.lease)})
	p := &member{name: c.ID, close: func() { c.Shutdown(m.T) }}
	for range 2 {
		j := c.Thread(m.T)
		ask := func(op string, ids ...string) (Reply, error) {
			return j.Call(m.ctx, Ask{Op: op, Kind: m.theirs, Name: m.name, IDs: ids, N: 1})
		}
		p.lock = append(p.lock, func() (string, func() error, error) {
			op, back, text := "lock", "unlock", Reply.Text
			switch m.theirs {
			case "fenced":
				op = "lockAndGetToken"
			case "permits":
				op, back, text = "acquire", "release", func(Reply) string { return "" }
			}
			r, err := ask(op)
			return text(r), func() error {
				_, err := ask(back, r.Texts()...)
				return err
			}, err
		})
	}
	return p
}

// holdfast is a process of ours.
func (m *move) holdfast() *member {
	m.Helper()
	c, err := holdfast.New(m.top.Connect(m.T), &holdfast.Options{Lease: m.lease, Prefix: m.prefix})
	require.NoError(m, err)
	redistest.CloseAtEnd(m.T, c)
	p := &member{name: c.ID(), close: func() { require.NoError(m, c.Close(m.ctx)) }}
	lock := func() (string, func() error, error) {
		var l holdfast.Locker
		if m.theirs == "permits" {
			l = semaphore.New(c, m.name, movePermits)
		} else {
			l = m.make(c, m.name)
		}
		h, err := l.Lock(m.ctx)
		if err != nil {
			return "", nil, err
		}
		token := ""
		if m.theirs == "fenced" {
			token = strconv.FormatUint(h.Token(), 10)
		}
		return token, func() error { return h.Unlock(m.ctx) }, nil
	}
	p.lock = append(p.lock, lock, lock)
	return p
}

// join has a process take part.
func (m *move) join(p *member) {
	m.started++
	p.name = fmt.Sprintf("process %d, %s", m.started, p.name)
	m.members = append(m.members, p)
	for _, lock := range p.lock {
		p.group.Go(func() {
			for !p.leaves.Load() {
				if err := m.visit(p, lock); err != nil {
					m.says(p.name + ": " + err.Error())
					return
				}
				<-time.After(4 * time.Millisecond) // or one of Redisson's may wait for permits for ever, which queues for none
			}
		})
	}
}

// visit locks and unlocks once.
func (m *move) visit(p *member, lock func() (string, func() error, error)) error {
	token, unlock, err := lock()
	if err != nil {
		return err
	}
	if n := m.inside.Add(1); n > m.most {
		m.says(fmt.Sprintf("%s is inside with %d others", p.name, n-1))
	}
	if token != "" {
		m.check(p, token)
	}
	p.grants.Add(1)
	_, err = m.top.Nodes()[0].Try("PING") // which takes a moment
	m.inside.Add(-1)
	return errors.Join(err, unlock())
}

// check is what a store does that refuses old tokens.
func (m *move) check(p *member, text string) {
	token, err := strconv.ParseUint(text, 10, 64)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || token <= m.last {
		m.wrong = append(m.wrong, fmt.Sprintf("%s has token %s after %d", p.name, text, m.last))
	}
	m.last = token
}

func (m *move) says(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, text)
}

// found reports whether something is wrong that says so.
func (m *move) found(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.wrong, func(w string) bool { return strings.Contains(w, what) })
}

// goesOn waits until all have got it some times more. Where Redisson's sleep for a lease, each may do so
// several times.
func (m *move) goesOn() {
	m.Helper()
	for _, p := range m.members {
		before := p.grants.Load()
		within(m.ctx, m.T, 4*Patience, p.name+" gets it", func() bool { return p.grants.Load() >= before+3 || m.found("") })
	}
}

// replace replaces all of them, one by one: another one joins, and all go on; the oldest leaves when it
// has unlocked, and the others go on.
func (m *move) replace(by func() *member) {
	m.Helper()
	for range len(m.members) {
		m.join(by())
		m.goesOn()
		oldest := m.members[0]
		m.members = m.members[1:]
		m.leave(oldest)
		m.goesOn()
	}
}

// leave has a process end as one should.
func (m *move) leave(p *member) {
	m.Helper()
	p.leaves.Store(true)
	done := make(chan struct{})
	go func() { p.group.Wait(); close(done) }()
	within(m.ctx, m.T, 4*Patience, p.name+" has unlocked", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	p.close()
}

// end has all leave.
func (m *move) end() {
	m.Helper()
	for _, p := range m.members {
		p.leaves.Store(true)
	}
	for _, p := range m.members {
		m.leave(p)
	}
}
