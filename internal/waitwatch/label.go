package waitwatch

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/lua"
)

// Label publishes a client's label in Redis, for people, while the client holds or waits. Without a label it is nil, and
// sends nothing.
//
// The key is written when the client is granted a lock or begins to wait, unless it was written a
// moment ago, and then again and again while the client holds or waits. No caller waits for the write, and
// no lock depends on it. (Rejected: to write it with the renewals. A lease of an hour is renewed every twenty
// minutes, a client that waits has no renewals, and the client of one master of several has none of its own.)
//
// A client that was given no label has the default one. Its user may know nothing of it, so its failures are told at the
// level of debugging only, and a user of Redis that may not write it is not asked a second time.
type Label struct {
	key, text string
	cfg       Config
	watch     *Watch // of the client
	every     time.Duration
	idle      func() bool // the client neither holds nor waits

	recent atomic.Bool // written a moment ago, or about to be written

	mu      sync.Mutex   // guards the rest; never held over a network call
	leads   map[any]lead // clients of which this one is a master of several
	timer   *time.Timer  // for the next write; nil if there was none
	writing bool
	written bool // the key may be there
	failed  bool // the failure was logged
	closed  bool
}

const (
	// minEvery is the least time between two writes.
	minEvery = 30 * time.Second
	// maxEvery bounds the time to live of the label of a client with a very long lease.
	maxEvery = time.Hour
	// ttlFactor is how many times as long the key lives. So a lock that a dead client holds by a lease of
	// the usual length has a label until the lease ends.
	ttlFactor = 3
)

// NewLabel makes the label of the watch's client; nil if it has none. idle reports whether the client neither holds nor waits.
func NewLabel(w *Watch, lease time.Duration, idle func() bool) *Label {
	cfg := w.cfg
	if cfg.Label == "" {
		return nil
	}
	return &Label{key: keys.Label(cfg.Client), text: cfg.Label, cfg: cfg, watch: w, every: min(max(lease, minEvery), maxEvery), idle: idle}
}

// Publish starts a write of the label, if it was not written lately. It does not wait.
func (l *Label) Publish() {
	if l == nil || l.recent.Load() || !l.recent.CompareAndSwap(false, true) {
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

// write is the goroutine that writes. It ends after the write.
func (l *Label) write() {
	err := l.send(l.cfg.Life, func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
		return pipe.Set(ctx, l.key, l.text, ttlFactor*l.every)
	})
	denied := l.cfg.Default && lua.IsDenied(err) // then recent stays true, and nothing writes again
	if denied {
		l.watch.labels.deny()
	}
	l.mu.Lock()
	l.writing, l.written = false, !denied
	first := err != nil && !l.failed && l.cfg.Life.Err() == nil // Close ends this context first
	l.failed = l.failed || err != nil
	closed := l.closed
	if !closed && !denied {
		l.timer = time.AfterFunc(l.every, l.again)
	}
	l.mu.Unlock()
	if first {
		level := slog.LevelWarn
		if l.cfg.Default {
			level = slog.LevelDebug
		}
		l.cfg.Log.Log(context.Background(), level, "the label of this client could not be written; locks do not depend on it",
			"key", l.key, "error", err)
	}
	if closed && err == nil { // otherwise a second command might last as long, and Close waits
		l.erase()
	}
}

// again writes once more if the client is not idle. A lock that is granted after that check finds recent false, and
// publishes the label itself.
func (l *Label) again() {
	l.recent.Store(false)
	if l.isIdle() || !l.recent.CompareAndSwap(false, true) {
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

// lead is a client whose locks use this client as one master of several.
type lead struct {
	idle func() bool
	gone <-chan struct{} // closed when the lead has been closed
}

// Follow is for the client of one master of several: the label is also published while the lead is not idle, until gone
// is closed. Leads that are gone are forgotten when another one comes, so the list never has more than existed at once.
func (l *Label) Follow(client any, idle func() bool, gone <-chan struct{}) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.leads[client]; known { // of another lock of the same clients
		return
	}
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

// Close deletes the label, in the background.
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
	} // otherwise there is no key, or the goroutine that writes deletes it
}

func (l *Label) erase() {
	_ = l.send(context.Background(), func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
		return pipe.Del(ctx, l.key)
	}) // the key expires by itself
}

// labelWithin bounds a command about labels. Close waits for one that is under way: go-redis does not see that a
// context ends while it waits for an answer.
const labelWithin = time.Second

// sendLabels sends commands about labels, and returns the panic of a hook of go-redis as an error, which the client logs. They
// are in a pipeline, because only a pipeline does not wait for an answer for as long as go-redis would: for ever if
// there is no ReadTimeout.
func (c *Config) sendLabels(parent context.Context, commands func(context.Context, redis.Pipeliner)) (err error) {
	defer func() { c.NotePanic(err) }()
	defer panics.Into(&err)
	ctx, cancel := c.Within(parent, min(c.Budget(), labelWithin))
	defer cancel()
	pipe := c.Redis.Pipeline()
	commands(ctx, pipe)
	pipeline.Exec(ctx, pipe) // each command has its own error
	return nil
}

func (l *Label) send(parent context.Context, command func(context.Context, redis.Pipeliner) redis.Cmder) error {
	var sent redis.Cmder
	err := l.cfg.sendLabels(parent, func(ctx context.Context, pipe redis.Pipeliner) { sent = command(ctx, pipe) })
	return cmp.Or(err, sent.Err())
}
