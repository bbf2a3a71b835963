package waitwatch

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// waitChecker checks the waits of a client from time to time. There is one, in a goroutine of the client's tasks, while
// the client has waits. A client whose waits are short sends nothing. Only that goroutine uses the fields.
type waitChecker struct {
	watch *Watch
	every time.Duration // between two checks
	long  time.Duration // how long a wait must last to be checked

	past       []mark               // of the checks so far, oldest first, back to when a long wait began
	since      map[uint64]time.Time // by the number of a wait: the latest time at which it may have begun
	selfBlocks selfBlocks
	deadlocks  deadlocks
}

// mark is how many waits had begun at a time.
type mark struct {
	at    time.Time
	count uint64
}

const (
	// mostChecked is how many waits are checked, oldest first: that many of callers that hold other locks, and that
	// many of all others. Each group has a limit of its own, because a crowd that only waits must not hide a circle.
	mostChecked = 256
	// mostListed is how many waits are read to find these.
	mostListed = 1 << 14
	// checksEach is how many checks there are in a long wait, at least.
	checksEach = 4
)

// longWait is a wait that has lasted for long.
type longWait struct {
	seen
	lock   Lock          // the lock that it waits for
	waited time.Duration // at least
	under  []Grant       // what its caller holds, as far as known
}

func newWaitChecker(w *Watch) *waitChecker {
	every := min(w.cfg.LongWait/checksEach, deadlock.MostEvery) // otherwise clients that search for circles would have to wait longer
	return &waitChecker{watch: w, long: w.cfg.LongWait, every: every, since: make(map[uint64]time.Time)}
}

// run checks until the client has no waits.
func (l *waitChecker) run() {
	defer func() {
		if p := recover(); p != nil { // of a context of the user's, or of a hook of go-redis
			l.log().Error("the check of long waits panicked, and has ended", "panic", p, "stack", string(debug.Stack()))
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
		if !l.check(time.Now()) {
			return
		}
		timer.Reset(l.every)
	}
}

// check is one check. It reports whether the client has waits.
func (l *waitChecker) check(now time.Time) bool {
	list, count, alone := l.watch.entries.older(l.upTo(now), mostListed)
	if alone {
		return false
	}
	l.past = append(l.past, mark{now, count})
	long := l.longOnes(list, now)
	l.selfBlocks.check(l, long, now)
	l.deadlocks.check(l, long)
	l.learnLabels()
	return true
}

// upTo is the number of the last wait that has lasted for long.
func (l *waitChecker) upTo(now time.Time) (number uint64) {
	for len(l.past) > 0 && now.Sub(l.past[0].at) >= l.long {
		if len(l.past) == 1 || now.Sub(l.past[1].at) < l.long {
			return l.past[0].count
		}
		l.past = l.past[1:]
	}
	return 0
}

func (l *waitChecker) longOnes(list []seen, now time.Time) (long []longWait) {
	since := make(map[uint64]time.Time)
	some := make(map[bool]int) // so far: of callers that hold other locks, and of all others
	for _, s := range list {
		under := s.of.Under(deadlock.MostHolds)
		if some[len(under) > 0]++; some[len(under) > 0] > mostChecked {
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

func (l *waitChecker) log() *slog.Logger { return l.watch.cfg.Log }

// learnLabels reads the labels of the clients that block waits of this client, if this client has a label. The errors of
// failed waits show them.
func (l *waitChecker) learnLabels() {
	cfg, entries := &l.watch.cfg, &l.watch.entries
	if cfg.Label == "" || len(l.past) < 2 {
		return
	}
	var clients []string
	list, _, _ := entries.older(l.past[len(l.past)-2].count, mostChecked)
	for _, s := range list {
		owner, _ := s.of.InTheWay()
		client := remote.ClientIn(owner)
		if client == "" || client == cfg.Client || len(clients) >= mostAsked {
			continue
		}
		if _, ask := l.watch.labels.get(client); ask {
			clients = append(clients, client)
		}
	}
	if len(clients) > 0 {
		l.watch.readLabels(clients)
	}
}

func (w *Watch) readLabels(clients []string) {
	asked := make([]*redis.StringCmd, len(clients))
	err := w.cfg.send(w.cfg.Life, func(ctx context.Context, pipe redis.Pipeliner) {
		for i, client := range clients {
			asked[i] = pipe.Get(ctx, keys.Label(client))
		}
	})
	if err != nil {
		return
	}
	for i, client := range clients {
		switch text, err := asked[i].Result(); {
		case err == nil && keys.IsLabel(text):
			w.labels.learn(client, text)
		case lua.IsDenied(err):
			w.labels.deny()
		}
	}
}
