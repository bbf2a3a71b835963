package handoff

import (
	"cmp"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// Defences of the client; those of the scripts are the server's.
const (
	believesPass model.Defence = server.Own << iota // "not held" is not believed while a pass is under way
	handedFresh                                     // an id that was handed away from is not used again
	halfLease                                       // nothing is handed on in the second half of a lease
	passReleases                                    // a pass that released hands nothing on
	strayGrant                                      // a grant with a straggler is not handed on
	strayPass                                       // nor one whose pass has one
	leaverGives                                     // who leaves when it is handed the lock gives it back
	ownDeadline                                     // trust ends by the client's own clock
)

// command is a command under way, by its newest attempt.
type command struct {
	kind   uint8 // acquire, passing, release, recount, renewal
	at     uint8 // server.None, server.Sent, ...
	age    uint8 // ticks since it was sent
	lo, hi uint8 // tokens
	owner  uint8
	again  bool
}

// Kinds of calls and messages.
const (
	acquire uint8 = iota + 1
	recount
	release
	renewal
	undoer  // releases in the background, one after another
	passing // also what the client does then
)

// What a client does, beside passing.
const (
	idle    uint8 = iota
	trying        // wants the lock: an acquire is under way, or it was refused and waits
	holding       // its trust is at least 1
	leaving       // its last release is under way
)

// client is a process. One of its owners is in front; the others want nothing or wait behind it.
type client struct {
	mode    uint8 // idle, trying, holding, leaving or passing
	front   uint8 // the owner in front, from 1
	gens    [maxOwners]uint8
	waits   [maxOwners]bool
	wishes  [maxOwners]uint8
	listens bool  // it was refused and has subscribed
	stray   bool  // of the grant in front
	entered bool  // the holder has re-entered once
	id      uint8 // as which the server knows the owner in front; of one that was handed the lock, that of the first

	// Its tenure.
	trust uint8
	next  uint8
	last  uint8
	op    command
	renew command // the watchdog's

	try command // of an owner that does not wait for those in front
}

// retire has an id not be used again.
func (cl *client) retire(c int, id uint8) {
	for o := range uint8(maxOwners) {
		if ownerID(c, o, cl.gens[o]) == id {
			cl.gens[o]++
		}
	}
}

// message is a request that nobody waits for any more, or an undo.
type message struct {
	kind  uint8
	owner uint8
	step  uint8 // of an undo
	again bool
}

const (
	maxClients  = 2
	maxOwners   = 2
	gens        = 4
	maxMessages = 3
)

type state struct {
	wrong   model.Broken
	crashed uint32 // ids whose process died
	server.Keys
	clients [maxClients]client
	net     [maxMessages]message
	top     uint8 // the greatest token that a holder had
	full    bool  // the bounds have no room for what the step leaves behind
	faults  uint8
	crashes uint8
	tries   uint8 // that owners may still make beside the one in front
}

type steps = model.Steps[state]

// ownerID is the name of an owner; 0 is none.
func ownerID(c int, owner, gen uint8) uint8 { return (uint8(c)*maxOwners+owner)*gens + gen + 1 } //nolint:gosec // few

func clientOf(id uint8) int { return int(id-1) / (maxOwners * gens) }

func order(a, b message) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.owner, b.owner), cmp.Compare(a.step, b.step),
		model.Bit(a.again)-model.Bit(b.again))
}

// settle makes states equal that differ only in what matters to nobody any more: tokens count from
// the least that is still known, and what an unanswered or refused command does not have is zero.
func (s *state) settle() bool {
	for c := range s.clients {
		cl := &s.clients[c]
		if cl.next > cl.last {
			cl.next, cl.last = 0, 0
		}
		cl.try.age, cl.try.lo, cl.try.hi = 0, 0, 0
		for _, h := range []*command{&cl.op, &cl.renew} {
			if h.at == server.Denied || h.at == server.Gone {
				h.age = 0
			}
		}
	}
	known := []*uint8{&s.top}
	for c := range s.clients {
		cl := &s.clients[c]
		known = append(known, &cl.next, &cl.last, &cl.op.lo, &cl.op.hi)
	}
	least := s.Token
	for _, n := range known {
		if *n != 0 {
			least = min(least, *n)
		}
	}
	if least <= 1 || s.top == 0 {
		return !s.full
	}
	s.Token -= least - 1
	for _, n := range known {
		if *n != 0 {
			*n -= least - 1
		}
	}
	return !s.full
}
