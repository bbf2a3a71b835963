// Package remote sends the operations of locks to one Redis server or cluster. It executes each
// command at most once, and reports the outcome, or that the outcome is uncertain. In the
// background it gives back locks that the server may have granted to callers who have left.
//
// It does not know of owners that wait, of holds and of leases; package engine does.
//
// Not promised: that an operation ends at the end of its context, see [Session.Call]; and that a
// lock is given back while its server does not answer. Then its lease ends it.
package remote
