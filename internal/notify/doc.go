// Package notify tells the user's code what happens in a client: an observer of events, and a logger.
//
// A caller's own events (its wait, its grant, its refusal, the end of its hold by Unlock) are told in the caller's
// goroutine, with no mutex held and after all that the library itself has to do. Everything else is told by one
// goroutine from a bounded queue, so that no part of the library ever waits for a function of the user's, which may be
// slow, block for ever or panic.
//
// Not promised: that a queued event or log record arrives. What comes while too much waits, and what a function panics
// at, is dropped and counted; the next one that arrives carries the number.
package notify
