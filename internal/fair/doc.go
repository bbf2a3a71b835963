// Package fair is what kinds share whose waiters have places in a queue at the server: it asks for
// the places, keeps them, and hears of grants. Package fairlock says what such a queue promises.
// Redisson's waiters may stand in it too.
//
// Who leaves gives its place back, at once and with all others who left meanwhile: one script for a hundred of them.
// That word comes half a round trip late, and the word of a grant takes as long. So a caller who is known to leave soon
// has a place that ends a round trip before it does, see PlaceFor in package engine. (Otherwise, where the waits of all
// are a few round trips, the one in front at the server has always left when it is granted the lock.)
//
// A kind makes its locks with [NewLock]. It may bring scripts of its own, as long as they reply what
// those of [Protocol] do.
//
// # Not promised
//
// Anything to anybody outside this module.
package fair
