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
	// NewAcquirer makes the acquirer of an owner that has nothing at the server yet. It sends nothing.
	NewAcquirer(owner string) Acquirer
	// Listen hears releases.
	Listen() Listening
	// Renewer renews what its owners hold.
	Renewer() Renewer
	// Silent reports whether the servers that decide are silent: a question has failed since their last answer, or they
	// have answered nothing for so long, and were asked for half of that. A server that nobody asks is not silent.
	Silent(remote.Patience) bool
	// Unreached is why no connection to one of the servers was opened lately; nil if nothing is known of that.
	Unreached() error
	// NoAnswer says that the servers have not answered, and what is known of why. It claims that they are silent, so it is
	// not for a caller who has asked them a moment ago.
	NoAnswer() error
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
	// NoAtLeast is why the option [HoldAtLeast] is refused, and what to do; empty: it is not.
	NoAtLeast string
	// Recalls says that the backend is a [CallListener], so that a lock can be kept, see [Keep].
	Recalls bool
	// NoReentry says that each acquisition is an owner of its own, as with the permits of a
	// semaphore. No context makes the lock re-entered, neither that of a hold nor one of
	// [WithOwner]; and the context of a hold carries the owner that the one it derives from carries,
	// so that other locks are re-entered under it as before.
	NoReentry bool
}

// CallListener is a [Backend] that listens for calls. A refused client calls the client that has the lock,
// if the id of the owner says that this one listens, see [Client.NewOwnerID].
type CallListener interface {
	// ListenForCalls delivers the calls to this client to the listener, until the result is closed.
	ListenForCalls(pubsub.Listener) interface{ Close() }
}

// Acquirer makes the attempts of one owner to get the lock.
type Acquirer interface {
	// Entry is what the owner has at the server, or may have. It is nil while the acquirer itself gives
	// back what an attempt leaves there.
	Entry() Entry
	// TryAcquire makes one attempt. It returns when the wait ends at the latest. The entry notes what the
	// server may have granted, or may grant yet, and the end of the grant gives that back. Or the attempt
	// goes on, see [Attempt].
	TryAcquire(Attempt) Result
	// Live tells of the lease of what was granted, which is watched from now on.
	Live(*watchdog.Lease)
}

// Attempt is one attempt to get a lock, as the acquisition wants it.
type Attempt struct {
	Wait   context.Context // ends the attempt
	Want   *Settings
	Tokens int                    // that are wanted, for those to whom the lock is handed on
	Failed *atomic.Pointer[error] // what an attempt comes to that gets no answer
	Once   bool                   // there will be no other attempt
	// Lasts says that somebody stands behind. What is under way when the wait ends goes on for them, once.
	Lasts bool

	again     bool          // an attempt before this one may have been granted the lock, and be what is in the way
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

	mayArriveLate bool // the attempt may have run all the same
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
	// KeepOrRelease keeps the lock for this client's next holder, or releases it if others want it. The
	// outcome is that of [kind.HandOffProtocol].
	KeepOrRelease(ctx context.Context, budget remote.SharedBudget, lease time.Duration, tokens int) remote.Outcome
	// Release gives the lock back, or has it stay for the rest of its time, if there is any. Each
	// attempt asks for that anew. The caller cannot cancel it.
	Release(ctx context.Context, budget remote.SharedBudget, rest func() time.Duration) remote.Outcome
	// LossCause is what is known of how the lock was lost; nil if no more than that it is.
	LossCause() error
	// UndoLater gives back, in the background, what the server may have granted to an owner id that is
	// never used again. Close waits for it. mayArriveLate: a command may still arrive at the server; without one,
	// one release is enough.
	UndoLater(lease time.Duration, mayArriveLate bool)
	// UndoIfNeeded calls UndoLater if the server may have something of the owner, now or later, and if
	// nobody gives that back already. A lock that has to stay taken for rest is given back after that.
	UndoIfNeeded(rest func() time.Duration, lease time.Duration)

	// The rest are the methods of [CommandState].

	NoteLateCommand()
	MarkUndoRunning()
	MayArriveLate() bool
	SetInQueue(inQueue bool)
	noteTokens(last uint64)
	noteUnanswered()
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

// CommandState says which commands of an entry may have run without its knowledge, or may run later.
type CommandState struct {
	// a command is out that may release the lock: a renewal that does not find the lock proves no loss
	mayBeReleased atomic.Bool
	// renewals without an answer, which may still arrive at the server and lengthen what this owner
	// has then
	unanswered atomic.Int32
	last       atomic.Uint64 // of the tokens that are the owner's, as far as is known

	mu            sync.Mutex // guards the rest. It is taken after a grant's; never held over a network call
	mayArriveLate bool       // a command may still arrive at the server
	inQueue       bool       // the owner may have a place in the queue of the server
	undone        bool       // it is being given back in the background
	// served are the owners that had the lock under this owner's id, in a run: their places are given
	// back with it.
	served []string
}

// NoteLateCommand notes that a command may still arrive at the server, which may have granted the lock, or may
// do so. The end of the entry gives the lock back. The owner id is not used again: the late command could
// take a lock for nobody, or release one that was granted later.
func (s *CommandState) NoteLateCommand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mayArriveLate = true
}

// MarkUndoRunning is NoteLateCommand for an operation that is under way, and gives the lock back itself at its end.
func (s *CommandState) MarkUndoRunning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mayArriveLate, s.undone = true, true
}

// MayArriveLate reports whether a command may still arrive at the server.
func (s *CommandState) MayArriveLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayArriveLate
}

// SetInQueue notes whether the owner may have a place in the server's queue, or the lock, which the server
// can hand it without a request. Then the place is given back, although no command is on its way.
func (s *CommandState) SetInQueue(inQueue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inQueue = inQueue
}

// tainted reports whether the server has something with the owner id, or may still receive a command
// with it, such as a renewal.
func (s *CommandState) tainted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayArriveLate || s.inQueue || s.unanswered.Load() > 0
}

// TakeUndo reports whether the caller has to give the entry back, and whether a command may still arrive
// at the server. Only the first call returns true for undo.
func (s *CommandState) TakeUndo() (undo, mayArriveLate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	undo = (s.mayArriveLate || s.inQueue) && !s.undone
	s.undone = s.undone || undo
	return undo, s.mayArriveLate
}

// serve notes an owner that has the lock under this one's id, and a place in the server's queue.
func (s *CommandState) serve(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = append(s.served, id)
}

// allServed returns these owners.
func (s *CommandState) allServed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// takeServed returns these owners to a caller that gives their places back, or has done so.
func (s *CommandState) takeServed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := s.served
	s.served = nil
	return served
}

// MayBeReleased reports whether a command of this client that is out may be why a renewal was answered
// by "not held". Then that reply proves no loss.
func (s *CommandState) MayBeReleased() bool { return s.mayBeReleased.Load() }

// TrackKeepOrRelease runs a command that keeps the lock or releases it. Until the command is known to have
// kept the lock, a renewal that does not find the lock proves nothing, see MayBeReleased.
func (s *CommandState) TrackKeepOrRelease(run func() remote.Outcome) remote.Outcome {
	s.mayBeReleased.Store(true)
	o := run()
	if o.Err == nil && o.Reply.Status == lua.Done {
		s.mayBeReleased.Store(false)
	}
	return o
}

// noteTokens notes the last token of the owner, which grows.
func (s *CommandState) noteTokens(last uint64) { s.last.Store(last) }

// noteUnanswered notes an extension without an answer.
func (s *CommandState) noteUnanswered() { s.unanswered.Add(1) }

// Sent notes whether an attempt of a command got no answer.
func (s *CommandState) Sent(o remote.Outcome) remote.Outcome {
	if o.MayArriveLate {
		s.NoteLateCommand()
	}
	return o
}

// Released is Sent for a release. A release that failed has to be done again.
func (s *CommandState) Released(o remote.Outcome) remote.Outcome {
	if o.MayArriveLate || o.Err != nil {
		s.NoteLateCommand()
	}
	return o
}
