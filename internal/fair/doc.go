// Package fair serves the kinds whose waiters have places in a queue at the server: it asks for the
// places, keeps them, and receives the grants. Package fairlock says what such a queue promises.
// Redisson's waiters may stand in it too.
//
// A waiter that leaves gives its place back at once. One script gives back the places of a hundred waiters that leave
// together. The server learns of this half a round trip late, and a grant takes as long to arrive. So the place of a
// caller that is known to leave soon ends a round trip before the wait does, see PlaceFor in package engine. (Otherwise,
// if all callers wait for a few round trips only, the first in the queue has always left when it is granted the lock.)
//
// A kind makes its locks with [NewLock]. It may bring scripts of its own, if they reply what those of
// [Protocol] do.
//
// # Not promised
//
// A stable API: only this module imports this package.
package fair
