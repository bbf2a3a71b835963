// Package simulation runs the whole library in virtual time: several clients, each behind a network
// of its own, and one emulated server, in a bubble of testing/synctest. An hour of leases, lost
// messages, partitions, restarts and crashes passes in a fraction of a second, and history's checks
// look at all that was done.
//
// A world has plain or fair locks, or, one in four, read-write locks, permits, latches or elections; see
// kinds.go.
//
// A [World] is one such run. Everything in it is drawn from one seed: who locks what and when, how
// long each message takes, which are lost, when faults come and go, when clients die. [World.Run]
// returns what was done and what was found wrong.
//
// What a run cannot show:
//
//   - A process that is paused beyond its lease. All goroutines of a bubble share the clock, and
//     the clock stands still while any of them can run.
//   - What the emulated server does not have: memory limits, permissions, replicas and failover,
//     Cluster. Those are tested on real servers.
//   - That it is the same on a real server. The emulation runs the library's own scripts, in
//     another Lua.
//
// At times a stranger puts things of its own under the names of locks: strings, hashes that are
// none, locks without an end.
//
// Fleets of processes die while they wait for fair locks, and leave thousands of places. What
// scripts do at the server is counted, and such places may cost it no more than to take each of
// them out. Processes are stopped there too; each may cost the others one claim.
//
// In worlds of their own all clients sleep now and then, as on a machine that is suspended, while
// the server goes on.
//
// In worlds of their own callers are the fault: crowds that give up within a few round trips, at a server
// that takes time for each command. A free lock is granted to somebody all the same, places at the
// server, commands and goroutines are bounded by how many callers there are, and the kind of each error
// is right by what the history knows.
//
// The clock of the server is not that of the clients: it runs up to a little less than one per cent
// faster or slower.
//
// Not promised: that a seed gives the same history twice. All choices of the simulation are the
// same, but goroutines that can run at one moment run in any order, and the library spreads its
// retries by random numbers that no seed reaches. Most of what a seed finds, it finds again.
package simulation
