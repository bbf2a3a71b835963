// Package notify calls the user's code: the functions of an observer of events, and a logger.
//
// The caller's goroutine delivers the caller's own events (its wait, its grant, its refusal, the end of its hold by
// Unlock), with no mutex held and after all other work of the library. One goroutine delivers all other events, from a
// bounded queue. So no part of the library waits for a function of the user, which may be slow, block for ever or panic.
//
// Not promised: that a queued event or log record arrives. An event is dropped and counted if the queue is full or the
// function panics; the next one that arrives carries the count.
package notify
