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

// Grant is what a watch sees of a grant that a caller waits for, or of one that a caller holds. Implementations are
// comparable by identity. The methods may be called from any goroutine.
type Grant interface {
	// Lock is the lock of the grant.
	Lock() Lock
	// Entry is the entry of the call that wants or wanted it.
	Entry() *Entry
	// Identity is the owner as the server knows it, and the fencing token; 0 until the grant.
	Identity() (owner string, token uint64)
	// HeldFrom is when the hold began if that is known, and otherwise seen, when it was first seen.
	HeldFrom(seen time.Time) time.Time
	// Under are the grants that its caller holds while it waits for this one, at most that many.
	Under(most int) []Grant
	// InTheWay is the holder of the lock, as last known: the owner, and its grant if this client has it and it is in
	// front of the local queue.
	InTheWay() (owner string, here Grant)
}

// Lock is the lock of a grant.
type Lock struct {
	queue.Key
	Client    any  // the engine's client, to tell the locks of different clients apart
	NoReentry bool // each acquisition is an owner of its own
	Masters   int  // how many servers grant it, if several do
	NoUpgrade bool // an owner of the other side, which reads, cannot have this one, too
}

// HintFor is for a caller who waits for a lock that its own client holds under a key. The holder may be the caller itself:
// Lock under a plain context is a new owner each time. Where nothing is re-entered, the context of the hold would not help.
func (l Lock) HintFor(holder queue.Key) string {
	switch {
	case holder.Kind != l.Kind:
		return "this client holds the name as " + holder.Kind + "; use one kind for a name"
	case holder.Side != l.Side && l.NoUpgrade:
		return "the holder is of this client and reads: if this code path is that reader, unlock that hold first, because a read hold does not become a write hold"
	case l.NoReentry:
		return "the holder is of this client: if this code path is that holder, it waits for itself, because nothing is re-entered here"
	}
	return "the holder is of this client: if this code path already holds the lock, lock under hold.Context()"
}

// excludes reports whether a wait for a lock cannot end while a grant of this lock lasts. For permits that is not known.
func (l Lock) excludes(waited Lock) bool {
	return l.Client == waited.Client && l.Name == waited.Name && l.Servers == waited.Servers &&
		!(l.isRead() && waited.isRead()) && !l.NoReentry && !waited.NoReentry
}

// Config is what a watch needs to know of its client.
type Config struct {
	Client   string        // its UUID
	Label    string        // empty if it has none
	Default  bool          // the label is the default one: nobody asked for it, so its failures are no warnings
	LongWait time.Duration // how long a wait must last to be checked; if not positive, none is

	Redis    redis.UniversalClient
	Log      *slog.Logger
	Observer *notify.Notifier // may be nil
	Tasks    *task.Group      // owns the goroutines
	Life     context.Context  // ends when the client is closed
	Budget   func() time.Duration
	// NotePanic logs an error that is a panic of a hook, as that of remote.Session.
	NotePanic func(error)
	// Within bounds the time of a pipeline, as that of remote.Server.
	Within func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Held calls visit for each hold of the client of one of the names, with the owner as the server knows it.
	Held func(names map[string]bool, visit func(name, owner string, g Grant))
}

// Watch has the waits of a client, oldest first. A call that waits enters itself, and leaves. That takes a mutex twice,
// and never reads the clock, because many hand-offs take microseconds. The goroutine that checks the waits finds out how
// long they have lasted.
type Watch struct {
	cfg     Config
	on      bool // entries are needed, to check waits or for the labels of other clients
	entries entries
	labels  labels

	epoch time.Time    // a time before the first grant
	noted atomic.Int64 // when the call site of a holder was noted last, in nanoseconds after epoch
}

// New makes a watch. It sends nothing.
func New(cfg Config) *Watch {
	return &Watch{cfg: cfg, on: cfg.LongWait > 0 || cfg.Label != "", epoch: time.Now().Add(-siteGap)}
}

// Enter notes that a call waits, with the grant that it waits for. It may be called again, for a later grant of the
// same call. skip is how many frames lie between the caller of Enter and the method that the user has called.
func (w *Watch) Enter(e *Entry, g Grant, skip int) {
	if w.on && w.entries.enter(e, g, skip+1) && w.cfg.LongWait > 0 {
		w.cfg.Tasks.Go(newWaitChecker(w).run)
	}
}

// Leave notes that the call has stopped waiting. The goroutine of the call calls it.
func (w *Watch) Leave(e *Entry) {
	if e.number != 0 {
		w.entries.leave(e)
	}
}

// siteGap is the least time between two holders whose call site is noted: a few per cent of a core at
// most, however many locks are granted.
const siteGap = 100 * time.Microsecond

// NoteHolder notes where in the program a lock was acquired, unless that was noted for another holder a moment ago. skip is as for Enter.
func (w *Watch) NoteHolder(e *Entry, granted time.Time, skip int) {
	if w.cfg.LongWait <= 0 {
		return
	}
	now, last := int64(granted.Sub(w.epoch)), w.noted.Load()
	if now-last >= int64(siteGap) && w.noted.CompareAndSwap(last, now) {
		e.noteSite(skip + 1)
	}
}

// IsEmpty reports whether the client has no waits.
func (w *Watch) IsEmpty() bool { return w.entries.isEmpty() }

// LabelOf is the label of another client, empty if it is not known. Then a client that has a label itself asks for it, and
// the next call knows it. What that costs is bounded: see [labels]. (Rejected: to wait for it. Whoever is refused has waited
// long enough.)
func (w *Watch) LabelOf(client string) string {
	if w.cfg.Label == "" {
		return ""
	}
	text, ask := w.labels.get(client)
	if ask {
		w.cfg.Tasks.Go(func() { w.readLabels([]string{client}) })
	}
	return text
}
