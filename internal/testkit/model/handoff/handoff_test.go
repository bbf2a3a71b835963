package handoff

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// Defences of the client; those of the scripts are the server's.
const (
	believesPass model.Defence = server.Own << iota // "not held" is not believed while a pass is under way
	handedFresh                                     // an id that was handed away from is not used again
	halfLease                                       // nothing is handed off in the second half of a lease
	passReleases                                    // a pass that released hands nothing on
	strayGrant                                      // a grant with a straggler is not handed off
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
	top     uint8      // the greatest token that a holder had
	full    model.Full // the bounds have no room for what the step leaves behind
	faults  uint8
	crashes uint8
	tries   uint8 // that owners may still make beside the one in front
}

type steps = model.Steps[state]

// ownerID is the name of an owner; 0 is none.
func ownerID(c int, owner, gen uint8) uint8 { return (uint8(c)*maxOwners+owner)*gens + gen + 1 } //nolint:gosec // few

func clientOf(id uint8) int { return int(id-1) / (maxOwners * gens) }

// settle evens out what no longer matters: tokens count from the least known one, and what a command does not have is zero.
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
	known := []*uint8{&s.Token, &s.top}
	for c := range s.clients {
		cl := &s.clients[c]
		known = append(known, &cl.next, &cl.last, &cl.op.lo, &cl.op.hi)
	}
	if s.top != 0 {
		model.Rebase(known)
	}
	return bool(!s.full)
}

func TestMain(m *testing.M) { leak.Main(m) }

// hand is the model within bounds. Time goes in ticks; a hold is trusted for a tick less than its lease.
type hand struct {
	lease    uint8  // ticks
	wishes   wishes // of A's owners
	rival    uint8  // wishes of B's owner
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

func (m hand) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	s := state{faults: m.faults, tries: m.tries, crashes: m.crashes}
	s.clients[0].wishes, s.clients[1].wishes[0] = m.wishes, m.rival
	return model.Explore(model.Model[state]{
		Start: s, Next: m.next, Check: m.check, Goal: m.free, Only: only, Cut: &m.cut, Settle: (*state).settle,
	})
}

type (
	wishes   = [maxOwners]uint8
	scenario = model.Scenario[hand]
)

// block is the number of tokens that a grant reserves.
const block = 2

var (
	hands       = scenario{"hands", hand{lease: 3, wishes: wishes{1, 1}, rival: 1, enters: true}}
	loseReplies = scenario{"loses", hand{lease: 3, wishes: wishes{1, 1}, rival: 1, faults: 1, messages: 1, brief: true}}
	repeats     = scenario{"again", hand{lease: 3, wishes: wishes{2, 1}, faults: 1, messages: 1}}
	besides     = scenario{"besides", hand{lease: 3, wishes: wishes{1, 1}, faults: 1, messages: 1, tries: 1}}
	ending      = scenario{"ends", hand{lease: 4, wishes: wishes{1, 1}, rival: 1, crashes: 1, leavers: true, brief: true}}
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
	model.Run(t, "hand-off model", hand.explore, large, hands, loseReplies, repeats, besides, ending)
}

// TestHandModelControls: without any one of the defences there is a way to break a promise.
func TestHandModelControls(t *testing.T) {
	model.Controls(t, "hand-off model", hand.explore, []model.Control[hand]{
		{"the tokens of a block are reserved at the grant", server.Reserved, hands, model.ErrToken},
		{"\"not held\" is not believed while a pass is under way", believesPass, hands, model.ErrFalse},
		{"an id that was handed away from is not used again", handedFresh, besides, model.ErrTwo},
		{"nothing is handed on in the second half of a lease", halfLease, ending, errShort},
		{"a pass that released hands nothing on", passReleases, hands, model.ErrTwo},
		{"a grant with a straggler is not handed on", strayGrant, loseReplies, model.ErrLeft},
		{"nor one whose pass has a straggler", strayPass, loseReplies, model.ErrTwo},
		{"who leaves when it is handed the lock gives it back", leaverGives, ending, model.ErrLeft},
		{"trust ends by the client's own clock", ownDeadline, hands, model.ErrTwo},
	})
}

// What must never be, beside what package model lists.
var errShort = model.Must.Never("the lock is handed on with less than half of the lease left")

func (m *hand) check(s *state) error {
	broken := s.wrong
	broken.If(s.clients[0].mode == holding && s.clients[1].mode == holding, model.ErrTwo)
	for c := range s.clients {
		cl := &s.clients[c]
		broken.If(cl.mode == holding && cl.id != s.Owner, model.ErrCut)
	}
	broken.If(m.brief && !s.cared(), model.ErrLeft)
	return model.Must.First(broken, m.only)
}

// cared: whoever the lock is held by uses it, or gives it back, or is dead.
func (s *state) cared() bool {
	if s.Owner == 0 || s.crashed&(1<<s.Owner) != 0 {
		return true
	}
	cl := &s.clients[clientOf(s.Owner)]
	return cl.id == s.Owner || cl.try.owner == s.Owner ||
		model.Count(s.net[:], func(r message) bool { return r.owner == s.Owner }) > 0
}

// free is the goal.
func (m *hand) free(s *state) bool {
	return s.Owner == 0 && s.net[0] == (message{}) && s.clients[0].mode == idle && s.clients[1].mode == idle &&
		s.clients[0].try.at == server.None
}

func (m *hand) next(s state, out *steps) {
	for c := range maxClients {
		m.wants(s, c, out)
		m.holds(s, c, out)
		m.renewals(s, c, out)
		m.answers(s, c, out)
		m.fails(s, c, out)
	}
	m.network(s, out)
	m.time(s, out)
}

// wants are the wishes of owners, and what who is refused does.
func (m *hand) wants(s state, c int, out *steps) {
	cl := &s.clients[c]
	for o := range uint8(maxOwners) {
		switch at := cl.front == o+1; {
		case !at && !cl.waits[o] && cl.wishes[o] > 0 && cl.try.owner != ownerID(c, o, cl.gens[o]):
			n := s
			n.clients[c].wishes[o]--
			n.clients[c].waits[o] = true
			if cl.front == 0 {
				m.advance(&n, c)
			}
			out.Loud('A'+c, "an owner wants the lock", n)
		case cl.waits[o]:
			n := s
			n.clients[c].waits[o] = false
			out.Quiet('A'+c, "has waited long enough", n)
		}
	}
	m.tryBeside(s, c, out)
	if cl.mode != trying || cl.op.at != server.None {
		return
	}
	n := s
	n.clients[c].op = command{kind: acquire, at: server.Sent, owner: cl.id, again: cl.stray}
	out.Loud('A'+c, "tries again", n)
	n = s
	m.finish(&n, c, false)
	out.Quiet('A'+c, "has waited long enough", n)
}

// tryBeside are attempts of owners that do not wait for the one in front.
func (m *hand) tryBeside(s state, c int, out *steps) {
	if s.clients[c].mode == idle || s.clients[c].try.at != server.None || !model.Spend(&s.tries) {
		return
	}
	for o := range uint8(maxOwners) {
		n := s
		cl := &n.clients[c]
		if cl.front != o+1 && !cl.waits[o] {
			cl.try = command{kind: acquire, at: server.Sent, owner: ownerID(c, o, cl.gens[o])}
			out.Loud('A'+c, "an owner tries to get it beside the one in front", n)
		}
	}
}

// advance puts whoever waits in front, to ask for the lock, or nobody.
func (m *hand) advance(s *state, c int) {
	cl := &s.clients[c]
	*cl = client{gens: cl.gens, waits: cl.waits, wishes: cl.wishes, try: cl.try}
	if m.step(cl, c) {
		cl.mode, cl.op = trying, command{kind: acquire, at: server.Sent, owner: cl.id}
	}
}

// step takes the next owner to the front.
func (m *hand) step(cl *client, c int) bool {
	for o := range uint8(maxOwners) {
		if cl.waits[o] {
			cl.waits[o], cl.front = false, o+1
			cl.id = ownerID(c, o, cl.gens[o])
			return true
		}
	}
	return false
}

// holds is what a holder does next.
func (m *hand) holds(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.mode != holding || cl.op.at != server.None {
		return
	}
	n := s
	if m.enters && !cl.entered {
		n.clients[c].entered = true
		n.clients[c].op = command{kind: recount, at: server.Sent, owner: cl.id}
		out.Loud('A'+c, "re-enters", n)
	}
	if cl.waits == [maxOwners]bool{} || cl.stray && !m.off.Has(strayGrant) ||
		cl.trust*2 <= m.lease && !m.off.Has(halfLease) {
		n = s
		m.release(&n, c)
		out.Quiet('A'+c, "unlocks and releases", n)
		return
	}
	if cl.next != 0 && cl.next <= cl.last { // 0: they are used up
		n = s
		n.wrong.If(cl.trust*2 <= m.lease, errShort)
		m.handOn(n, c, out)
	}
	n = s
	n.clients[c].mode = passing
	n.clients[c].op = command{kind: passing, at: server.Sent, owner: cl.id}
	out.Quiet('A'+c, "unlocks and passes", n)
}

// release begins the last unlock's release: the watch is over.
func (m *hand) release(s *state, c int) {
	cl := &s.clients[c]
	m.forget(s, c)
	cl.mode, cl.op = leaving, command{kind: release, at: server.Sent, owner: cl.id}
}

// forget ends the watch: what comes back of renewals is nobody's.
func (m *hand) forget(s *state, c int) {
	cl := &s.clients[c]
	m.abandon(s, cl.renew)
	cl.renew, cl.trust = command{}, 0
}

// handOn makes the one who waits the holder; the second way is that it leaves in that moment.
func (m *hand) handOn(s state, c int, out *steps) {
	cl := &s.clients[c]
	id := cl.id
	if !m.off.Has(handedFresh) {
		cl.retire(c, cl.id)
	}
	if !m.step(cl, c) {
		return
	}
	cl.mode, cl.entered, cl.stray, cl.id = holding, false, false, id // a straggler is the one's before
	m.gets(&s, c, cl.next)
	cl.next++
	out.Quiet('A'+c, "hands the lock on", s)
	if m.leavers {
		if m.off.Has(leaverGives) {
			m.forget(&s, c)
			m.advance(&s, c)
		} else {
			m.giveBack(&s, c, undoLast)
		}
		out.Quiet('A'+c, "hands the lock on to one who leaves", s)
	}
}

// gets gives the holder its token.
func (m *hand) gets(s *state, c int, token uint8) {
	s.wrong.If(token <= s.top, model.ErrToken)
	s.top = max(s.top, token)
}

// finish ends the grant in front. With a straggler it is undone.
func (m *hand) finish(s *state, c int, undo bool) {
	if undo || s.clients[c].stray {
		m.giveBack(s, c, 1)
		return
	}
	m.forget(s, c)
	m.abandon(s, s.clients[c].op)
	m.advance(s, c)
}

// giveBack ends the grant in front with releases in the background from that step of an undo on.
func (m *hand) giveBack(s *state, c int, step uint8) {
	cl := &s.clients[c]
	m.forget(s, c)
	m.abandon(s, cl.op)
	id := cl.id
	cl.retire(c, id)
	m.advance(s, c)
	m.undo(s, id, step)
}

// renewals are what the watchdog sends.
func (m *hand) renewals(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.mode != holding && cl.mode != passing || cl.trust >= m.lease-1 || cl.renew.at != server.None {
		return
	}
	cl.renew = command{kind: renewal, at: server.Sent, owner: cl.id}
	out.Loud('A'+c, "renews", s)
}
