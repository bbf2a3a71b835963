package latch

import (
	"cmp"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

const (
	// In the scripts.
	countOnce   model.Defence = 1 << iota // count: a repeat counts nothing
	setAgain                              // set: a repeat gets the reply of the first
	deleteAgain                           // delete: a repeat takes nothing away that was set since
	idleKept                              // all: a call that found nothing to do is remembered too
	keptLong                              // all: for as long as repeats may come
	lateness                              // all: one that comes later than that refuses itself
	setOnce                               // set: a latch that is set is left as it is
	tellsZero                             // count: the last one is announced
	tellsDelete                           // delete: it is announced
	staySet                               // set: a latch has an end
	stayCount                             // count: which is put off
	stayLonger                            // count: and never brought nearer
	stayForeign                           // count: one of Redisson's has none, and gets none

	// In the client.
	freshCall  // each call has an id of its own
	hears      // a message makes the gate look
	looksFirst // it looks again when it listens
	looksAgain // and when it listens again
	looksEnd   // and when the latch would have ended
	looksRest  // and every half minute
	kicks      // and for those who join
	ownLook    // a look that was begun before says nothing to those
)

const (
	maxClients = 2
	perClient  = 2
	maxCalls   = maxClients * perClient
	maxWaiters = 2
)

// Kinds of calls.
const (
	set uint8 = iota + 1
	count
	remove
	kinds
)

var kindTexts = [kinds]string{set: "sets the latch", count: "counts down", remove: "deletes the latch"}

// request is one attempt of a call. Zero: none.
type request struct {
	kind uint8
	call uint8 // number
	id   uint8 // by which the server remembers the call
	age  uint8 // ticks since it was sent
}

// How a call stands.
const (
	none uint8 = iota
	sent
	answered
)

// client is a process that calls.
type client struct {
	wishes uint8   // calls that it may still begin
	begun  uint8   // calls
	at     uint8   // none, sent, answered
	op     request // the newest attempt
	age    uint8   // ticks since the first one
	said   uint8   // the reply
}

// What has become of a call that is known to those who check.
const (
	pending  uint8 = iota
	returned       // its caller has the answer
	unsure         // its caller knows nothing, or has died
)

// fate is what a call has done.
type fate struct {
	effects uint8
	idle    bool // it has found nothing to do once
	end     uint8
}

// Where a client's messages arrive.
const (
	off    uint8 = iota // nowhere
	on                  // at a connection of which it does not know yet
	heard               // at the client
	broken              // nowhere, and it does not know yet
)

// What a gate does.
const (
	closed  uint8 = iota // nobody waits, and nothing goes on
	looking              // a look is on its way to the server
	looked               // and back
	asleep
)

// gate looks for those of a client who wait.
type gate struct {
	at    uint8
	left  uint8 // the answer of a look
	lasts uint8
	timer uint8 // ticks until it looks without a reason, while it sleeps
	wake  bool  // the token of the subscription
	come  bool  // the token of those who join and leave
	link  uint8
	anew  bool // it was subscribed before
	mail  bool // a message is on its way
}

// waiter is one call of Wait.
type waiter struct {
	wishes uint8
	waits  bool
	some   bool // the look under way is for it too
	opened bool // since it came there was a moment in which no latch was set
}

type state struct {
	wrong model.Broken
	keys
	due     uint8 // ticks for which the latch lasts at least, by the words that were heard
	foreign bool  // it was set by Redisson

	clients [maxClients]client
	net     [2]request // that nobody waits for, in order
	fates   [maxCalls]fate
	gate    gate
	waiters [maxWaiters]waiter

	// What may still come.
	faults, crashes, breaks, leaves, other, redisson, untold uint8
}

type steps = model.Steps[state]

func order(a, b request) int {
	return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.age, b.age), cmp.Compare(a.kind, b.kind))
}

// settle drops what no later step depends on.
func (m *latching) settle(s *state) bool {
	if s.count == 0 {
		for i := range s.waiters {
			s.waiters[i].opened = s.waiters[i].waits
		}
		s.due, s.foreign = 0, false
	}
	for i := range s.fates {
		call := uint8(i) //nolint:gosec // few
		if s.fates[i].end == pending || model.Count(s.net[:], func(r request) bool { return r.call == call }) > 0 {
			continue
		}
		s.fates[i] = fate{}
		if !m.off.Has(freshCall) { // nobody asks for it any more
			s.calls[i] = memory{}
		}
	}
	return true
}
