package lua_test

import "cmp"

// handDefence is a set of defences of the hand-off that are switched off.
type handDefence uint32

const (
	reserved      handDefence = 1 << iota // scripts: the tokens of a block are reserved at the grant
	knownRelease                          // client: a release lists all names
	knownRecount                          // client: and so does a recount
	knownPass                             // client: and so does a pass
	knownRenew                            // client: and so does a renewal
	believesNames                         // client: "not held" for names that changed since is not believed
	believesPass                          // client: nor while a pass is under way
	idleHolder                            // client: no new name while the holder's own command is under way
	handedFresh                           // client: an id that was handed away from is not used again
	halfLease                             // client: nothing is handed on in the second half of a lease
	passReleases                          // client: a pass that released hands nothing on
	strayGrant                            // client: a grant with a straggler is not handed on
	strayPass                             // client: nor one whose pass has one
	leaverGives                           // client: who leaves when it is handed the lock gives it back
	ownDeadline                           // client: trust ends by its own clock
)

func (d handDefence) has(one handDefence) bool { return d&one != 0 }

// handCall is a command under way, by its newest attempt. It stands as a call of the other model does.
type handCall struct {
	kind    uint8 // acquire, passing, release, recount, renewal
	at      uint8
	age     uint8 // ticks since it was sent
	lo, hi  uint8 // tokens
	names   names
	name    uint8 // that a renewal gives
	changes uint8 // of the names when a renewal was made
	again   bool
}

const passing uint8 = undoer + 1 // a kind behind those of the other model, and what the client does then

// handClient is a process. One of its owners is in front; the others want nothing or wait behind it.
type handClient struct {
	mode    uint8 // idle, trying, holding, leaving or passing
	front   uint8 // the owner in front, from 1
	gens    [maxOwners]uint8
	waits   [maxOwners]bool
	wishes  [maxOwners]uint8
	listens bool  // it was refused and has subscribed
	stray   bool  // of the grant in front
	entered bool  // the holder has re-entered once
	id      uint8 // of the owner in front

	// Its tenure.
	names   names
	changes uint8
	trust   uint8
	next    uint8
	last    uint8
	op      handCall
	renews  [2]handCall // the watchdog's: a second attempt may be made beside the first
}

// handMessage is a request that nobody waits for any more, or an undo.
type handMessage struct {
	kind  uint8
	names names
	name  uint8
	step  uint8 // of an undo
	again bool
}

const (
	handClients  = 2
	maxOwners    = 2
	handGens     = 4
	handMessages = 3
)

type handState struct {
	handKeys
	clients [handClients]handClient
	net     [handMessages]handMessage // in order
	top     uint8                     // the greatest token that a holder had
	crashed uint32                    // ids whose process died
	wrong   handWrong
	faults  uint8
	late    uint8 // second attempts of a renewal that may still be made
	crashes uint8
}

// handID is the name of an owner; 0 is none.
func handID(c int, owner, gen uint8) uint8 { return (uint8(c)*maxOwners+owner)*handGens + gen + 1 } //nolint:gosec // few

func handClientOf(id uint8) int { return int(id-1) / (maxOwners * handGens) }

// put adds a message in its place; false if there is no room.
func (s *handState) put(m handMessage) bool {
	i := handMessages - 1
	if s.net[i] != (handMessage{}) {
		return false
	}
	for ; i > 0 && (s.net[i-1] == (handMessage{}) || handOrder(m, s.net[i-1]) < 0); i-- {
		s.net[i] = s.net[i-1]
	}
	s.net[i] = m
	return true
}

func (s *handState) take(i int) {
	copy(s.net[i:], s.net[i+1:])
	s.net[handMessages-1] = handMessage{}
}

func handOrder(a, b handMessage) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.names[0], b.names[0]), cmp.Compare(a.names[1], b.names[1]),
		cmp.Compare(a.name, b.name), cmp.Compare(a.step, b.step), cmp.Compare(flag(a.again), flag(b.again)))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// normal makes states equal that differ only in what matters to nobody any more: tokens count from the least that is still
// known, and what an unanswered or refused command does not have is zero.
func (s *handState) normal() {
	for c := range s.clients {
		cl := &s.clients[c]
		if cl.next > cl.last {
			cl.next, cl.last = 0, 0
		}
		if cl.renews[0].at == none && cl.renews[1].at == none {
			cl.changes = 0
		}
		for _, h := range []*handCall{&cl.op, &cl.renews[0], &cl.renews[1]} {
			if h.at == denied || h.at == gone {
				h.age = 0
			}
		}
	}
	known := []*uint8{&s.top}
	for c := range s.clients {
		cl := &s.clients[c]
		known = append(known, &cl.next, &cl.last, &cl.op.lo, &cl.op.hi)
	}
	least := uint8(min(s.token, endless)) //nolint:gosec // as said
	for _, n := range known {
		if *n != 0 {
			least = min(least, *n)
		}
	}
	if least <= 1 || s.top == 0 {
		return
	}
	s.token -= uint16(least - 1)
	for _, n := range known {
		if *n != 0 {
			*n -= least - 1
		}
	}
}
