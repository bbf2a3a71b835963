package plain

import "cmp"

// defence is a set of defences that are switched off.
type defence uint32

const (
	// In the scripts.
	againFlag    defence = 1 << iota // acquire: a repeated attempt gets the outcome of the first
	againKeeps                       // acquire: a repeated attempt never shortens
	absolute                         // recount: counts are absolute
	releaseOwner                     // release: only by the owner
	renewOwner                       // renew: only of the owner's
	renewExists                      // renew: never brings the key back
	renewKeeps                       // renew: never shortens
	leaseOfGrant                     // acquire: a grant has a time to live
	clockToken                       // acquire: a token is no less than the clock
	lastToken                        // acquire: a token is greater than the last
	lateness                         // acquire: one that comes late refuses itself

	// In the client.
	fromSending  // trust is counted from the sending, not from the reply
	deadline     // trust ends by the client's own clock
	freshOwner   // an owner id with a straggler is not used again
	freshUndo    // nor is one that is being undone
	againWaiting // a waiter with a straggler says so in its next attempts
	undoDenied   // a refusal after a straggler is followed by an undo
	undo         // what was left is undone
	undoAgain    // and again, for the straggler that comes after the first time
)

func (d defence) has(one defence) bool { return d&one != 0 }

// How a call stands. Behind sent come the answers of the server that have not reached the client.
const (
	none uint8 = iota
	sent
	done
	denied
	gone
)

// call is an operation of a client that is under way, by its newest attempt.
type call struct {
	kind  uint8 // of message
	at    uint8 // none, sent, ...
	count uint8 // of a recount
	lease uint8
	age   uint8 // ticks since it was sent
	token uint8 // of a grant
	again bool  // an earlier attempt may have been executed
}

// What a client does.
const (
	idle    uint8 = iota
	trying        // wants the lock: an acquire is under way, or it was refused and waits
	holding       // holds is at least 1, and so is trust
	leaving       // its last release is under way
)

// client is a process with one owner.
type client struct {
	mode   uint8
	gen    uint8 // number of its owner id
	holds  uint8
	trust  uint8 // ticks until the hold cannot be trusted any more
	lease  uint8 // of renewals
	token  uint8
	wishes uint8 // how often it may still want the lock
	stray  bool  // a message with its owner id may still arrive
	long   bool  // it has extended its lease once
	op     call
	renew  call // the watchdog's
}

// message is a request that nobody waits for any more, or work in the background. Zero: none.
type message struct {
	kind  uint8
	id    uint8
	count uint8 // of a recount; step of an undo; aged, of an acquire that is late
	lease uint8
	again bool
}

// Kinds of calls and messages.
const (
	acquire uint8 = iota + 1
	recount
	release
	renewal
	reentry // these are recounts of a client's own, for their different ends
	unlock
	settle
	extend
	late   // an acquire whose caller left, and whose answer is waited for in the background
	undoer // releases in the background, one after another
)

const (
	maxClients  = 3
	maxMessages = 4
	gens        = 4 // owner ids of one client
)

// state is all there is at one moment.
type state struct {
	keys
	clients [maxClients]client
	net     [maxMessages]message // in order, so that bags that are equal are equal
	top     uint8                // the greatest token ever granted
	crashed uint16               // owner ids whose process died
	wrong   wrong                // what a step did that it must not
	dirty   bool                 // a straggler wrote the count last
	faults  uint8                // that may still come: lost and late messages
	leaves  uint8                // callers that may still give up
	crashes uint8                // processes that may still die
	loss    uint8                // rollbacks of the server that may still come: lost keys or a clock set back
}

// id is the name of a client's owner in the hash.
func id(c int, gen uint8) uint8 { return uint8(c)*gens + gen + 1 } //nolint:gosec // few

func ownerOf(id uint8) (c int, gen uint8) { return int(id-1) / gens, (id - 1) % gens }

// put adds a message in its place; false if there is no room.
func (s *state) put(m message) bool {
	if s.net[maxMessages-1] != (message{}) {
		return false
	}
	i := maxMessages - 1
	for ; i > 0 && (s.net[i-1] == (message{}) || order(m, s.net[i-1]) < 0); i-- {
		s.net[i] = s.net[i-1]
	}
	s.net[i] = m
	return true
}

// take removes the i-th message.
func (s *state) take(i int) {
	copy(s.net[i:], s.net[i+1:])
	s.net[maxMessages-1] = message{}
}

// background tells work that is under way from requests that were given up.
func (r message) background() bool { return r.kind == undoer || r.kind == late }

// stragglers counts the requests that were given up and may still arrive.
func (s *state) stragglers() int {
	n := 0
	for _, r := range s.net {
		if r != (message{}) && !r.background() {
			n++
		}
	}
	return n
}

func order(a, b message) int {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), cmp.Compare(a.count, b.count),
		cmp.Compare(a.lease, b.lease), flag(a.again)-flag(b.again))
}
