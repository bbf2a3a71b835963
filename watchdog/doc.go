// Package watchdog renews leases before they end, and says at once when one cannot be trusted any
// more.
//
// It promises that an owner is told of a loss, by the local clock, before the server may grant the
// lock to another: whether the server answers, refuses or is silent, and however long a renewal
// hangs. It does not promise anything while the process is not scheduled: one that is paused beyond
// a lease learns of the loss when it runs again, and no sooner. A virtual machine that is stopped
// and shows that by no clock does not learn of it. It assumes that the server's clock and ours run
// at rates within 1 % of each other, and that a lease is never shortened at the server. It knows
// nothing of Redis: it is given a function that renews, and is tested in virtual time.
//
// # Protocol
//
// A lease is watched from a confirmed grant on. What counts is when the confirmed command was sent,
// not when its answer came: the server can have started the lease at any moment in between. From
// there
//
//	sent            sent + length/3                      sent + Trust(length)    sent + length
//	 |── trusted ────|── renewed, again and again ────────|── lost ───────────────|
//	                 if confirmed: begins anew             the owner is told       the server may grant to another
//
// and in states:
//
//	          Watch             due               Renewed: the deadline moves on
//	(none) ──────────▶ HELD ───────────▶ ASKING ──────────────────────────────▶ HELD
//	                    ▲                 │  │
//	                    └── backoff ──────┘  │ Gone               Lost(ErrGone)
//	                        Unknown          ├──────────────────▶ LOST
//	                                         │ the deadline, also from HELD: Lost(ErrDeadline);
//	                                         │ of one that was not to be renewed: Lost(ErrEnded)
//	                                         └──────────────────▶ LOST
//	 Forget and Stop lead back to (none) from HELD and ASKING. LOST is final until the lease is watched anew.
//
// What makes it safe:
//
//   - One goroutine keeps the time for all leases. It never waits for a renewal: batches run
//     beside it, four at most for each server. When all four hang, due leases of that server wait
//     their turn, those of others are renewed, and deadlines pass on time.
//   - An attempt has patience: a tenth of the lease, 20 ms at least and 2 s at most; of the
//     longest lease in its batch. Then its context ends. Whether it obeys or not, a lease is tried
//     again soon after its own patience, beside the attempt that hangs: renewals may be repeated and
//     overtake each other, because none shortens a lease.
//   - A verdict counts for the life of the lease that it was asked for. One that comes after
//     Forget, after a new Watch, or after the deadline is ignored. Lost is lost.
//   - A lease is checked once more in the moment that its batch is sent. That moment is the send
//     time that a confirmation counts from, and orders renewals with Forget.
//
// Times are those of the monotonic clock, to which the time is added for which the machine slept:
// most systems stop that clock then, and servers' clocks go on. So a lease that ended in a sleep is
// over for whoever looks first, and its owner is told within a second of waking. Send times must
// come from the Now of internal/suspend; what was sent before a sleep was noticed counts as sent
// before it. Linux counts the time that a machine sleeps. On systems that do not, a wall clock that
// jumped forward is the only sign, and may have been set: then all is renewed at once, and the
// server decides.
package watchdog
