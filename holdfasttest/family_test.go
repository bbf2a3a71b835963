package holdfasttest_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// patient is a lease that is renewed in a few seconds, and which a busy machine does not lose.
const patient = 9 * time.Second

// moment is a wait that is too short for the lock, and long enough for answers of a busy machine.
const moment = 2 * time.Second

// family are the stories of what the others leave out: there each script of the library is sent by some story, see TestSame.
var family = map[string]scenario{
	"handed to goroutines of the client": {kinds: "rlock fairlock rwlock semaphore redlock", play: func(p *play) {
		c := p.client(nil)
		l := p.make(c, name)
		h := p.lock(l)
		var group sync.WaitGroup
		for n := range 3 {
			group.Go(func() {
				next, err := l.Lock(context.Background())
				if err != nil {
					p.note("lock: %s", what(err))
					return
				}
				p.note("a greater token: %v, unlock: %s", next.Token() > h.Token(), what(next.Unlock(context.Background())))
			})
			p.waiting(c, n+1)
		}
		err := h.Unlock(context.Background())
		group.Wait() // they may say that they have it before Unlock returns
		p.note("unlock: %s", what(err))
		p.free(h)
	}},
	"goroutines of a client ask together": {kinds: "fairlock semaphore", play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		l := p.locker(holdfast.Options{})
		var group sync.WaitGroup
		ask := func() {
			next, err := l.Lock(context.Background())
			if err != nil {
				p.note("lock: %s", what(err))
				return
			}
			p.unlock(next)
		}
		group.Go(ask)
		p.waiters(1)
		for range 3 {
			group.Go(ask) // beside one that waits they are gathered for a moment
		}
		p.waiters(4)
		err := h.Unlock(context.Background())
		group.Wait()
		p.note("unlock: %s", what(err))
		p.free(h)
	}},
	"a waiter has patience": {kinds: "fairlock semaphore", play: func(p *play) {
		h := p.lock(p.locker(holdfast.Options{}))
		_, err := p.locker(holdfast.Options{}).Lock(context.Background(), holdfast.Wait(1500*time.Millisecond))
		p.note("wait: %s, unlock: %s", what(err), what(h.Unlock(context.Background())))
		p.free(h)
	}},
	"unlocked early": {kinds: "rlock fairlock rwlock redlock", play: func(p *play) {
		l := p.locker(holdfast.Options{})
		h := p.lock(l, holdfast.HoldAtLeast(5*time.Second))
		p.note("unlock: %s, held %s", what(h.Unlock(context.Background())), p.held())
		p.over(h)
		p.note("try: %s", of(p.locker(holdfast.Options{}).TryLock(context.Background())))
		next := p.lock(l)
		p.note("a greater token: %v, unlock: %s", next.Token() > h.Token(), what(next.Unlock(context.Background())))
	}},
	"several are renewed": {kinds: "rlock fairlock rwlock readers semaphore redlock", play: func(p *play) {
		const several = 3
		renewed := make(map[string]int)
		var mu sync.Mutex // guards renewed
		c := p.client(&holdfast.Options{Lease: patient, Observer: &event.Observer{Renewed: func(r event.Renewal) {
			mu.Lock()
			defer mu.Unlock()
			if r.Err == nil {
				renewed[r.Name]++
			}
		}}})
		var holds []*holdfast.Hold
		for n := range several {
			holds = append(holds, p.lock(p.make(c, fmt.Sprint(name, n))))
		}
		eventually(p.T, "all are renewed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(renewed) == several
		})
		for _, h := range holds {
			p.note("cause: %s, unlock: %s", what(context.Cause(h.Context())), what(h.Unlock(context.Background())))
		}
	}},
	"many at once": {kinds: "rlock", play: func(p *play) {
		const many = 6
		c := p.client(nil)
		all := func() holdfast.Locker {
			var list []holdfast.Locker
			for n := range many {
				list = append(list, p.make(c, fmt.Sprint(name, n)))
			}
			return multilock.New(list...)
		}
		h := p.lock(all())
		p.unlock(h)
		last := p.lock(p.make(p.client(nil), fmt.Sprint(name, many-1)))
		p.note("try: %s", of(all().TryLock(context.Background())))
		p.note("a greater token: %v, unlock: %s", last.Token() > h.Token(), what(last.Unlock(context.Background())))
		h = p.lock(all())
		p.lose(fmt.Sprint(name, 3))
		p.unlock(h)
		p.note("again: %s", what(p.lock(all()).Unlock(context.Background())))
	}},
	"forced": {kinds: "rlock fairlock rwlock readers redlock", play: func(p *play) {
		h := p.lock(p.patiently())
		c := p.client(nil)
		p.force(c)
		p.over(h)
		// A quorum lock's holder has asked the master to take it back, and gives that back when it finds out.
		eventually(p.T, "nobody has it", func() bool { return p.held() == "by nobody" })
		p.force(c)
		p.unlock(h)
		p.free(h)
	}},
	"ended by an operator": {kinds: "rlock fairlock rwlock readers semaphore redlock", play: func(p *play) {
		i, err := inspect.New(p.direct(), nil)
		require.NoError(p, err)
		end := func(g inspect.Grant) {
			e, err := i.End(context.Background(), name, g)
			p.note("end: %s, %s %s, told: %v", what(err), e.Kind, e.Holder.Mode, e.Untold == "")
		}
		h := p.lock(p.patiently())
		end(inspect.Grant{Token: h.Token() + 1})
		end(inspect.Grant{Owner: "somebody:h1"})
		end(inspect.Grant{Owner: h.Owner()})
		end(inspect.Grant{Owner: h.Owner()})
		p.over(h)
		h = p.lock(p.patiently())
		end(inspect.Grant{Token: h.Token()})
		p.unlock(h)
		p.free(h)
	}},
	"what is to be seen": {kinds: "rlock fairlock rwlock readers semaphore redlock", play: func(p *play) {
		c := p.client(nil)
		l := p.make(c, name)
		p.look(c, nil)
		h := p.lock(l)
		p.look(p.client(nil), h)
		if inner, err := l.TryLock(h.Context()); err == nil {
			p.look(c, h)
			p.unlock(inner)
		}
		p.unlock(h)
		p.look(c, nil)
		require.NoError(p, p.direct().Del(context.Background(), name).Err())
		require.NoError(p, p.direct().RPush(context.Background(), name, "mine").Err())
		p.look(c, nil)
	}},
	"readers and a writer": {kinds: "rwlock", play: func(p *play) {
		m := rwlock.New(p.client(nil), name)
		first, err := m.RLock(context.Background())
		p.note("read: %s", what(err))
		second, err := rwlock.New(p.client(&short), name).RLock(context.Background())
		p.note("read: %s", what(err))
		p.note("upgrade: %s", of(m.Lock(first.Context())))
		c := p.client(nil)
		writer := kindtest.Begin(context.Background(), p, rwlock.New(c, name).Lock)
		p.waiters(1)
		p.note("read beside who waits to write: %s", of(rwlock.New(p.client(nil), name).TryRLock(context.Background())))
		p.look(c, nil)
		p.unlock(first)
		p.force(c)
		h := writer.Hold()
		p.over(second)
		down, err := rwlock.New(c, name).RLock(h.Context())
		p.note("read under the write: %s", what(err))
		p.look(c, h)
		p.note("unlock: %s, %s", what(h.Unlock(context.Background())), what(down.Unlock(context.Background())))
		p.look(c, nil)
	}},
	"permits": {kinds: "semaphore", play: func(p *play) {
		c := p.client(nil)
		s := semaphore.New(c, name, 2)
		two, err := s.Acquire(context.Background(), 2)
		p.note("two: %s", what(err))
		p.note("one more: %s", of(s.TryAcquire(context.Background(), 1)))
		p.note("more than there are: %s", of(s.Acquire(context.Background(), 3, holdfast.Wait(moment))))
		other := semaphore.New(p.client(nil), name, 2)
		got := kindtest.Begin(context.Background(), p, func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
			return other.Acquire(ctx, 2)
		})
		p.waiters(1)
		p.look(c, nil)
		p.note("set: %s", what(s.SetPermits(context.Background(), 4)))
		h := got.Hold()
		p.look(c, nil)
		p.note("set: %s", what(s.SetPermits(context.Background(), 1)))
		p.look(c, nil)
		p.note("unlock: %s, %s", what(h.Unlock(context.Background())), what(two.Unlock(context.Background())))
		p.look(c, nil)
	}},
	"a latch": {kinds: "latch", play: func(p *play) {
		c := p.client(nil)
		l := latch.New(c, name)
		set := func(n int) {
			did, err := l.Set(context.Background(), n)
			p.note("set: %v %s", did, what(err))
		}
		down := func() {
			left, err := l.CountDown(context.Background())
			p.note("count down: %d %s", left, what(err))
		}
		count := func() {
			left, err := l.Count(context.Background())
			p.note("count: %d %s", left, what(err))
		}
		remove := func() {
			did, err := l.Delete(context.Background())
			p.note("delete: %v %s", did, what(err))
		}
		other := latch.New(p.client(nil), name)
		wait := func(opts ...holdfast.Option) { p.note("wait: %s", what(other.Wait(context.Background(), opts...))) }
		behind := func(open func()) {
			waited := make(chan error, 1)
			go func() { waited <- other.Wait(context.Background()) }()
			open()
			p.note("wait: %s", what(<-waited))
		}
		down()
		wait()
		set(3)
		set(4)
		count()
		p.inject(holdfasttest.Fault{Name: name, Op: holdfasttest.Other, After: true})
		down()
		wait(holdfast.Wait(time.Second))
		down()
		behind(down)
		count()
		set(2)
		behind(remove)
		remove()
		require.NoError(p, p.direct().RPush(context.Background(), name, "mine").Err())
		set(1)
		count()
		down()
		remove()
	}},
	"an election": {kinds: "election", play: func(p *play) {
		var observer election.Leader
		seen := make(chan election.Leader)
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() {
			for leader, err := range election.New(p.client(nil), name).Observe(ctx) {
				if err != nil {
					p.note("observe: %s", what(err))
				}
				seen <- leader
			}
		})
		next := func() {
			observer = <-seen
			p.note("leads: %q", observer.Value)
		}
		next()
		c, renewed := p.client(&holdfast.Options{Lease: patient}), make(chan struct{})
		once := sync.OnceFunc(func() { close(renewed) })
		e, leads, resign := election.New(c, name), make(chan struct{}), make(chan struct{})
		var ran error
		group.Go(func() {
			ran = e.Run(ctx, "one", func(ctx context.Context) error {
				close(leads)
				<-resign
				return context.Cause(ctx)
			})
		})
		next()
		token := observer.Token
		<-leads // who observes may hear of it before the leader has its answer
		p.note("is the leader: %v, another: %v", e.IsLeader(), election.New(p.client(nil), name).IsLeader())
		p.note("campaign: %s", of(election.New(p.client(nil), name).Campaign(ctx, "two", holdfast.Wait(moment))))
		leader, err := election.New(p.client(nil), name).Leader(ctx)
		p.note("leader: %q %s, as observed: %v, a lease: %v", leader.Value, what(err), leader.Token == token, leader.Remaining > 0)
		close(resign)
		next()
		p.note("leader: %s", of(e.Leader(ctx)))
		h, err := election.New(p.client(&holdfast.Options{Lease: patient, Observer: &event.Observer{
			Renewed: func(event.Renewal) { once() },
		}}), name).Campaign(ctx, "two")
		p.note("campaign: %s, a greater token: %v", what(err), h.Token() > token)
		next()
		<-renewed
		p.note("unlock: %s", what(h.Unlock(ctx)))
		next()
		cancel()
		group.Wait()
		p.note("run: %s", what(ran))
	}},
	"a guard": {kinds: "fence", play: func(p *play) {
		g := fence.NewRedis(p.direct())
		c := p.client(nil)
		do := func(token uint64, command string, args ...any) {
			reply, err := g.DoToken(context.Background(), token, "data", command, args...)
			p.note("%s: %#v %s", command, reply, what(err))
		}
		old := p.lock(rlock.New(c, name))
		do(old.Token(), "GET")
		do(old.Token(), "SET", "1")
		do(old.Token(), "INCRBY", 41)
		p.unlock(old)
		h := p.lock(rlock.New(c, name))
		reply, err := g.Do(h.Context(), "data", "GETSET", "new")
		p.note("do: %#v %s", reply, what(err))
		do(old.Token(), "SET", "old")
		do(h.Token(), "LPUSH", "x")
		do(h.Token(), "DEL")
		do(h.Token(), "RPUSH", "x", "y")
		do(h.Token(), "LRANGE", 0, -1)
		do(h.Token(), "NOSUCHCOMMAND")
		p.note("without a hold: %s", of(g.Do(context.Background(), "data", "GET")))
		p.unlock(h)
	}},
}
