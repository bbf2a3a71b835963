// Package kind is the seam between the engine, which all kinds of lock share (owners, holds, waiting,
// renewal), and each kind's own part: its scripts and its channel. A new kind implements [Protocol]; the
// engine needs no more of it.
package kind

import (
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// Lock makes the commands with which one lock of one kind is held. It has no state of its own and is
// used concurrently.
type Lock interface {
	// Kind is the name of the kind in errors: "rlock".
	Kind() string
	// Name is the name of the lock.
	Name() string
	// Channel is where a release is announced.
	Channel() string
	// Release frees the lock of an owner and announces it; publish is PUBLISH or SPUBLISH, or empty
	// for no announcement. Replies: Done, with the reason as text if the announcement was refused, or
	// Gone.
	Release(owner, publish string) lua.Call
	// ReleaseAfter makes the lock of an owner end after rest, and announces that. It never lengthens the
	// lease. Later commands of the owner do not find the lock. Replies as those of Release.
	ReleaseAfter(owner string, rest time.Duration, publish string) lua.Call
	// Renew makes the lease of an owner last at least so long from now. Replies: Done or Gone.
	Renew(owner string, lease time.Duration) lua.Call
	// Recount sets the hold count of an owner that holds the lock. Replies: Done or Gone.
	Recount(owner string, count int, lease time.Duration) lua.Call
}

// Several is the protocol of a kind whose owners may have several permits at once.
type Several interface {
	Lock
	// RenewSeveral is Renew for an owner that has n permits. It replies Gone if the owner has fewer.
	RenewSeveral(owner string, n int, lease time.Duration) lua.Call
}

// Protocol is the whole protocol of a kind whose locks are granted by one server.
type Protocol interface {
	Lock
	// Acquire asks for a free lock. Replies: Done and the token as text, with the last one of a
	// block behind it if that was reserved, and the server's time in microseconds behind that, if
	// it is not the token; Denied, the milliseconds left to the holder, and the fields of the hash,
	// or how many they are; or Late.
	Acquire(Ask) lua.Call
	// State asks who holds the lock. Replies: Done, owner, count, milliseconds left and token; or
	// Denied and the token.
	State() lua.Call
}

// Sided is the protocol of one side of a lock that has several, such as the readers' side of a
// read-write lock. An owner has one id for all sides, and an entry of its own at each.
type Sided interface {
	Lock
	Side() string
}

// Sides are all sides: the one that every lock has, and the readers' side.
var Sides = []string{"", Reading}

// Reading is the readers' side.
const Reading = "read"

// Placer is the protocol of a kind whose scripts know the waiters.
type Placer interface {
	Protocol
	Places() Places
}

// Queuer is the protocol of a kind whose waiters have places at the server. A refusal of Acquire
// also has the values that Places decodes, Release also takes an owner's place out of the queue, and a reply to
// State ends with the number of waiters.
type Queuer interface {
	Placer
	// ReleaseRun is Release, and also removes the places of others: of owners that had the lock under this
	// owner's name, or that have left as well. If one of those holds the lock, it is released for that owner.
	ReleaseRun(owner string, others []string, publish string) lua.Call
}

// Places says how the places of waiters change the requests for a lock.
type Places struct {
	// Longest is how long a place may count after its owner has stopped asking. A client that gives one back
	// repeats that until then.
	Longest time.Duration
	// Refusal decodes the refusal of Acquire.
	Refusal func(lua.Reply) lua.Refusal
	// Clock says that a refusal has the server's time.
	Clock bool
	// Foreign is after how long at most a waiter that a client of another library blocks asks again: such
	// clients do not announce every release. Zero: when the lease ends.
	Foreign time.Duration
	// Kept is how long a place counts that an attempt took, if the kind's waiters take places by asking, and
	// keep them by asking again. A waiter that leaves gives it back by Release. Zero: they take no places.
	Kept time.Duration
}

// NoPlaces is for a protocol that is not a [Queuer].
var NoPlaces = Places{Refusal: lua.Reply.Refusal}

// HandOffProtocol is the protocol of a kind whose locks are handed off within a client.
type HandOffProtocol interface {
	Protocol
	// KeepOrRelease keeps the lock of an owner for its client's next holder, or releases it if others
	// listen for a release. Replies: Done, and the first and the last of the reserved tokens, which may be
	// fewer than were wanted; Denied if it was released, with how many listen (-1: not known), the reason as
	// text if the announcement was refused, and the longest head start in milliseconds; or Gone.
	KeepOrRelease(owner string, lease time.Duration, tokens int, publish string) lua.Call
}

// Callable is the protocol of a kind whose refusals call the client that has the lock. A letter in the
// owner's id says by which command. A refused attempt of the same client does not call it.
type Callable interface {
	HandOffProtocol
	// CallChannel is the channel on which a client is called.
	CallChannel(client string) string
}

// Neighbour is the protocol of a kind that can treat a string at its key as a lock of another library, if
// [Ask] wants that. Then a refusal has -1 in the place of the fields.
type Neighbour interface {
	Protocol
	BesideStrings()
}

// Voter is the protocol of a kind whose locks are granted by several masters together.
type Voter interface {
	Lock
	// Vote asks a master to grant the lock, or to agree to the count, the lease and the token of
	// its holder. Replies: Done, the token as text, whether the owner held it before (1
	// or 0), the last token before; or Denied, the milliseconds left to the holder, the holder, and
	// its token; and in both cases the master's time in microseconds as text; or Late and that
	// time. until is until when it may be executed, in microseconds by the master's clock.
	Vote(owner string, count int, lease time.Duration, token uint64, until int64) lua.Call
	// State asks a master for the holder. Replies as those of [Protocol].
	State() lua.Call
	// Force frees the lock at a master, and uses up a token. A holder that asks the master to restore its
	// hold learns from it that the lock was freed. The token is above seen, the greatest one that a master
	// was seen to have. Replies as those of Release.
	Force(owner, publish string, seen uint64) lua.Call
}

// Ask is one attempt to get a lock.
type Ask struct {
	Owner string
	Lease time.Duration
	Again bool // an earlier attempt of this call may have been executed
	// Place is how long a place in the server's queue is of use, for kinds that have one; 0: none is wanted.
	Place   time.Duration
	Tokens  int    // how many are wanted, for hand-offs; only a [HandOffProtocol] gives more than one
	Publish string // PUBLISH or SPUBLISH
	Count   int    // how many permits, of a kind that has several for an owner
	// Until is the time until which it may be executed, in microseconds by the server's clock.
	Until int64
	// Ticket is the one of the first refusal of this request; empty if it was not refused.
	Ticket string
	// Beside is the name by which the owner holds another side of the lock, which is not always Owner;
	// empty: it holds no other side.
	Beside string
	// HeadStart is how long other clients must yield to this one if this is refused. Ends is the longest head
	// start that is over if it is granted. Zero: none. Only a [HandOffProtocol] knows them.
	HeadStart, Ends time.Duration
	Strings         bool // a string at the key is a lock of another library. Only a [Neighbour] supports that
}

// Millis is a lease as scripts take it: whole milliseconds, rounded up so that it never becomes 0.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// TokenTTL is the time to live of the fencing token's key, in milliseconds: an hour, or twice the
// lease if that is longer. After that the server's clock alone makes the next token greater.
func TokenTTL(lease time.Duration) int64 {
	return max(time.Hour.Milliseconds(), 2*Millis(lease))
}
