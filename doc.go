// Package holdfast provides distributed locks on Redis for Go services, in the style of Redisson
// and on Redisson's keys. Locks are reentrant. A watchdog renews them, and pub/sub wakes waiters.
// Each grant carries a fencing token. The context of a hold ends when the lock is lost.
//
// This package has what all kinds of lock share: client, hold, options and errors. The kinds are
// packages of their own:
//
//   - rlock has the plain lock;
//   - fairlock has a lock that serves waiters in order of arrival;
//   - rwlock has a lock for many readers or one writer;
//   - semaphore has permits: at most N holders at a time;
//   - redlock has a lock that a majority of independent masters grants;
//   - multilock takes several locks as one;
//   - election makes one of many candidates the leader;
//   - latch has a count-down latch: callers wait until others have counted down. It is not a lock.
//
// Package event has what a client tells an observer, for metrics and traces.
//
// # What is promised
//
// Held means held, within stated limits. On one Redis master whose data is not rolled back, a name
// has at most one owner at a time. A holder's context ends before the server may grant the name to
// anyone else, provided that clocks run at rates within 1 % of each other and the process is
// scheduled.
//
// A pause longer than the lease, or a failover that loses writes, can let two processes believe
// that they hold the lock. Nothing built on leases can prevent that. So every grant carries a
// fencing token ([Hold.Token]), greater than all earlier tokens of the name. Let the resource check
// the token: package fence has such checks.
//
// Every operation happens at most once, even when a reply is lost and the call is repeated.
//
// When a hold is lost, its context ends with [ErrLost]. It ends as soon as Redis reports the loss,
// which is at the next renewal at the latest. If Redis is silent, the local clock ends it.
//
// A client leaves nothing behind on any exit path: no key without a time to live, no goroutine, no
// subscription.
//
// # What is not promised
//
//   - That nobody else works while you do. See above, and let the resource check the fencing token.
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
// # Deadlocks
//
// A caller that holds one lock while it waits for another may wait for ever, if the holder of the
// other waits for the first. Take locks in the same order everywhere, or with package multilock, or
// limit the waits. When waits have lasted for [Options.LongWait], the clients look for circles of
// them, over any number of processes. They report circles to the Logger and to
// Deadlocked of the Observer.
//
// The clients see a circle if all of it is on one Redis, and if each Lock in it was called under
// the context of what its caller holds ([Hold.Context], also with [WithOwner] in between), or with
// the same owner. They do not see
//   - waits under plain contexts, since nobody knows what their callers hold;
//   - permits of semaphores, and latches;
//   - waiters that only stand behind somebody in a queue;
//   - locks on several masters whose clients are given in different orders.
//
// A reported circle stood at one moment. It ends by itself only if a wait has a limit, or if
// another goroutine gives back what was locked under the same context.
//
// # How it works
//
// A lock is a hash under its name. Its one field "<client uuid>:<owner number>" counts re-entries,
// and its time to live is the lease. Lua scripts change the hash. go-redis sends each script at
// most once. The library repeats it with absolute counts, so that a repeated script changes
// nothing. One goroutine renews all leases of a client, each when a third of it is over.
//
// The client trusts a hold for 99 % of the lease less 2 ms, counted from the moment at which it
// sent the last confirmed command.
//
// If several goroutines of one process want a name, one at a time asks Redis, and the others queue
// in memory. The goroutine in front subscribes to the lock's channel and asks again. Then it sleeps
// until a message, a new subscription, or the end of the lease. Some kinds let a process hand its
// lock from goroutine to goroutine without asking Redis, for a bounded time.
package holdfast
