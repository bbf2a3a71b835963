package latch

import "cmp"

// defence is a set of defences that are switched off.
type defence uint32

const (
	// In the scripts.
	countOnce   defence = 1 << iota // count: a repeat counts nothing
	setAgain                        // set: a repeat gets the reply of the first
	deleteAgain                     // delete: a repeat takes nothing away that was set since
	idleKept                        // all: a call that found nothing to do is remembered too
	keptLong                        // all: for as long as repeats may come
	lateness                        // all: one that comes later than that refuses itself
	setOnce                         // set: a latch that is set is left as it is
	tellsZero                       // count: the last one is announced
	tellsDelete                     // delete: it is announced
	staySet                         // set: a latch has an end
	stayCount                       // count: which is put off
	stayLonger                      // count: and never brought nearer
	stayForeign                     // count: one of Redisson's has none, and gets none

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

func (d defence) has(one defence) bool { return d&one != 0 }

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
	keys
	due     uint8 // ticks for which the latch lasts at least, by the words that were heard
	foreign bool  // it was set by Redisson

	clients [maxClients]client
	net     [2]request // that nobody waits for, in order
	fates   [maxCalls]fate
	gate    gate
	waiters [maxWaiters]waiter
	wrong   wrong

	// What may still come.
	faults, crashes, breaks, leaves, other, redisson, untold uint8
}

// put leaves a request to the network; false if there is no room.
func (s *state) put(r request) bool {
	if s.net[1] != (request{}) {
		return false
	}
	s.net[1] = r
	s.sortNet()
	return true
}

func (s *state) take(i int) {
	s.net[i] = request{}
	s.sortNet()
}

func (s *state) sortNet() {
	x, y := s.net[0], s.net[1]
	if x == (request{}) || y != (request{}) &&
		cmp.Or(cmp.Compare(y.call, x.call), cmp.Compare(y.age, x.age), cmp.Compare(y.kind, x.kind)) < 0 {
		s.net[0], s.net[1] = y, x
	}
}

// settle drops what no later step depends on.
func (s *state) settle(m *latching) {
	if s.count == 0 {
		for i := range s.waiters {
			s.waiters[i].opened = s.waiters[i].waits
		}
		s.due, s.foreign = 0, false
	}
	for i := range s.fates {
		call := uint8(i) //nolint:gosec // few
		if s.fates[i].end == pending || s.net[0].call == call && s.net[0].kind != 0 ||
			s.net[1].call == call && s.net[1].kind != 0 {
			continue
		}
		s.fates[i] = fate{}
		if !m.off.has(freshCall) { // nobody asks for it any more
			s.calls[i] = memory{}
		}
	}
}
