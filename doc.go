// Package holdfast is a set of distributed locks on Redis for Go services, in the style of Redisson
// and on its keys. Locks are reentrant. A watchdog renews them, pub/sub wakes those who wait, each
// grant carries a fencing token, and the context of a hold ends when the lock is lost.
//
// This package has what the kinds of lock share: client, hold, options and errors. Package rlock is
// the reentrant lock. Package fairlock serves waiters in the order of arrival. Package redlock is
// the lock that a majority of independent masters grants.
//
// # What is promised
//
// Held means held, within stated limits. On one Redis master whose data is not rolled back, a name
// has at most one owner at a time. A holder's context ends before the server may grant the name to
// anyone else, provided that clocks run at rates within 1 % of each other and the process is
// scheduled. A pause longer than the lease, or a failover that loses writes, can put two processes
// inside. Nothing built on leases can prevent that. So every grant carries a fencing token, greater
// than all earlier tokens of the name, for the resource to check ([Hold.Token]; package fence does
// that).
//
// Every operation happens at most once, even when a reply is lost and the call is repeated.
//
// A holder learns of a loss as soon as Redis says so, which is at its next renewal at the latest,
// and from the local clock if Redis is silent: the hold's context ends with [ErrLost].
//
// Nothing is left behind: no key without a time to live, no goroutine, no subscription, after any
// exit path.
//
// # What is not promised
//
//   - That nobody else works while you do: see above, and let the resource check the fencing token.
//   - That a lock survives the loss of its Redis master. Replication is asynchronous. Package
//     redlock survives the loss of a minority of several masters.
//   - That waiters of different processes are served in order. Only package fairlock promises that.
//   - That an operation whose error is [ErrUncertain] did not happen.
//
// # Owners
//
// The owner of a lock is data, not a goroutine. A plain context competes under a fresh owner, so
// Lock under a plain context waits even if the same goroutine holds the lock. A context that
// carries an owner re-enters: the [Hold.Context] of a hold, or a context made by [WithOwner]. Every
// goroutine that runs under such a context is the same owner, and the lock does not keep these
// goroutines apart.
//
// # How it works
//
// A lock is a hash under its name. Its one field "<client uuid>:<owner number>" counts re-entries,
// and its time to live is the lease. Lua scripts change the hash. go-redis sends each script at
// most once, and this library repeats it with absolute counts, so that a repeated script does
// nothing new. One goroutine renews all leases of a client from a third of their length on.
//
// A hold is trusted until the moment of sending of the last confirmed command, plus 99 % of the
// lease, less 2 ms.
//
// Of the goroutines of one process that want a name, one at a time deals with Redis, and the others
// queue in memory. The one in front subscribes to the lock's channel, looks again, and sleeps until
// a message, a new subscription, or the end of the lease. A kind may let a process hand its lock
// from goroutine to goroutine without asking Redis, for a bounded time.
package holdfast
