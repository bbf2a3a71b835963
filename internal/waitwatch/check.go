package waitwatch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// looker looks at the waits of a client from time to time. There is one, in a goroutine of the client's tasks, while
// anybody waits. So a client in which nobody waits has none, and one whose waits are short sends nothing. All of it
// belongs to that goroutine.
type looker struct {
	watch *Watch
	every time.Duration // between two looks
	long  time.Duration // how long a wait is that is looked at

	past       []mark               // of the looks so far, oldest first, as far back as a long wait began
	since      map[uint64]time.Time // by the number of a wait: when it began, at the latest
	selfBlocks selfBlocks
	deadlocks  deadlocks
}

// mark is how many waits had begun when.
type mark struct {
	at    time.Time
	count uint64
}

const (
	// mostLooked is how many waits are looked at, the oldest ones: so many of callers that hold other locks, and so
	// many of all others. Each kind has its own number because a crowd that only waits must not hide a circle.
	mostLooked = 256
	// mostSeen is how many waits are gone through for that.
	mostSeen = 1 << 14
	// looksEach is how many looks there are in a long wait, at least.
	looksEach = 4
)

// longWait is a wait that has lasted for long.
type longWait struct {
	seen
	lock   Lock          // that is waited for
	waited time.Duration // at least
	under  []Grant       // what its caller holds, as far as that is known
}

func newLooker(w *Watch) *looker {
	every := min(w.cfg.LongWait/looksEach, deadlock.MostEvery) // or clients that look for circles would have to wait for longer
	return &looker{watch: w, long: w.cfg.LongWait, every: every, since: make(map[uint64]time.Time)}
}

// run looks until nobody waits.
func (l *looker) run() {
	defer func() {
		if p := recover(); p != nil { // a context of the user's, or a hook of go-redis
			l.log().Error("who looks at long waits panicked, and is gone", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	defer l.deadlocks.withdraw(l)
	timer := time.NewTimer(l.every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-l.watch.cfg.Life.Done():
			return
		}
		if !l.look(time.Now()) {
			return
		}
		timer.Reset(l.every)
	}
}

// look is one look. It reports whether anybody waits.
func (l *looker) look(now time.Time) bool {
	list, count, alone := l.watch.entries.older(l.upTo(now), mostSeen)
	if alone {
		return false
	}
	l.past = append(l.past, mark{now, count})
	long := l.longOnes(list, now)
	l.selfBlocks.look(l, long, now)
	l.deadlocks.look(l, long)
	l.learnLabels()
	return true
}

// upTo is the number of the last wait that has lasted for long.
func (l *looker) upTo(now time.Time) (number uint64) {
	for len(l.past) > 0 && now.Sub(l.past[0].at) >= l.long {
		if len(l.past) == 1 || now.Sub(l.past[1].at) < l.long {
			return l.past[0].count
		}
		l.past = l.past[1:]
	}
	return 0
}

func (l *looker) longOnes(list []seen, now time.Time) (long []longWait) {
	since := make(map[uint64]time.Time)
	some := make(map[bool]int) // so far: of callers that hold something, and of the others
	for _, s := range list {
		under := s.of.Under(deadlock.MostHolds)
		if some[len(under) > 0]++; some[len(under) > 0] > mostLooked {
			continue
		}
		began, known := l.since[s.number]
		if !known {
			began = l.past[0].at
		}
		since[s.number] = began
		long = append(long, longWait{s, s.of.Lock(), now.Sub(began), under})
	}
	l.since = since
	return long
}

func (l *looker) log() *slog.Logger { return l.watch.cfg.Log }

// bounded is the context of a command. Close ends it.
func (l *looker) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(l.watch.cfg.Life, l.watch.cfg.Budget(), remote.ErrBudget)
}

// learnLabels asks for the labels of the clients that others of this one wait for, if this one has a label: for
// the errors of waits that end in vain.
func (l *looker) learnLabels() {
	cfg, entries := &l.watch.cfg, &l.watch.entries
	if cfg.Label == "" || len(l.past) < 2 {
		return
	}
	asked := make(map[string]*redis.StringCmd)
	ctx, cancel := l.bounded()
	defer cancel()
	pipe := cfg.Redis.Pipeline()
	list, _, _ := entries.older(l.past[len(l.past)-2].count, mostLooked)
	for _, s := range list {
		owner, _ := s.of.InTheWay()
		client := remote.ClientIn(owner)
		if client == "" || client == cfg.Client || asked[client] != nil || entries.knows(client) || len(asked) >= mostAsked {
			continue
		}
		asked[client] = pipe.Get(ctx, keys.Label(client))
	}
	if len(asked) == 0 {
		return
	}
	pipeline.Exec(ctx, pipe) // each command keeps its own error
	for client, cmd := range asked {
		label, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			continue
		}
		if !keys.IsLabel(label) {
			label = ""
		}
		entries.learn(client, label)
	}
}
