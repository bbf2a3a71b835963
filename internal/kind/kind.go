// Package kind is the seam between what all kinds of lock share (owners, holds, waiting, renewal) and what sets one
// apart: its scripts and its channel. A new kind implements [Protocol]; nothing else of it is needed by the root package.
package kind

import (
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// Lock says how one lock of one kind speaks to a server about who holds it. It has no state of its own and is used concurrently.
type Lock interface {
	// Kind is the name of the kind as it stands in errors: "rlock".
	Kind() string
	// Name is the name of the lock.
	Name() string
	// Channel is where a release is announced.
	Channel() string
	// Release frees the lock of an owner and announces it; publish is PUBLISH or SPUBLISH. Replies: Done, with the reason
	// as text if the announcement was refused, or Gone.
	Release(owner Names, publish string) lua.Call
	// Renew makes the lease of an owner last at least so long from now, and makes the lock known to be its own by another
	// name if that is not empty. Replies: Done or Gone.
	Renew(owner Names, name string, lease time.Duration) lua.Call
}

// Protocol is the whole protocol of a kind whose locks are granted by one server.
type Protocol interface {
	Lock
	// Acquire asks for a free lock. Replies: Done and the token as text, with the last one of a block behind it if that was
	// reserved; or Denied and the milliseconds left to the holder.
	Acquire(Ask) lua.Call
	// Recount sets the hold count of an owner that holds the lock. Replies: Done or Gone.
	Recount(owner Names, count int, lease time.Duration) lua.Call
	// State asks who holds the lock. Replies: Done, owner, count, milliseconds left and token; or Denied and the token.
	// That of a [Queuer] has the number of waiters behind these.
	State() lua.Call
}

// Names are those by which a holder may be known to the server; the first is the likeliest. They are more than one after a lock was
// handed on within a client, until an answer says which one stands.
type Names []string

// Args are scripts' arguments behind the first name.
func (n Names) Args(args ...any) []any {
	for _, name := range n[1:] {
		args = append(args, name)
	}
	return args
}

// Hander is the protocol of a kind whose locks are handed on within a client.
type Hander interface {
	Protocol
	// Pass keeps the lock of an owner for its client's next holder, or releases it if others listen for that. Replies: Done,
	// and the first and the last of as many tokens as were wanted, or of fewer; Denied if it was released, with how many
	// listen (-1: not known), and the reason as text if the announcement was refused; or Gone.
	Pass(owner Names, lease time.Duration, tokens int, publish string) lua.Call
}

// Voter is the protocol of a kind whose locks are granted by several masters together. Its names are never changed.
type Voter interface {
	Lock
	// Vote asks a master to grant the lock, or to agree to the count, the lease and the token of the one who holds it. Replies: Done, the
	// token as text, and whether the owner held it before (1 or 0); or Denied, the milliseconds left to the holder, and the holder.
	Vote(owner string, count int, lease time.Duration, token uint64) lua.Call
}

// Ask is one attempt to get a lock.
type Ask struct {
	Owner   string
	Lease   time.Duration
	Again   bool   // an earlier attempt of this call may have been executed
	Place   bool   // wait in the queue; only a [Queuer] has one
	Tokens  int    // that are wanted, for those it is handed on to; only a [Hander] gives more than one
	Publish string // PUBLISH or SPUBLISH
}

// Queuer is the protocol of a kind whose waiters have places in a queue at the server. Who releases the lock hands it to the
// first of them, and says so in the mailbox of its client. Release also takes an owner's place out of the queue; Acquire
// replies the server's time in microseconds behind the milliseconds of a refusal.
type Queuer interface {
	Protocol
	// Mailbox is the channel for the waiters of a client, or on which Redisson calls a single owner. A message names the owner
	// without its client, the token, the time of the grant in microseconds and for how many milliseconds it stands.
	Mailbox(of string) string
	// Poll keeps places from being taken for those of the dead. Replies: Done, milliseconds left to the holder, the server's
	// time, the holder, the owner in front if it will be called by Redisson, how many listen on the client's mailbox (-1: not
	// known), and who has no place.
	Poll(client, publish string, waiting []string) lua.Call
}

// Millis is a lease as scripts take it: whole milliseconds, rounded up so that it never becomes 0.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// TokenTTL is the time to live of the fencing token's key, in milliseconds: an hour, or twice the lease if that is longer.
// After that the server's clock alone makes the next token greater.
func TokenTTL(lease time.Duration) int64 {
	return max(time.Hour.Milliseconds(), 2*Millis(lease))
}
