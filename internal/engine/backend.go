package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Backend is where the entries of one lock live: one server, or several masters of which a majority
// decides. The rest of this package does not know which: it asks the backend, or looks at its
// traits.
type Backend interface {
	Traits() Traits
	// Check refuses what only the whole of the options shows: that this backend cannot serve them.
	Check(*Settings) error
	// NewBid is for an owner that has nothing at the server yet. It sends nothing.
	NewBid(owner string) Bid
	// Listen hears releases.
	Listen() Listening
	// Renewer renews what its owners hold.
	Renewer() Renewer
	// Silent reports whether the servers that decide are silent: they have never answered, a question has
	// failed since they did, or they have answered nothing for so long, and were asked for half of that.
	// A server that nobody asks is not silent.
	Silent(patience time.Duration) bool
	// Unreached is why no connection to one of the servers was opened lately; nil if nothing is known of that.
	Unreached() error
	// Explain says what an error of Redis means for the lock's keys, and what to do.
	Explain(error) error
}

// Traits are what sets the locks of a backend apart. They are asked for once, when a lock is made.
type Traits struct {
	Several bool // several servers grant the lock
	// HandsOff says that an entry can be kept for the client's next holder. It does not count for a
	// lock that is shared: nobody of this client waits for what one of its holders gives up.
	HandsOff bool
	// Queues says that the backend is a [Waiter]: those who wait have places at the server, and
	// none in the process.
	Queues bool
	// Shared says that several owners of one process may hold the lock at once, as the readers of a
	// read-write lock do. The local queue is of those who ask: who is granted the lock leaves the
	// front, and the next one asks at once.
	Shared bool
	// Together says of a shared lock that nobody waits for others who share it: who comes asks at
	// once. Only those who were refused queue in the process, and when one of them is granted the
	// lock, the others ask too.
	Together bool
	// Sided says that the lock has several sides, see [kind.Sided].
	Sided bool
	// Strings says that a string at the lock's key can be taken for a lock, see [RespectStrings].
	Strings bool
	// Upgrade is why an owner that holds another side of the lock, and not this one, is refused this
	// one: it would wait for itself. Nil: it may have both.
	Upgrade error
	// Recalls says that the backend is a [Recaller], so that a lock can be kept, see [Keep].
	Recalls bool
	// NoReentry says that each acquisition is an owner of its own, as with the permits of a
	// semaphore. No context makes the lock re-entered, neither that of a hold nor one of
	// [WithOwner]; and the context of a hold carries the owner that the one it derives from carries,
	// so that other locks are re-entered under it as before.
	NoReentry bool
}

// Recaller is a [Backend] whose refusals call the client that has the lock, if the id of the owner
// says that it wants to be called, see [Client.NewOwnerID].
type Recaller interface {
	// Calls has the calls to this client heard until it is closed.
	Calls(pubsub.Listener) interface{ Close() }
}

// Bid is what one owner asks the server for, with all its attempts.
type Bid interface {
	// Entry is what the owner has at the server, or may have. It is nil while what an attempt
	// leaves there is given back by the bid itself.
	Entry() Entry
	// Ask makes one attempt. It returns when the wait ends. What may have been granted, or may be
	// yet, is marked in the entry, and given back when the grant ends; or the attempt goes on, see
	// [Attempt].
	Ask(Attempt) Result
	// Live tells of the lease of what was granted, which is watched from now on.
	Live(*watchdog.Lease)
}

// Attempt is one attempt to get a lock, as the acquisition wants it.
type Attempt struct {
	Wait   context.Context // ends the attempt
	Want   *Settings
	Once   bool                   // there will be no other attempt
	Tokens int                    // that are wanted, for those to whom the lock is handed on
	Failed *atomic.Pointer[error] // what an attempt comes to that gets no answer
	// Lasts says that somebody stands behind. What is under way when the wait ends goes on for them, once.
	Lasts bool

	beside    string        // the name by which the owner holds another side of the lock; empty: it does not
	headStart time.Duration // for which the client is to be let go first if this is refused
	ends      time.Duration // the longest head start that is over if it is granted
}

// Result is what came of an attempt: a grant, a refusal, or neither.
type Result struct {
	Granted     bool
	Sent        time.Time // when the attempt was that was granted or refused
	Token, Last string    // the tokens that are the owner's, from the first to the last

	Refused bool           // by another owner, who is named in by
	By      remote.Blocker // who, or what, has the lock
	Again   time.Duration  // after which to ask again if nobody tells
	// Unknown is why it is not known who, if anyone, has a lock that was refused: servers that decide
	// it gave no answer. Nil: it is known, or nobody has it and several want it.
	Unknown error

	Left error // why the wait ended, if it did
	// Late has what comes of an attempt that goes on although the wait has ended. Nil: none does.
	Late <-chan Result
	Err  error // why there is neither a grant nor a refusal

	stray bool // the attempt may have run all the same
	// unsent is as [remote.Outcome] has it.
	unsent bool
}

// Listening is how a waiter hears releases.
type Listening interface {
	// Wake has a token when it is time to look again.
	Wake() <-chan struct{}
	// Err is why no release can be heard.
	Err() error
	// Confirmed reports whether releases are heard, as far as is known.
	Confirmed() bool
	Close()
}

// askGap is how often a waiter asks that cannot listen.
const askGap = time.Second

// Rest returns how long a waiter sleeps until it asks again, if nothing wakes it: d, and at most askGap while
// its subscription is not confirmed. There may never be one, where a server has no room for a connection
// more, or a proxy does not pass SUBSCRIBE on.
func Rest(l interface{ Confirmed() bool }, d time.Duration) time.Duration {
	if !l.Confirmed() {
		d = min(d, askGap)
	}
	return d
}

// Entry is what one owner has at the server, or at several masters of which the majority decides,
// or may have.
type Entry interface {
	// Owner is the owner as the server knows it, "<uuid>:h<n>".
	Owner() string
	// Set tells the hold count, and makes the lease last at least so long. It counts when the
	// replicas have it that are wanted; if too few have, that is an error, and the count stands: it
	// is the caller's to take it back. It is an [remote.Action].
	//
	// All operations of one Unlock share a budget; the zero value: the operation has its own.
	Set(ctx context.Context, budget remote.SharedBudget, count int, lease time.Duration, want remote.Replicas,
		failed *atomic.Pointer[error]) remote.Outcome
	// Extend makes the lease last at least so long from now. It is an [remote.Action].
	Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome
	// Pass keeps the lock for this client's next holder, or releases it if others want it. The
	// outcome is as [kind.Hander] has it.
	Pass(ctx context.Context, budget remote.SharedBudget, lease time.Duration, tokens int) remote.Outcome
	// Release gives the lock back, or has it stay for the rest of its time, if there is any. Each
	// attempt asks for that anew. The caller cannot cancel it.
	Release(ctx context.Context, budget remote.SharedBudget, rest func() time.Duration) remote.Outcome
	// LossCause is what is known of how the lock was lost; nil if no more than that it is.
	LossCause() error
	// Undo gives back what may have been granted to an owner that is not used any more, nor will
	// be. That is done in the background; Close waits for it. Without a straggler one release is
	// enough.
	Undo(lease time.Duration, stray bool)
	// Abandon is undo where something may stand, or come to stand, unless that is being given back
	// already. What is to stay taken is given back when the rest of its time is over.
	Abandon(rest func() time.Duration, lease time.Duration)

	// The rest is as [Uncertainty] has it.

	MarkStray()
	LeaveUndo()
	IsStray() bool
	SetPlaced(placed bool)
	noteTokens(last uint64)
	noteUnheard()
	tainted() bool
	serve(id string)
}

// permitted is an [Entry] of a kind whose owners may have several permits.
type permitted interface {
	// permits says how many the owner has, before the grant is live.
	permits(n int)
}

// Nothing is the rest of a lock that is to be released at once.
func Nothing() time.Duration { return 0 }

// Uncertainty is what an entry does not know of itself: which of its commands may have run, or may
// run later.
type Uncertainty struct {
	passing atomic.Bool // a command is out that may release the lock: a renewal that does not find it says nothing
	// renewals without an answer, which may still come to the server and lengthen what this owner
	// has then
	unheard atomic.Int32
	last    atomic.Uint64 // of the tokens that are the owner's, as far as is known

	mu     sync.Mutex // guards the rest. It is taken after a grant's; never held over a network call
	stray  bool       // a command may still arrive at the server
	placed bool       // the owner may have a place in the queue of the server
	undone bool       // it is being given back in the background
	// served are those who had the lock as this owner's, in a run: their places are given back with
	// it.
	served []string
}

// MarkStray remembers that the server may have granted this, or may yet: a command for it may still
// be on its way. It is given back at its end, and its owner id is not used again, lest the
// straggler take a lock for nobody, or release one that was granted later.
func (u *Uncertainty) MarkStray() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stray = true
}

// LeaveUndo is MarkStray where the operation that is under way gives it back when it has ended.
func (u *Uncertainty) LeaveUndo() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stray, u.undone = true, true
}

// IsStray reports whether a command may still arrive at the server.
func (u *Uncertainty) IsStray() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stray
}

// SetPlaced notes whether the owner may have a place in the queue of the server, or the lock that
// it was handed without asking: then it is given back, although no command is on its way.
func (u *Uncertainty) SetPlaced(placed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.placed = placed
}

// tainted reports whether something that carries the owner id may still come to the server, be it a
// renewal, or stands there.
func (u *Uncertainty) tainted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stray || u.placed || u.unheard.Load() > 0
}

// TakeUndo reports whether it is to be given back, and then whether there may be a straggler. It
// says so once.
func (u *Uncertainty) TakeUndo() (undo, stray bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	undo = (u.stray || u.placed) && !u.undone
	u.undone = u.undone || undo
	return undo, u.stray
}

// serve notes an owner who has the lock as this one's, and has a place in the queue of the server.
func (u *Uncertainty) serve(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.served = append(u.served, id)
}

// allServed returns them.
func (u *Uncertainty) allServed() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served
}

// takeServed returns them to a caller that has given their places back, or does so.
func (u *Uncertainty) takeServed() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	served := u.served
	u.served = nil
	return served
}

// IsPassing reports whether "not held" in reply to a renewal may be the work of a command that is
// out, and no loss.
func (u *Uncertainty) IsPassing() bool { return u.passing.Load() }

// Passed runs a command that keeps the lock or releases it. Until it is known that it has kept the
// lock, renewals are not believed that do not find it.
func (u *Uncertainty) Passed(run func() remote.Outcome) remote.Outcome {
	u.passing.Store(true)
	o := run()
	if o.Err == nil && o.Reply.Status == lua.Done {
		u.passing.Store(false)
	}
	return o
}

// noteTokens notes the last token of the owner, which grows.
func (u *Uncertainty) noteTokens(last uint64) { u.last.Store(last) }

// noteUnheard notes an extension without an answer.
func (u *Uncertainty) noteUnheard() { u.unheard.Add(1) }

// Sent remembers of a command whether an attempt of it got no answer.
func (u *Uncertainty) Sent(o remote.Outcome) remote.Outcome {
	if o.Stray {
		u.MarkStray()
	}
	return o
}

// Released is sent for a release. One that failed is still to be done.
func (u *Uncertainty) Released(o remote.Outcome) remote.Outcome {
	if o.Stray || o.Err != nil {
		u.MarkStray()
	}
	return o
}
