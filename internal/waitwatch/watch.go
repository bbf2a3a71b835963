package waitwatch

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/task"
)

// Grant is what a watch sees of a grant: of one that is waited for, or of one that is held. Implementations are
// comparable by identity. The methods may be called from any goroutine.
type Grant interface {
	// Lock is the lock that it is of.
	Lock() Lock
	// Entry is that of the call that it was made for.
	Entry() *Entry
	// Identity is the owner as the server knows it, and the fencing token; 0 while it is waited for.
	Identity() (owner string, token uint64)
	// HeldFrom is since when it has been held, if that is known, else seen: since when it was seen to be.
	HeldFrom(seen time.Time) time.Time
	// Under are the grants that its caller holds while it waits for this one, at most so many.
	Under(most int) []Grant
	// InTheWay is who holds the lock that is waited for, as was heard last: the owner, and its grant if that is of
	// this client and has the front place of the local queue.
	InTheWay() (owner string, here Grant)
}

// Lock is the lock of a grant.
type Lock struct {
	queue.Key
	Client    any    // the engine's client, to tell the locks of different clients apart
	NoReentry bool   // each acquisition is an owner of its own
	Masters   int    // how many servers grant it, if they are several
	Hint      string // for the caller of a wait that its own client blocks
}

// excludes reports whether a wait for a lock cannot end while a grant of this lock lasts. Of permits it is not known
// whose the next ones are.
func (l Lock) excludes(waited Lock) bool {
	return l.Client == waited.Client && l.Name == waited.Name && l.Servers == waited.Servers &&
		!(l.isRead() && waited.isRead()) && !l.NoReentry && !waited.NoReentry
}

// Config is what a watch needs to know of its client.
type Config struct {
	Client   string        // its UUID
	Label    string        // empty: it has none
	LongWait time.Duration // how long a wait is that is looked at; not positive: none is

	Redis    redis.UniversalClient
	Log      *slog.Logger
	Observer *notify.Notifier // may be nil
	Tasks    *task.Group      // owns the goroutines
	Life     context.Context  // ends when the client is closed
	Budget   func() time.Duration
	// Held calls visit for each grant of one of the names that the client holds, with the owner as the server knows it.
	Held func(names map[string]bool, visit func(name, owner string, g Grant))
}

// Watch has the waits of a client, oldest first. A call that waits enters itself, and leaves: two turns with a mutex,
// and no look at the clock, as many locks of many goroutines are handed on in microseconds. How long they have
// waited is found by the goroutine that looks at them.
type Watch struct {
	cfg     Config
	on      bool // entries are needed, to look at waits or for the labels of other clients
	entries entries

	epoch time.Time    // a moment before the first lock was granted
	noted atomic.Int64 // when after that the call site of a holder was noted last, in nanoseconds
}

// New makes a watch. It sends nothing.
func New(cfg Config) *Watch {
	return &Watch{cfg: cfg, on: cfg.LongWait > 0 || cfg.Label != "", epoch: time.Now().Add(-siteGap)}
}

// Enter notes that a call waits, with the grant that it waits for. It may be called again, for a later grant of the
// same call. skip is how many frames lie between the caller of Enter and the method that the user has called.
func (w *Watch) Enter(e *Entry, g Grant, skip int) {
	if w.on && w.entries.enter(e, g, skip+1) && w.cfg.LongWait > 0 {
		w.cfg.Tasks.Go(newLooker(w).run)
	}
}

// Leave notes that the call does not wait any more. It is of the caller's own goroutine.
func (w *Watch) Leave(e *Entry) {
	if e.number != 0 {
		w.entries.leave(e)
	}
}

// siteGap is the least time between two holders whose call site is noted: a few per cent of a core at
// most, however many locks are granted.
const siteGap = 100 * time.Microsecond

// NoteHolder notes where in the program the holder of a lock was granted it, unless that was done for another holder
// a moment ago. skip is as for Enter.
func (w *Watch) NoteHolder(e *Entry, granted time.Time, skip int) {
	if !w.on {
		return
	}
	now, last := int64(granted.Sub(w.epoch)), w.noted.Load()
	if now-last >= int64(siteGap) && w.noted.CompareAndSwap(last, now) {
		e.noteSite(skip + 1)
	}
}

// Idle reports whether nobody waits.
func (w *Watch) Idle() bool { return w.entries.none() }

// LabelOf is the label of another client, as far as that is known.
func (w *Watch) LabelOf(client string) string { return w.entries.label(client) }
