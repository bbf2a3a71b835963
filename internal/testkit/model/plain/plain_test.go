package plain

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

func TestMain(m *testing.M) { leak.Main(m) }

// lock is the model of a lock: what the scripts do to its keys, what clients do when answers come,
// come late or do not come, and a network that loses, delays and reorders what was sent on
// different connections. A request arrives twice only because its client sent it twice, for that is
// what TCP and commands that refuse go-redis's retries leave possible.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease.
// Processes are always scheduled: a client notices in the same tick that its trust is over. The
// fields are the bounds.
type lock struct {
	clients     int
	frail       int   // how many of them meet faults, leave and die; the others do not, and want the lock once
	messages    int   // that were given up and may still arrive, at a time
	lease, long uint8 // ticks: of a grant, and of one that was extended
	depth       uint8 // of re-entries
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

// explore also looks whether the lock can become free from everywhere: by messages that arrive or
// are lost, answers that come, unlocks and time, without a fault, a renewal or a new wish. Since no
// time to live is longer than the longest lease, and nothing lengthens one then but the few
// messages still under way, that is bounded by a lease.
func (m lock) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Check: m.check, Only: only, Cut: &m.cut,
		Settle: func(s *state) bool { return !s.full },
	}
	if m.losses == 0 {
		explored.Goal = m.free
	}
	return model.Explore(explored)
}

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	reenters = lock{clients: 2, frail: 1, renews: true, messages: 1, lease: 3, long: 3, depth: 2, wishes: 1, faults: 1}
	extends  = lock{clients: 2, frail: 1, renews: true, messages: 1, lease: 2, long: 4, depth: 1, wishes: 1, faults: 2}
	leaves   = lock{clients: 2, frail: 1, messages: 2, lease: 2, long: 2, depth: 1, wishes: 2, faults: 1, leavers: 1,
		brief: true}
	dies    = lock{clients: 2, frail: 1, renews: true, messages: 1, lease: 3, long: 3, depth: 1, wishes: 2, crashes: 1}
	three   = lock{clients: 3, frail: 1, renews: true, messages: 1, lease: 2, long: 2, depth: 1, wishes: 1, faults: 1}
	forgets = lock{clients: 2, frail: 1, messages: 1, lease: 2, long: 2, depth: 1, wishes: 2, losses: 1}
)

// large are the bounds of this level. Those for a longer look, if model.Large says so, have both clients
// frail, more of what goes wrong, longer leases.
func large(m lock) lock {
	if !model.Large() {
		return m
	}
	if m.losses > 0 {
		m.frail = 2
		return m
	}
	if m.clients == 2 && m.long == m.lease && m.wishes == 1 {
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
	model.Run(t, "model", lock.explore, []model.Scenario[lock]{
		{"re-enters", large(reenters)},
		{"extends", large(extends)},
		{"leaves", large(leaves)},
		{"dies", large(dies)},
		{"three clients", large(three)},
		{"server forgets", large(forgets)},
	})
}

// TestModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestModelControls(t *testing.T) {
	model.Controls(t, "model", lock.explore, []model.Control[lock, model.Defence]{
		{"acquire: a repeated attempt gets the outcome of the first", server.AgainFlag, reenters, errItself},
		{"acquire: a repeated attempt never shortens", server.AgainKeeps, extends, errCut},
		{"acquire: a grant has a time to live", server.GrantEnds, reenters, errEndless},
		{"the same, when a process dies", server.GrantEnds, dies, model.ErrStuck},
		{"acquire: a token is no less than the clock", server.ClockToken, forgets, errToken},
		{"acquire: a token is greater than the last", server.LastToken, forgets, errToken},
		{"acquire: one that comes late refuses itself", server.Lateness, leaves, errLeft},
		{"recount: counts are absolute", server.Absolute, reenters, errCount},
		{"release: by the owner only", server.ReleaseOwner, reenters, errCut},
		{"renew: by the owner only", server.RenewOwner, reenters, errAnothers},
		{"renew: never brings back", server.RenewExists, reenters, errBack},
		{"renew: never shortens", server.RenewKeeps, extends, errCut},
		{"client: trust counts from the sending", fromSending, reenters, errTwo},
		{"client: trust ends by its own clock", deadline, reenters, errTwo},
		{"client: an owner id with a straggler is not used again", freshOwner | freshUndo | undo, leaves, errCut},
		{"client: nor is one that is being undone", freshUndo, leaves, errCut},
		{"client: a waiter with a straggler says so", againWaiting, reenters, errItself},
		{"client: what may be left is undone", undo, leaves, errLeft},
		{"client: also after a refusal", undoDenied, leaves, errLeft},
		{"client: and undone again", undoAgain, leaves, errLeft},
	})
}
