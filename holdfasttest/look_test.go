package holdfasttest_test

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// waiting waits until so many goroutines of a client wait: in the client, or with places at the server. Who
// is to read has neither, and listens.
func (p *play) waiting(c *holdfast.Client, n int) {
	p.Helper()
	eventually(p.T, "goroutines wait", func() bool {
		l := p.seen()
		return (*engine.Client)(c).InLine(name) >= n || l.Waiters >= n || n == 1 && l.Listening > 0
	})
}

// waiters waits until so many have a place at the server.
func (p *play) waiters(n int) {
	p.Helper()
	eventually(p.T, "places, of whom one listens", func() bool {
		l := p.seen()
		return l.Waiters == n && !slices.ContainsFunc(l.Problems, func(p inspect.Problem) bool { return p.Trouble == inspect.DeadQueue })
	})
}

func (p *play) seen() inspect.Lock {
	p.Helper()
	i, err := inspect.New(p.direct(), nil)
	require.NoError(p, err)
	l, err := i.Lock(context.Background(), name)
	require.NoError(p, err)
	return l
}

// whole is the lock itself where what locks is a side of it.
func (p *play) whole(c *holdfast.Client) any {
	switch l := p.make(c, name).(type) {
	case *redlock.Mutex: // a master may take its time on a busy machine
		return redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts(), redlock.MasterTimeout(5*time.Second))
	case forcer, *semaphore.Semaphore:
		return l
	default: // who reads
		return rwlock.New(c, name)
	}
}

// others makes the lock that keeps everybody out: for who reads, one who writes.
func (p *play) others() maker {
	return func(c *holdfast.Client, name string) holdfast.Locker {
		l := p.make(c, name)
		if _, one := l.(forcer); one {
			return l
		}
		return rwlock.New(c, name)
	}
}

// patiently makes a lock of the kind that a busy machine does not lose.
func (p *play) patiently() holdfast.Locker {
	c := p.client(&holdfast.Options{Lease: patient})
	if l, several := p.whole(c).(*redlock.Mutex); several {
		return l
	}
	return p.make(c, name)
}

type forcer interface {
	ForceUnlock(ctx context.Context) (bool, error)
}

// force notes what comes of ForceUnlock.
func (p *play) force(c *holdfast.Client) {
	forced, err := p.whole(c).(forcer).ForceUnlock(context.Background())
	p.note("force: %v %s", forced, what(err))
}

// look notes all that State and package inspect say of a lock that h is said to hold, but for names and times.
func (p *play) look(c *holdfast.Client, h *holdfast.Hold) {
	holder := func(o holdfast.Holder) {
		p.note("  %d times, the holder's: %v, a lease: %v", o.Count, h != nil && o.Owner == h.Owner(), o.Remaining > 0)
	}
	token := func(t uint64) string {
		switch {
		case t == 0:
			return "none"
		case h != nil && t == h.Token():
			return "the holder's"
		}
		return "one"
	}
	switch l := p.whole(c).(type) {
	case *rwlock.RWMutex:
		s, err := l.State(context.Background())
		p.note("state: %s, writing: %v, token: %s, waiters: %d", what(err), s.Writing, token(s.Token), s.Waiters)
		for _, o := range s.Holders {
			holder(o)
		}
	case *semaphore.Semaphore:
		s, err := l.State(context.Background())
		p.note("state: %s, %d of %d free, waiters: %d", what(err), s.Free, s.Permits, s.Waiters)
		for _, o := range s.Holders {
			holder(o)
		}
	case *redlock.Mutex:
		s, err := l.State(context.Background())
		p.note("state: %s, token: %s, waiters: %d, masters: %d, %s", what(err), token(s.Token), s.Waiters, len(s.Masters), what(s.Masters[0].Err))
		holder(holdfast.Holder{Owner: s.Owner, Count: s.Count, Remaining: s.Remaining})
	case interface {
		State(ctx context.Context) (holdfast.State, error)
	}:
		s, err := l.State(context.Background())
		p.note("state: %s, token: %s, waiters: %d", what(err), token(s.Token), s.Waiters)
		holder(holdfast.Holder{Owner: s.Owner, Count: s.Count, Remaining: s.Remaining})
	}
	i, err := inspect.New(p.direct(), nil)
	require.NoError(p, err)
	l, err := i.Lock(context.Background(), name)
	p.note("inspect: %s, %s %q, token: %s, waiters: %d, permits: %+v", what(err), l.Kind, l.Type, token(l.Token), l.Waiters, l.Permits)
	for _, o := range l.Holders {
		p.note("  %d times, the holder's: %v, a lease: %v, %s, left: %v", o.Count, h != nil && o.Owner == h.Owner(), o.Remaining > 0, o.Mode, o.Left)
	}
	for _, problem := range l.Problems {
		p.note("  problem: %s", problem.Trouble)
	}
}
