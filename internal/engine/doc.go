// Package engine tracks owners, grants and holds: from a call of Lock, through its wait, its lease and its re-entries,
// to the release or the hand-off. Package holdfast is its public face. The kinds of lock are built on it, each with a
// [Backend] or with the scripts of one server, see [NewLock].
//
// Types that users see under the same name in package holdfast are defined there by those here, and
// documented there.
//
// # What there is
//
// An owner is whoever holds locks: contexts carry it. An [Acquisition] is one call of Lock or TryLock: what is asked
// for. A grant is what is held: what the server grants to one owner for one lock, which is one entry in the lock's hash.
// Its holds are the first acquisition and the re-entries. A [ServerLease] is the time for which the client holds a lock
// at the server without a break. Several grants may have it one after the other: a hand-off asks no server.
//
// A grant is made by owner.enter and ends once:
//
//	            refused, or its caller has left
//	       ┌───────────────────────────────────────────┐
//	made ──┤  granted by the server        activate    │
//	       │  handed off within the client takeOver    ▼
//	       └───────────────► live ───────────────────► ended
//	                          │ last Unlock: the next of a run (handOffInRun), handed off (handOff), kept idle (keep),
//	                          │              kept for the next holder or released (keepOrRelease),
//	                          │              left taken or released (release)
//	                          └ lost: the server says so, or its time is over (endLost); the client is closed (finish)
//
// # Where things are
//
//	a client is made, or asked for its parts         client.go; a client's settings: options.go
//	a call begins, waits, asks and ends              acquire.go; what it wants: acquisition.go, settings.go;
//	                                                 each attempt: attempt.go
//	the server has the queue                         place.go (what a Waiter sees of a call)
//	a call is refused, or its wait ends              refusal.go (waitError makes that error for all kinds), note.go;
//	                                                 who has it in words: package remote, blocker.go
//	an owner re-enters, extends, or asks again       reentry.go, owner.go
//	a hold ends, or its context is asked for         hold.go, joined.go
//	the last Unlock                                  release.go, handoff.go, idle.go
//	other clients want the lock, too                 turns.go, rivals.go
//	a lease is renewed, or lost                      watchdogs.go, renewal.go, lease.go, grant.go
//	how long and how often hand-offs ask no server   lease.go (turnLocked), and the tokens that attempt.go reserves
//	one server is asked for anything                 oneserver.go; the interface: backend.go
//	somebody asks about a lock                       state.go, lock.go
//	the client is closed                             close.go
//	people watch long waits                          view.go, for package waitwatch
//
// A new kind of lock needs nothing here: see "Adding a kind of lock" in CONTRIBUTING.md.
//
// Its files have an order: each uses those below it, see floors_test.go in the root.
//
// # Mutexes
//
// They are taken in this order, and none is held over a network call or a function of the user's: owner, the local
// queue's, the hub's (package pubsub), a Waiter's (package fair), ServerLease, grant, CommandState. Those of Hold, Note,
// rivals, idleLocks, attachments, watchdogs, lossQueue and unreleased are taken last: nothing is taken while one of these is held.
//
// # Goroutines
//
// Each is one of the client's tasks, which Close joins: commands that go on without their caller, attempts that go on for the
// next in the local queue, releases in the background, and those of losses, of idle locks and of packages notify and
// waitwatch. The watchdogs have their own, which Close stops and joins.
//
// It promises nothing to anybody outside this module.
package engine
