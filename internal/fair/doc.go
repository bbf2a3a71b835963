// Package fair is what kinds share whose waiters have places in a queue at the server: it asks for
// the places, keeps them, and hears of grants. Package fairlock says what such a queue promises.
// Redisson's waiters may stand in it too.
//
// Who leaves gives its place back, at once and with all others who left meanwhile: one script for a hundred of them.
// (Rejected: to say with each place how long its caller will wait, and to have the scripts pass over a place
// whose time is over. Each place has one deadline, which Redisson reads as well and takes time off, so that limit
// would be a second one, at each place of each kind of queue; and a caller whose context is cancelled has no limit.
// Given back in batches, places mostly stay below twice the callers who wait.)
//
// A kind makes its locks with [NewLock]. It may bring scripts of its own, as long as they reply what
// those of [Protocol] do.
//
// # Not promised
//
// Anything to anybody outside this module.
package fair
