package simulation

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/semaphore"
)

// others are the kinds that have worlds beside those of plain and fair locks.
var others = []history.Family{history.ReadWrite, history.Permits, history.Latches, history.Elections}

// kindEnv names the only kind that is drawn; without it, any.
const kindEnv = "HOLDFAST_KIND"

// kindOf is the kind of a world: three in four have plain or fair locks, and each of the others has one
// of any sixteen that follow each other. Worlds of plain locks are the longer ones, so nearly all of the time
// is theirs.
func kindOf(seed uint64) history.Family {
	if only := history.Family(os.Getenv(kindEnv)); slices.Contains(others, only) {
		return only
	}
	if seed%4 == 3 {
		return others[seed/4%4]
	}
	return history.Locks
}

// other draws what only worlds of the other kinds have, and takes out what they do not.
func (s *Settings) other(seed uint64) {
	rng := newSource(seed, 'p')
	s.Strangers, s.Many, s.Staying, s.Home, s.Alike = 0, 0, 0, false, false
	s.Names, s.Actors = 1+rng.IntN(2), 2+rng.IntN(3)
	switch s.Kind {
	case history.ReadWrite:
		s.Think = min(s.Think, s.Lease) // else nobody meets anybody
	case history.Permits:
		s.Permits = 1 + rng.IntN(5)
		s.Think = min(s.Think, s.Lease)
	case history.Latches:
		s.Think, s.Actors = min(s.Think, s.Lease/2), 3+rng.IntN(3)
	}
	s.Dead = 0
}

// queued reports whether the server keeps the order of those who wait.
func (w *World) queued() bool {
	return w.Fair || w.Kind == history.Permits || w.Kind == history.Elections
}

// fairQueue reports whether it is that of a fair lock.
func (w *World) fairQueue() bool { return w.Fair || w.Kind == history.Elections }

// stay is how long a latch lasts without a word; 0 for other kinds.
func (w *World) stay() time.Duration {
	if w.Kind != history.Latches {
		return 0
	}
	return 3 * w.Lease
}

// lasts is how long a latch lasts by the clients' clocks, at least.
func (w *World) lasts() time.Duration {
	if w.Kind != history.Latches {
		return 0
	}
	return max(w.stay()*99/100-time.Duration(w.slept.Load()), 1)
}

// census asks at the end how many permits are free.
func (w *World) census() {
	if w.Kind != history.Permits {
		return
	}
	rdb := w.direct()
	defer rdb.Close()
	c, err := holdfast.New(rdb, nil)
	if err != nil {
		w.problem("simulation", err.Error())
		return
	}
	rec := history.NewRecorder(w.Now)
	for epoch := range epochs {
		for i := range w.Names {
			m := semaphore.New(c, strconv.Itoa(epoch)+"."+strconv.Itoa(i), w.Permits)
			workload.Census(context.Background(), rec, m, history.Op{Client: strangers, Last: true})
		}
	}
	_ = c.Close(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.histories = append(w.histories, rec.Ops())
}

// stays reports whether a key may stand when all leases have ended: last tokens, which end later, and how
// many permits there are.
func (w *World) stays(key string) bool {
	if strings.HasPrefix(key, "redisson_lock_token:") {
		return true
	}
	epoch, _, named := strings.Cut(key, ".")
	_, err := strconv.Atoi(epoch)
	return w.Kind == history.Permits && (named && err == nil || strings.HasSuffix(key, ":timeout") ||
		strings.HasPrefix(key, "holdfast_latch:"))
}
