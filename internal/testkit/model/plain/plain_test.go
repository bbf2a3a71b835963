package plain

import (
	"cmp"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// Defences of the client; those of the scripts are the server's.
const (
	fromSending  model.Defence = server.Own << iota // trust is counted from the sending, not from the reply
	deadline                                        // trust ends by the client's own clock
	freshOwner                                      // an owner id with a straggler is not used again
	freshUndo                                       // nor is one that is being undone
	againWaiting                                    // a waiter with a straggler says so in its next attempts
	undoDenied                                      // a refusal after a straggler is followed by an undo
	undo                                            // what was left is undone
	undoAgain                                       // and again, for the straggler that comes after the first time
)

// call is an operation of a client that is under way, by its newest attempt.
type call struct {
	kind  uint8 // of message
	at    uint8 // server.None, server.Sent, ...
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
	wrong   model.Broken
	crashed uint16 // owner ids whose process died
	server.Keys
	clients [maxClients]client
	net     [maxMessages]message
	top     uint8      // the greatest token ever granted
	dirty   bool       // a straggler wrote the count last
	full    model.Full // the bounds have no room for what the step leaves behind
	faults  uint8      // that may still come: lost and late messages
	leaves  uint8      // callers that may still give up
	crashes uint8      // processes that may still die
	loss    uint8      // rollbacks of the server that may still come: lost keys or a clock set back
}

type steps = model.Steps[state]

// id is the name of a client's owner in the hash.
func id(c int, gen uint8) uint8 { return uint8(c)*gens + gen + 1 } //nolint:gosec // few

func ownerOf(id uint8) (c int, gen uint8) { return int(id-1) / gens, (id - 1) % gens }

// background tells work that is under way from requests that were given up.
func (r message) background() bool { return r.kind == undoer || r.kind == late }

// works tells work of a client.
func (r message) works(c int) bool {
	owner, _ := ownerOf(r.id)
	return owner == c && r.background()
}

func TestMain(m *testing.M) { leak.Main(m) }

// lock is the model within bounds. Its network loses, delays and reorders what was sent on different
// connections. A request arrives twice only because its client sent it twice, for that is what TCP and
// commands that refuse go-redis's retries leave possible.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease.
// Processes are always scheduled: a client notices in the same tick that its trust is over.
type lock struct {
	clients     int   // default 2
	frail       int   // how many of them meet faults, leave and die, default 1; the others want the lock once
	messages    int   // that were given up and may still arrive, at a time; default 1
	lease, long uint8 // ticks: of a grant, and of one that was extended; default: nobody does that
	depth       uint8 // of re-entries; default 1
	wishes      uint8 // locks that a frail client wants, one after another
	faults      uint8 // answers that do not come in time
	leavers     uint8 // callers that leave while their command is under way
	crashes     uint8
	losses      uint8 // of the server's keys, or of its time
	renews      bool  // there is a watchdog
	brief       bool  // of late messages only those that may take the lock arrive
	off         model.Defence
	only        error // look for this violation alone
	cut         int   // messages for which the bounds had no room
}

func (m *lock) start() state {
	s := state{faults: m.faults, leaves: m.leavers, crashes: m.crashes, loss: m.losses}
	if m.losses > 0 {
		s.Clock = 2 * clockStep
	}
	for c := range m.clients {
		if s.clients[c].wishes = 1; c < m.frail {
			s.clients[c].wishes = m.wishes
		}
	}
	return s
}

// explore also looks whether the lock can become free from everywhere, by arrivals, losses, answers, unlocks and time, without
// a fault, a renewal or a new wish. The longest lease bounds that, with the few messages that still lengthen it.
func (m lock) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	m.clients, m.frail, m.messages = cmp.Or(m.clients, 2), cmp.Or(m.frail, 1), cmp.Or(m.messages, 1)
	m.long, m.depth = cmp.Or(m.long, m.lease), cmp.Or(m.depth, 1)
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Check: m.check, Only: only, Cut: &m.cut,
		Settle: func(s *state) bool { return bool(!s.full) },
	}
	if m.losses == 0 {
		explored.Goal = m.free
	}
	return model.Explore(explored)
}

type scenario = model.Scenario[lock]

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	reenters = scenario{"re-enters", lock{renews: true, lease: 3, depth: 2, wishes: 1, faults: 1}}
	extends  = scenario{"extends", lock{renews: true, lease: 2, long: 4, wishes: 1, faults: 2}}
	leaves   = scenario{"leaves", lock{messages: 2, lease: 2, wishes: 2, faults: 1, leavers: 1, brief: true}}
	dies     = scenario{"dies", lock{renews: true, lease: 3, wishes: 2, crashes: 1}}
	three    = scenario{"three clients", lock{clients: 3, renews: true, lease: 2, wishes: 1, faults: 1}}
	forgets  = scenario{"server forgets", lock{lease: 2, wishes: 2, losses: 1}}
)

// large are the bounds of this level. By model.Large both clients are frail, more goes wrong and leases are longer.
func large(m lock) lock {
	if !model.Large() {
		return m
	}
	if m.losses > 0 {
		m.frail = 2
		return m
	}
	if m.clients == 0 && m.long == 0 && m.wishes == 1 {
		m.frail = 2
	}
	m.messages = max(m.messages, 2)
	m.lease, m.long = max(m.lease, 3), max(m.long, 3)
	if m.crashes > 0 {
		m.faults = 1
	}
	return m
}

// TestModel: in no state that can be reached is a promise broken.
func TestModel(t *testing.T) {
	model.Run(t, "model", lock.explore, large, reenters, extends, leaves, dies, three, forgets)
}

// TestModelControls: without any one of the defences there is a way to break a promise.
func TestModelControls(t *testing.T) {
	model.Controls(t, "model", lock.explore, []model.Control[lock]{
		{"acquire: a repeated attempt gets the outcome of the first", server.AgainFlag, reenters, model.ErrItself},
		{"acquire: a repeated attempt never shortens", server.AgainKeeps, extends, model.ErrCut},
		{"acquire: a grant has a time to live", server.GrantEnds, reenters, model.ErrEndless},
		{"the same, when a process dies", server.GrantEnds, dies, model.ErrStuck},
		{"acquire: a token is no less than the clock", server.ClockToken, forgets, model.ErrToken},
		{"acquire: a token is greater than the last", server.LastToken, forgets, model.ErrToken},
		{"acquire: one that comes late refuses itself", server.Lateness, leaves, model.ErrLeft},
		{"recount: counts are absolute", server.Absolute, reenters, errCount},
		{"release: by the owner only", server.ReleaseOwner, reenters, model.ErrCut},
		{"renew: by the owner only", server.RenewOwner, reenters, model.ErrAnothers},
		{"renew: never brings back", server.RenewExists, reenters, model.ErrBack},
		{"renew: never shortens", server.RenewKeeps, extends, model.ErrCut},
		{"client: trust counts from the sending", fromSending, reenters, model.ErrTwo},
		{"client: trust ends by its own clock", deadline, reenters, model.ErrTwo},
		{"client: an owner id with a straggler is not used again", freshOwner | freshUndo | undo, leaves, model.ErrCut},
		{"client: nor is one that is being undone", freshUndo, leaves, model.ErrCut},
		{"client: a waiter with a straggler says so", againWaiting, reenters, model.ErrItself},
		{"client: what may be left is undone", undo, leaves, model.ErrLeft},
		{"client: also after a refusal", undoDenied, leaves, model.ErrLeft},
		{"client: and undone again", undoAgain, leaves, model.ErrLeft},
	})
}

// What must never be, beside what package model lists.
var (
	errCount = model.Must.Never("the server's hold count is not the holder's")
)

// check is what is wrong with a state. Where keys are lost there is a promise about tokens alone.
func (m *lock) check(s *state) error {
	broken := s.wrong
	if m.losses > 0 {
		return model.Must.First(broken.Only(model.ErrToken), m.only)
	}
	broken.If(s.Owner != 0 && (s.TTL == 0 || s.TTL > m.long), model.ErrEndless)
	holders := 0
	for c := range m.clients {
		cl := &s.clients[c]
		if cl.mode != holding {
			continue
		}
		holders++
		broken.If(s.Owner != id(c, cl.gen), model.ErrCut)
		broken.If(cl.op.at == server.None && !s.dirty && s.Count != cl.holds, errCount)
		broken.If(s.Token != cl.token, model.ErrHolders)
	}
	broken.If(holders > 1, model.ErrTwo)
	broken.If(m.brief && !m.cared(s), model.ErrLeft)
	return model.Must.First(broken, m.only)
}

// cared: somebody cares for the held lock, however late requests arrive. Harmless ones are lost when late, for their room.
func (m *lock) cared(s *state) bool {
	if s.Owner == 0 || s.crashed&(1<<s.Owner) != 0 {
		return true
	}
	c, gen := ownerOf(s.Owner)
	return s.clients[c].gen == gen && s.clients[c].mode != idle ||
		model.Count(s.net[:], func(r message) bool { return r.id == s.Owner }) > 0
}

// free is the goal: the lock is free, and nobody does anything.
func (m *lock) free(s *state) bool {
	busy := slices.ContainsFunc(s.clients[:], func(cl client) bool { return cl.mode != idle })
	return !busy && s.Owner == 0 && s.net[0] == (message{})
}
