// Package holdfast is a set of distributed locks on Redis for Go services, in the style of Redisson and on its keys:
// reentrant, renewed by a watchdog, woken by pub/sub, fenced, and told when they are lost. This package holds what the
// kinds of lock share (client, hold, options, errors). Package rlock is the reentrant lock, fairlock the one that is first come, first
// served, and redlock the one that a majority of independent masters grants.
//
// # What is promised
//
// Held means held, within stated limits. On one Redis master whose data is not rolled back, a name has at most one owner
// at a time. A holder's context ends before the server may grant the name to anyone else, provided that clocks run at
// rates within 1 % of each other and the process is scheduled. A pause longer than the lease, or a failover that loses
// writes, can put two processes inside; nothing built on leases can prevent that, which is why every grant carries a
// fencing token that grows with every grant of a name, for the resource to check ([Hold.Token]; package fence does that).
//
// Every operation happens at most once, also when a reply is lost and the call is repeated.
//
// Loss is told at once, and by the local clock if Redis is silent: the hold's context ends with [ErrLost].
//
// Nothing is left behind: no key without a time to live, no goroutine, no subscription, after any exit path.
//
// # What is not promised
//
// That nobody else works while you do: see above, and let the resource check the fencing token. That a lock survives the
// loss of its Redis master: replication is asynchronous; package redlock stands the loss of a minority of several masters. That
// waiters of different processes are served in order, but by package fairlock. That an operation whose error is [ErrUncertain] did
// not happen.
//
// # Owners
//
// The owner of a lock is data, not a goroutine. A plain context competes under a fresh owner. A context that carries one
// re-enters: the [Hold.Context] of a hold, or one made by [WithOwner]. Every goroutine that is started under such a
// context is the same owner, and locks do not exclude it.
//
// # How it works
//
// A lock is a hash under its name, with one field "<client uuid>:<owner number>" that counts re-entries, and a lease as
// its time to live. Lua scripts change it, each sent at most once by go-redis and repeated here, with absolute counts, so
// that a repeated one does nothing new. One goroutine renews all leases of a client from a third of their length on.
//
// A hold is trusted until the moment of sending of the last confirmed command, plus 99 % of the lease, less 2 ms.
//
// Of the goroutines of one process that want a name, one at a time deals with Redis; the others queue in memory. That one
// subscribes to the lock's channel, looks again, and sleeps until a message, a new subscription, or the end of the lease.
// A kind may let a process hand its lock from goroutine to goroutine without asking Redis, for a bounded time.
package holdfast
