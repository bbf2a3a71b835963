// Package kind is the seam between what all kinds of lock share (owners, holds, waiting, renewal) and what sets one
// apart: its scripts and its channel. A new kind implements [Protocol]; nothing else of it is needed by the root package.
package kind

import (
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// Protocol says how one lock of one kind speaks to the server. It has no state of its own and is used concurrently.
type Protocol interface {
	// Kind is the name of the kind as it stands in errors: "rlock".
	Kind() string
	// Name is the name of the lock.
	Name() string
	// Channel is where a release is announced.
	Channel() string
	// Acquire asks for a free lock. again says that an earlier attempt of this call may have been executed.
	// Replies: Done and the token as text, or Denied and the milliseconds left to the holder.
	Acquire(owner string, lease time.Duration, again bool) lua.Call
	// Recount sets the hold count of an owner that holds the lock. Replies: Done or Gone.
	Recount(owner string, count int, lease time.Duration) lua.Call
	// Release frees the lock of an owner and announces it; publish is PUBLISH or SPUBLISH. Replies: Done, with the reason
	// as text if the announcement was refused, or Gone.
	Release(owner, publish string) lua.Call
	// Renew makes the lease of an owner last at least so long from now. Replies: Done or Gone.
	Renew(owner string, lease time.Duration) lua.Call
}

// Millis is a lease as scripts take it: whole milliseconds, rounded up so that it never becomes 0.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
