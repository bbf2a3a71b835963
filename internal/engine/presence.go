package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/task"
)

// presence says in Redis who a client is, for people, while it holds or waits. A client without a
// label has none, and sends nothing.
//
// The key is written when the client is granted a lock or begins to wait, unless it was written a
// moment ago, and then again and again while the client has something. No caller waits for that, and
// no lock depends on it. (Rejected: to write it with the renewals. A lease of an hour is renewed every twenty
// minutes, who waits renews nothing, and a master of several has no renewals of its own client's.)
type presence struct {
	key, label string
	rdb        redis.UniversalClient
	tasks      *task.Group
	log        *slog.Logger
	life       context.Context // of the client
	budget     func() time.Duration
	every      time.Duration
	idle       func() bool // the client neither holds nor waits

	shown atomic.Bool // it was written a moment ago, or is about to be

	mu      sync.Mutex   // guards the rest; never held over a network call
	leads   map[any]lead // by client
	timer   *time.Timer  // for the next time; nil if there was none
	writing bool
	written bool // the key may be there
	failed  bool // that was logged
	closed  bool
}

const (
	// leastShown is how often a label is written at most.
	leastShown = 30 * time.Second
	// mostShown bounds the life of the label of a client with a very long lease.
	mostShown = time.Hour
	// shownFor is for how many times as long the key lives. So what a dead client holds by a lease of
	// the usual length has its label for as long as it stands.
	shownFor = 3
)

// show has the label written, if it was not written lately. It waits for nothing.
func (p *presence) show() {
	if p == nil || p.shown.Load() || !p.shown.CompareAndSwap(false, true) {
		return
	}
	p.begin()
}

func (p *presence) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.writing = true
	p.tasks.Go(p.write)
}

// write is the goroutine that writes. It goes home when that is done.
func (p *presence) write() {
	err := p.send(p.life, func(ctx context.Context) error { return p.rdb.Set(ctx, p.key, p.label, shownFor*p.every).Err() })
	p.mu.Lock()
	p.writing, p.written = false, true
	first := err != nil && !p.failed && p.life.Err() == nil // Close ends it first of all
	p.failed = p.failed || err != nil
	closed := p.closed
	if !closed {
		p.timer = time.AfterFunc(p.every, p.again)
	}
	p.mu.Unlock()
	if first {
		p.log.Warn("the label of this client could not be written; locks do not depend on it", "key", p.key, "error", err)
	}
	if closed {
		p.erase()
	}
}

// again writes once more if there is reason to. A lock that is granted after it was found idle finds that
// the label is not shown.
func (p *presence) again() {
	p.shown.Store(false)
	if p.isIdle() || !p.shown.CompareAndSwap(false, true) {
		return
	}
	p.begin()
}

func (p *presence) isIdle() bool {
	if !p.idle() {
		return false
	}
	p.mu.Lock()
	leads := slices.Collect(maps.Values(p.leads))
	p.mu.Unlock()
	return !slices.ContainsFunc(leads, func(l lead) bool { return !l.idle() })
}

// lead is a client to which belongs what the client of one master of several has.
type lead struct {
	idle func() bool
	gone <-chan struct{} // closed when it has been closed
}

// follow is for the client of one master of several. Leads that are gone are forgotten when another comes,
// so there are not more than were there at once.
func (p *presence) follow(who any, l lead) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.leads, func(_ any, l lead) bool {
		select {
		case <-l.gone:
			return true
		default:
			return false
		}
	})
	if p.leads == nil {
		p.leads = make(map[any]lead)
	}
	p.leads[who] = l
}

// close has the label deleted.
func (p *presence) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.written && !p.writing {
		p.tasks.Go(p.erase)
	} // else there is nothing, or who writes deletes it
}

func (p *presence) erase() {
	_ = p.send(context.Background(), func(ctx context.Context) error { return p.rdb.Del(ctx, p.key).Err() }) // it ends by itself
}

// send bounds what a command takes, and a hook of go-redis may panic in it.
func (p *presence) send(parent context.Context, command func(context.Context) error) (err error) {
	defer panics.Into(&err)
	ctx, cancel := context.WithTimeoutCause(parent, p.budget(), remote.ErrBudget)
	defer cancel()
	return command(ctx)
}
