package waitwatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// Label publishes a client's label in Redis, for people, while the client holds or waits. A client without a
// label has a nil one, and sends nothing.
//
// The key is written when the client is granted a lock or begins to wait, unless it was written a
// moment ago, and then again and again while the client has something. No caller waits for that, and
// no lock depends on it. (Rejected: to write it with the renewals. A lease of an hour is renewed every twenty
// minutes, a client that waits renews nothing, and a master of several has no renewals of its own client's.)
type Label struct {
	key, text string
	cfg       Config
	every     time.Duration
	idle      func() bool // the client neither holds nor waits

	shown atomic.Bool // it was written a moment ago, or is about to be

	mu      sync.Mutex   // guards the rest; never held over a network call
	leads   map[any]lead // clients of which this one is a master of several
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

// NewLabel makes the label of a client; nil if it has none. idle reports whether the client neither holds nor waits.
func NewLabel(cfg Config, lease time.Duration, idle func() bool) *Label {
	if cfg.Label == "" {
		return nil
	}
	return &Label{key: keys.Label(cfg.Client), text: cfg.Label, cfg: cfg, every: min(max(lease, leastShown), mostShown), idle: idle}
}

// Show has the label written, if it was not written lately. It waits for nothing.
func (l *Label) Show() {
	if l == nil || l.shown.Load() || !l.shown.CompareAndSwap(false, true) {
		return
	}
	l.begin()
}

func (l *Label) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.writing = true
	l.cfg.Tasks.Go(l.write)
}

// write is the goroutine that writes. It ends when that is done.
func (l *Label) write() {
	err := l.send(l.cfg.Life, func(ctx context.Context) error { return l.cfg.Redis.Set(ctx, l.key, l.text, shownFor*l.every).Err() })
	l.mu.Lock()
	l.writing, l.written = false, true
	first := err != nil && !l.failed && l.cfg.Life.Err() == nil // Close ends it first of all
	l.failed = l.failed || err != nil
	closed := l.closed
	if !closed {
		l.timer = time.AfterFunc(l.every, l.again)
	}
	l.mu.Unlock()
	if first {
		l.cfg.Log.Warn("the label of this client could not be written; locks do not depend on it", "key", l.key, "error", err)
	}
	if closed {
		l.erase()
	}
}

// again writes once more if there is reason to. A lock that is granted after it was found idle finds that
// the label is not shown.
func (l *Label) again() {
	l.shown.Store(false)
	if l.isIdle() || !l.shown.CompareAndSwap(false, true) {
		return
	}
	l.begin()
}

func (l *Label) isIdle() bool {
	if !l.idle() {
		return false
	}
	l.mu.Lock()
	leads := slices.Collect(maps.Values(l.leads))
	l.mu.Unlock()
	return !slices.ContainsFunc(leads, func(one lead) bool { return !one.idle() })
}

// lead is a client to which belongs what the client of one master of several has.
type lead struct {
	idle func() bool
	gone <-chan struct{} // closed when it has been closed
}

// Follow is for the client of one master of several: the label is also shown while the client of all of them is not
// idle, until gone is closed. Leads that are gone are forgotten when another comes, so there are not more than were
// there at once.
func (l *Label) Follow(client any, idle func() bool, gone <-chan struct{}) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.leads, func(_ any, one lead) bool {
		select {
		case <-one.gone:
			return true
		default:
			return false
		}
	})
	if l.leads == nil {
		l.leads = make(map[any]lead)
	}
	l.leads[client] = lead{idle, gone}
}

// Close has the label deleted.
func (l *Label) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.written && !l.writing {
		l.cfg.Tasks.Go(l.erase)
	} // else there is nothing, or the goroutine that writes deletes it
}

func (l *Label) erase() {
	_ = l.send(context.Background(), func(ctx context.Context) error { return l.cfg.Redis.Del(ctx, l.key).Err() }) // it ends by itself
}

// send bounds what a command takes, and a hook of go-redis may panic in it.
func (l *Label) send(parent context.Context, command func(context.Context) error) (err error) {
	defer panics.Into(&err)
	ctx, cancel := context.WithTimeoutCause(parent, l.cfg.Budget(), remote.ErrBudget)
	defer cancel()
	return command(ctx)
}
