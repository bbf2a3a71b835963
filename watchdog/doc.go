// Package watchdog renews leases before they end, and says at once when one cannot be trusted any more.
//
// It knows nothing of Redis: it is given a function that renews, and is tested in virtual time.
//
// A lease is watched from a confirmed grant on. What counts is when the confirmed command was sent, not when its answer
// came: the server can have started the lease at any moment in between. From there
//
//	sent            sent + length/3                      sent + Trust(length)    sent + length
//	 |── trusted ────|── renewed, again and again ────────|── lost ───────────────|
//	                 if confirmed: begins anew             the owner is told       the server may grant to another
//
// One goroutine per watchdog keeps the time for all leases, in a heap. It never waits for the network: leases that are
// due are renewed in batches by a few goroutines that end with their batch, so a server that is silent does not delay
// the news that a lease is lost.
//
// Times are those of the monotonic clock. Not promised: anything while the process is not scheduled. A process that is
// paused beyond a lease learns that it is lost when it runs again, and no sooner.
package watchdog
