package holdfast

import "time"

// backend is where the entries of one lock live: one server, or several masters of which a majority decides. The rest of
// this package does not know which: it asks the backend, or looks at its traits.
type backend interface {
	traits() traits
	// check refuses what only the whole of the options shows: that this backend cannot serve them.
	check(*config) error
	// newEntry is for an owner that has nothing at the server yet. It sends nothing.
	newEntry(owner string) entry
	// attempt asks for the lock. Without a hold and an error it is another's; the time returned is when to ask again if nobody
	// tells. What may have been granted, or may be yet, is marked, and given back when the grant ends. place asks for a place in
	// the queue of a [waiter].
	attempt(g *grant, place bool) (*Hold, time.Duration, error)
	// listen hears releases.
	listen() listening
	// renewer renews what its owners hold.
	renewer() renewer
	// explain says what an error of Redis means for the lock's keys, and what to do.
	explain(error) error
}

// traits are what sets the locks of a backend apart. They are asked for once, when a lock is made.
type traits struct {
	several  bool // several servers grant the lock
	handsOff bool // an entry can be kept for the client's next holder
}

// listening is how a waiter hears releases.
type listening interface {
	// Wake has a token when it is time to look again.
	Wake() <-chan struct{}
	// Err is why no release can be heard.
	Err() error
	Close()
}

// waiter is a backend whose waiters have places at the server. They are not queued in the process.
type waiter interface {
	// wait gets the grant a hold. What was said is left in the grant.
	wait(g *grant) (*Hold, error)
}
