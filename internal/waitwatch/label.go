package waitwatch

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
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
// minutes, and a client that waits has no renewals.)
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

	mu      sync.Mutex        // guards the rest; never held over a network call; that of a label before those of the same beside
	beside  map[*Watch]*Label // the same at other servers
	timer   *time.Timer       // for the next write; nil if there was none
	writing bool
	written bool // the key may be there
	denied  bool // it may not be written, and nothing writes again
	// A lock may stay taken until outlast, also when the client has been closed; zero: none does. For that the key lives
	// until lives, or will when the write that is under way has succeeded.
	outlast, lives time.Time
	failed         bool // the failure was logged
	closed         bool
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

// Publish starts a write of the label, if it was not written lately. It does not wait. A lock that stays taken for some time,
// whatever becomes of the client, has a label for as long; 0: it does not stay.
func (l *Label) Publish(stays time.Duration) {
	if l == nil || (stays == 0 || l.lasts(stays)) && (l.recent.Load() || !l.recent.CompareAndSwap(false, true)) {
		return
	}
	l.begin()
}

// lasts reports whether the key lives so long. If it does not, the next write has it live longer.
func (l *Label) lasts(stays time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := time.Now().Add(stays)
	if until.After(l.outlast) {
		l.outlast = until
	}
	if until.Before(l.lives) {
		return true
	}
	l.lives = until.Add(l.every)
	return false
}

// outlasts reports whether a lock may stay taken.
func (l *Label) outlasts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.outlast)
}

func (l *Label) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.denied {
		return
	}
	l.recent.Store(true)
	l.writing = true
	l.cfg.Tasks.Go(l.write)
}

// write is the goroutine that writes. It ends after the write.
func (l *Label) write() {
	sent, ttl, life := time.Now(), l.ttl(), l.cfg.Life
	if l.outlasts() {
		life = context.Background() // Close does not end it, and waits
	}
	err := l.cfg.sendOne(life, func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
		return pipe.Set(ctx, l.key, l.text, ttl)
	})
	denied := l.cfg.Default && lua.IsDenied(err)
	if denied {
		l.watch.labels.deny()
	}
	l.mu.Lock()
	l.writing, l.written, l.denied = false, !denied, denied
	if l.lives = sent.Add(ttl); err != nil {
		l.lives = time.Time{}
	}
	first := err != nil && !l.failed && l.cfg.Life.Err() == nil && l.watch.cfg.Life.Err() == nil // Close ends these first
	l.failed = l.failed || err != nil
	closed, stays := l.closed, time.Now().Before(l.outlast)
	if !closed && !denied {
		if l.timer != nil {
			l.timer.Stop() // the write was for a lock that stays
		}
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
	if closed && !stays && err == nil { // otherwise a second command might last as long, and Close waits
		l.erase()
	}
}

// ttl is how long the key lives after a write.
func (l *Label) ttl() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(ttlFactor*l.every, time.Until(l.outlast)+l.every)
}

// again writes once more if the client is not idle, or if the label of a lock that stays taken could not be
// written. A lock that is granted after that check finds recent false, and
// publishes the label itself.
func (l *Label) again() {
	l.recent.Store(false)
	if !l.needed() || !l.recent.CompareAndSwap(false, true) {
		return
	}
	l.begin()
}

func (l *Label) needed() bool {
	if l.watch.cfg.Life.Err() != nil { // the server of a client that was closed
		return false
	}
	l.mu.Lock()
	missing := l.lives.IsZero() && time.Now().Before(l.outlast)
	l.mu.Unlock()
	return missing || !l.idle()
}

// At is the label at the server of another client, which grants locks of this client as one master of several. Those of
// clients that have been closed are forgotten when another one comes.
func (l *Label) At(other *Watch) *Label {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.beside[other]; at != nil {
		return at
	}
	maps.DeleteFunc(l.beside, func(w *Watch, at *Label) bool {
		if w.cfg.Life.Err() == nil {
			return false
		}
		at.Close()
		return true
	})
	if l.beside == nil {
		l.beside = make(map[*Watch]*Label)
	}
	cfg := l.cfg
	cfg.Redis, cfg.Within = other.cfg.Redis, other.cfg.Within
	at := &Label{key: l.key, text: l.text, cfg: cfg, watch: other, every: l.every, idle: l.idle, closed: l.closed}
	l.beside[other] = at
	return at
}

// Close deletes the label, in the background. It leaves the label of a lock that stays taken.
func (l *Label) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, at := range l.beside {
		at.Close()
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.written && !l.writing && !time.Now().Before(l.outlast) {
		l.cfg.Tasks.Go(l.erase)
	} // otherwise there is no key, or the goroutine that writes deletes it
}

func (l *Label) erase() {
	_ = l.cfg.sendOne(context.Background(), func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
		return pipe.Del(ctx, l.key)
	}) // the key expires by itself
}

// sentWithin bounds a command. Close waits for one that is under way: go-redis does not see that a
// context ends while it waits for an answer.
const sentWithin = time.Second

// send sends commands about labels and waits, and returns the panic of a hook of go-redis as an error, which the client logs. They
// are in a pipeline, because only a pipeline does not wait for an answer for as long as go-redis would: for ever if
// there is no ReadTimeout.
func (c *Config) send(parent context.Context, commands func(context.Context, redis.Pipeliner)) (err error) {
	defer func() { c.NotePanic(err) }()
	defer panics.Into(&err)
	ctx, cancel := c.Within(parent, min(c.Budget(), sentWithin))
	defer cancel()
	pipe := c.Redis.Pipeline()
	commands(ctx, pipe)
	pipeline.Exec(ctx, pipe) // each command has its own error
	return nil
}

// sendOne is send for one command, and returns its error.
func (c *Config) sendOne(parent context.Context, command func(context.Context, redis.Pipeliner) redis.Cmder) error {
	var sent redis.Cmder
	err := c.send(parent, func(ctx context.Context, pipe redis.Pipeliner) { sent = command(ctx, pipe) })
	return cmp.Or(err, sent.Err())
}
