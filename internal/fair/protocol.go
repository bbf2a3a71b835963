package fair

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const (
	// Claim is the lease with which the lock is handed to a waiter: long enough for the message and
	// the first renewal, even on a busy machine. A waiter that died unnoticed costs no more than
	// that.
	Claim = 2 * time.Second
	// Place is how long a place counts without a command from its client.
	Place = 15 * time.Second
	// longestPlace is longer than any place counts. A place behind Redisson's waiters may count for
	// hours.
	longestPlace = 24 * time.Hour
)

// QueueProtocol is the protocol of a kind with such a queue. [Protocol] is one. A kind with scripts of
// its own embeds it.
type QueueProtocol interface {
	kind.Queuer
	// Mailbox, Join and Poll are those of [Protocol].
	Mailbox(of string) string
	Join(waiting []Waiting, publish string, until int64) lua.Call
	Poll(client, publish string, waiting []Waiting) lua.Call
}

// Waiting is a place that a poll keeps: its owner, and for how long from now on it is of use.
type Waiting struct {
	Owner string
	Use   time.Duration
}

// Protocol has a lock's keys and makes the calls of its scripts.
type Protocol struct {
	kind.Plain
	kind             string
	queue, deadlines any // keys, boxed once like those of [kind.Plain]
}

var _ QueueProtocol = (*Protocol)(nil)

// places is the result of [kind.Queuer.Places].
var places = kind.Places{Longest: longestPlace, Refusal: lua.Reply.QueueRefusal, Clock: true}

// NewProtocol is for the lock called name of a kind.
func NewProtocol(ofKind, name string) *Protocol {
	p := &Protocol{Plain: kind.NewPlain(name), kind: ofKind}
	p.queue, p.deadlines = p.Keys.Queue, p.Keys.Deadlines
	return p
}

// Kind is [kind.Lock.Kind].
func (p *Protocol) Kind() string { return p.kind }

// Boxed once, like the keys.
var (
	claimMillis any = Claim.Milliseconds()
	placeMillis any = Place.Milliseconds()
	noPlace     any = 0
	// keepMillis is the time to live of the token's key where no lease is known. Renewals make it
	// longer if necessary.
	keepMillis any = kind.TokenTTL(0)
)

// Behind appends places to some arguments. Before the places that count for the same time stands that time.
func Behind(waiting []Waiting, args ...any) []any {
	var last any
	for _, w := range waiting {
		if use := PlaceMillis(w.Use); use != last {
			args, last = append(args, use), use
		}
		args = append(args, w.Owner)
	}
	return args
}

// PlaceMillis is how long a place counts, in milliseconds, if it is of use for so long.
func PlaceMillis(use time.Duration) any {
	switch {
	case use <= 0:
		return noPlace
	case use >= Place:
		return placeMillis
	}
	return max(use.Milliseconds(), 1)
}

// Places is [kind.Queuer.Places].
func (p *Protocol) Places() kind.Places { return places }

// Mailbox is the channel for messages to the waiters of a client. For an owner's name it is the
// channel on which Redisson calls that owner. A message has the owner without its client, the
// token, the time of the grant in microseconds, the length of the claim in milliseconds, and the
// others of the run, without their client.
func (p *Protocol) Mailbox(of string) string { return p.Keys.Mailbox(of) }

// Acquire is [kind.Protocol.Acquire].
func (p *Protocol) Acquire(a kind.Ask) lua.Call {
	lease, ttl := p.Lease(a.Lease)
	return lua.FairAcquire.Call(p.Hash, p.Token, p.queue, p.deadlines, p.Releases,
		a.Owner, lease, ttl, kind.Flag(a.Again), PlaceMillis(a.Place), claimMillis, kind.Publish(a.Publish), a.Until)
}

// Join asks for places for waiters that have none yet. See fair_join.lua.
func (p *Protocol) Join(waiting []Waiting, publish string, until int64) lua.Call {
	args := make([]any, 0, 9+2*len(waiting))
	args = append(args, p.Hash, p.Token, p.queue, p.deadlines, p.Releases, until, claimMillis, kind.Publish(publish), keepMillis)
	return lua.FairJoin.Call(Behind(waiting, args...)...)
}

// Release is [kind.Lock.Release].
func (p *Protocol) Release(owner, publish string) lua.Call { return p.ReleaseRun(owner, nil, publish) }

// ReleaseRun is [kind.Queuer.ReleaseRun].
func (p *Protocol) ReleaseRun(owner string, served []string, publish string) lua.Call {
	return lua.FairRelease.Call(kind.Behind(served, p.Hash, p.Token, p.queue, p.deadlines, p.Releases, owner,
		kind.Publish(publish), claimMillis, keepMillis)...)
}

// ReleaseAfter is [kind.Lock.ReleaseAfter].
func (p *Protocol) ReleaseAfter(owner string, rest time.Duration, publish string) lua.Call {
	return lua.LeaveQueue.Call(p.Hash, p.Releases, p.queue, owner, kind.Millis(rest), kind.Publish(publish))
}

// State is [kind.Protocol.State].
func (p *Protocol) State() lua.Call {
	return lua.FairState.Call(p.Hash, p.Token, p.queue, p.deadlines, p.Releases)
}

// Poll keeps the places of live waiters from ending. Replies: Done, milliseconds left to the
// holder, the server's time, the holder, the owner in front if Redisson will call it, how many
// listen on the client's mailbox (-1: not known), 1 if several other clients are in front of all
// places of this client, and the owners that have no place.
func (p *Protocol) Poll(client, publish string, waiting []Waiting) lua.Call {
	return lua.FairPoll.Call(Behind(waiting, p.Hash, p.Token, p.queue, p.deadlines, p.Releases, client, publish,
		claimMillis, keepMillis)...)
}
