package holdfasttest_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// inLine waits until so many goroutines of a client wait for their turn.
func (p *play) inLine(c *holdfast.Client, n int) {
	p.Helper()
	eventually(p.T, "goroutines wait", func() bool { return (*engine.Client)(c).InLine(name) >= n })
}

// waiters waits until so many have a place at the server.
func (p *play) waiters(n int) {
	p.Helper()
	i, err := inspect.New(p.direct(), nil)
	require.NoError(p, err)
	eventually(p.T, "places", func() bool {
		l, err := i.Lock(context.Background(), name)
		return err == nil && l.Waiters == n
	})
}

// whole is the lock itself where what locks is a side of it.
func (p *play) whole(c *holdfast.Client) any {
	switch l := p.make(c, name).(type) {
	case forcer, *semaphore.Semaphore:
		return l
	default: // who reads
		return rwlock.New(c, name)
	}
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
