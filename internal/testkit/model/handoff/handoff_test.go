package handoff

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hand is the model of a lock that is handed on within clients: what the plain lock's model leaves
// out for its size. Client A has two owners, and all that goes wrong happens to it; B has one, and
// is who is harmed.
type hand struct {
	lease    uint8 // ticks
	block    uint8
	wishes   [maxOwners]uint8 // of A's owners
	rival    uint8            // wishes of B's owner
	faults   uint8
	messages int
	crashes  uint8
	tries    uint8 // attempts of owners beside the one in front
	enters   bool
	leavers  bool // who is handed the lock may leave in that moment
	brief    bool // messages do not live longer than a tick
	off      model.Defence
	only     error
	cut      int
}

func (m *hand) start() state {
	s := state{faults: m.faults, tries: m.tries, crashes: m.crashes}
	s.clients[0].wishes, s.clients[1].wishes[0] = m.wishes, m.rival
	return s
}

func (m hand) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	return model.Explore(model.Model[state]{
		Start: m.start(), Next: m.next, Check: m.check, Goal: m.free, Only: only, Cut: &m.cut, Settle: (*state).settle,
	})
}

var (
	once = [maxOwners]uint8{1, 1}

	hands       = hand{lease: 3, block: 2, wishes: once, rival: 1, enters: true}
	loseReplies = hand{lease: 3, block: 2, wishes: once, rival: 1, faults: 1, messages: 1, brief: true}
	repeats     = hand{lease: 3, block: 2, wishes: [maxOwners]uint8{2, 1}, faults: 1, messages: 1}
	besides     = hand{lease: 3, block: 2, wishes: once, faults: 1, messages: 1, tries: 1}
	ending      = hand{lease: 4, block: 2, wishes: once, rival: 1, crashes: 1, leavers: true, brief: true}
)

// large are the bounds of this level: those for a longer look, if model.Large says so.
func large(m hand) hand {
	if !model.Large() {
		return m
	}
	switch {
	case m.crashes > 0:
		m.enters = true
	case m.brief:
		m.enters, m.leavers = true, true
	case m.faults > 0:
		m.messages, m.faults = 2, 2
	default:
		m.lease, m.leavers = 4, true
	}
	return m
}

// TestHandModel: in no state that can be reached is a promise broken.
func TestHandModel(t *testing.T) {
	model.Run(t, "hand-off model", hand.explore, []model.Scenario[hand]{
		{"hands", large(hands)},
		{"loses", large(loseReplies)},
		{"again", large(repeats)},
		{"besides", large(besides)},
		{"ends", large(ending)},
	})
}

// TestHandModelControls: without any one of the defences there is a way to break a promise.
func TestHandModelControls(t *testing.T) {
	model.Controls(t, "hand-off model", hand.explore, []model.Control[hand, model.Defence]{
		{"the tokens of a block are reserved at the grant", server.Reserved, hands, errToken},
		{"\"not held\" is not believed while a pass is under way", believesPass, hands, errFalse},
		{"an id that was handed away from is not used again", handedFresh, besides, errTwo},
		{"nothing is handed on in the second half of a lease", halfLease, ending, errShort},
		{"a pass that released hands nothing on", passReleases, hands, errTwo},
		{"a grant with a straggler is not handed on", strayGrant, loseReplies, errLeft},
		{"nor one whose pass has a straggler", strayPass, loseReplies, errTwo},
		{"who leaves when it is handed the lock gives it back", leaverGives, ending, errLeft},
		{"trust ends by the client's own clock", ownDeadline, hands, errTwo},
	})
}
