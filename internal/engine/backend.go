package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
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

// Bid is one owner's request for a lock, with all its attempts.
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

// Attempt is one attempt to get a lock, as the request wants it.
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
