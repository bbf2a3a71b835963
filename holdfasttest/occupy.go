package holdfasttest

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/rlock"
)

// never is a lease for as long as a test can last, also in a bubble.
const never = 100 * 365 * 24 * time.Hour

// Occupy takes the lock of a name for somebody else: another process, which dies at once. The lock
// ends after the lease; with 0 it has no end. release gives the lock back before that. If the kind
// has a queue, the first waiter gets it. A second call of release does nothing, and neither does
// one after the end.
//
// Occupy works for rlock, fairlock, redlock (occupy enough of its servers), rwlock (somebody
// writes) and election (somebody leads, without an announcement). The first caller that asks for
// the lock decides its kind; package inspect reports a plain lock until then. For a semaphore, and
// for a lock that is read, use [Server.OccupyWith]. A name that is already taken fails the test.
func (s *Server) Occupy(name string, lease time.Duration) (release func()) {
	s.tb.Helper()
	p := s.stranger()
	hold := s.occupy(p, rlock.New(p.client, name), lease)
	return s.releasing(name, lease, hold.Owner(), func(ctx context.Context) {
		s.endOf(ctx, name, hold)
		p.gone.Store(false)
		_ = hold.Unlock(ctx) // the client finds out that it is gone
		// A hash of one owner says nothing of who waits to read or to write.
		if err := s.past.Publish(ctx, keys.ForReadWrite(name).Channel, "1").Err(); err != nil {
			s.tb.Errorf("holdfasttest: releasing %q: %v", name, err)
		}
	})
}

// OccupyWith is Occupy for any lock. make makes the lock on the client of somebody else: a semaphore,
// of which each call takes one permit, or the readers' side of an rwlock.
//
//	release := server.OccupyWith(0, func(c *holdfast.Client) holdfast.Locker { return semaphore.New(c, "slots", 3) })
func (s *Server) OccupyWith(lease time.Duration, make func(c *holdfast.Client) holdfast.Locker) (release func()) {
	s.tb.Helper()
	p := s.stranger()
	l := make(p.client)
	hold := s.occupy(p, l, lease)
	return s.releasing(l.Name(), lease, "", func(ctx context.Context) {
		p.gone.Store(false)
		switch err := hold.Unlock(ctx); {
		case errors.Is(err, holdfast.ErrLost): // by its client's clock, which is ahead of the lease's end
			s.endOf(ctx, l.Name(), hold)
		case err != nil && !errors.Is(err, holdfast.ErrClosed):
			s.tb.Errorf("holdfasttest: releasing %q: %v", l.Name(), err)
		}
	})
}

// endOf ends what is left of a hold.
func (s *Server) endOf(ctx context.Context, name string, hold *holdfast.Hold) {
	s.tb.Helper()
	_, err := s.look.End(ctx, name, inspect.Grant{Owner: hold.Owner()})
	if err != nil && !errors.Is(err, inspect.ErrFree) && !errors.Is(err, inspect.ErrStale) {
		s.tb.Errorf("holdfasttest: releasing %q: %v", name, err)
	}
}

// occupy takes the lock for a process that dies then.
func (s *Server) occupy(p *process, l holdfast.Locker, lease time.Duration) *holdfast.Hold {
	s.tb.Helper()
	hold, err := l.TryLock(context.Background(), holdfast.Lease(cmp.Or(lease, never)), holdfast.NoRenewal())
	if err != nil {
		s.tb.Fatalf("holdfasttest: cannot occupy %q: %v", l.Name(), err)
	}
	p.gone.Store(true)
	return hold
}

// releasing notes that a name is occupied until the lease is over or the returned function is called. plain is
// the owner, if that is of a plain lock.
func (s *Server) releasing(name string, lease time.Duration, plain string, release func(context.Context)) func() {
	released := s.watch.occupy(name, cmp.Or(lease, never), plain)
	return sync.OnceFunc(func() {
		defer released()
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		release(ctx)
	})
}

// process is one of somebody else. While it is gone, nothing that its client sends arrives: that would
// give the lock back when the lease ends by its own clock, which is a hundredth early.
type process struct {
	client *holdfast.Client
	gone   atomic.Bool
}

// stranger starts a process of somebody else.
func (s *Server) stranger() *process {
	s.tb.Helper()
	if s.wires.isStray() {
		s.tb.Fatal(errStray)
	}
	p := new(process)
	o := s.RedisOptions()
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := s.wires.direct(ctx, network, addr)
		return mortal{c, &p.gone}, err
	}
	rdb := redis.NewClient(o)
	c, err := holdfast.New(rdb, &holdfast.Options{Logger: silent, Label: holdfast.NoLabel})
	if err != nil {
		_ = rdb.Close()
		s.tb.Fatal("holdfasttest: ", err)
	}
	p.client = c
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers = append(s.strangers, p)
	s.pools = append(s.pools, rdb)
	return p
}

// mortal is a connection of a process.
type mortal struct {
	net.Conn
	gone *atomic.Bool
}

func (m mortal) Write(p []byte) (int, error) {
	if m.gone.Load() {
		return 0, net.ErrClosed
	}
	return m.Conn.Write(p)
}

// Lose takes the lock of a name, as it stands in Redis, away from its holder: from all readers of
// an rwlock, all holders of permits of a semaphore, and the leader of an election. The waiters
// wake, and may get the lock at once. Clients of this server then ask the server without waiting
// for their next renewal. So the contexts of these holds end with holdfast.ErrLost as soon as it
// has answered. Holds with NoRenewal send no renewals, and end with their leases.
//
// A name that nobody holds fails the test.
func (s *Server) Lose(name string) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	lost := 0
	for {
		l, err := s.look.Lock(ctx, name)
		if err != nil {
			s.tb.Errorf("holdfasttest: losing %q: %v", name, err)
			return
		}
		ended, err := s.endAll(ctx, l)
		if err != nil {
			s.tb.Errorf("holdfasttest: losing %q: %v", name, err)
			return
		}
		lost += ended
		if !l.More || ended == 0 {
			break
		}
	}
	if lost == 0 {
		s.tb.Errorf("holdfasttest: nobody holds %q, so that nobody can lose it", name)
	}
	s.watch.lose(name)
	s.renewNow(name)
}

// endAll ends the holds that are listed, and returns how many it did.
func (s *Server) endAll(ctx context.Context, l inspect.Lock) (ended int, err error) {
	for _, h := range l.Holders {
		_, err := s.look.End(ctx, l.Name, inspect.Grant{Owner: h.Raw})
		if err != nil && !errors.Is(err, inspect.ErrFree) && !errors.Is(err, inspect.ErrStale) {
			return ended, err
		}
		if err == nil {
			ended++
		}
	}
	return ended, nil
}
