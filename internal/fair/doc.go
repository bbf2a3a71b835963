// Package fair is what kinds share whose waiters have places in a queue at the server: it asks for
// the places, keeps them, and hears of grants. Package fairlock says what such a queue promises.
// Redisson's waiters may stand in it too.
//
// A kind makes its locks with [NewLock]. It may bring scripts of its own, as long as they reply what
// those of [Protocol] do.
//
// # Not promised
//
// Anything to anybody outside this module.
package fair
