package latch

import (
	"cmp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// latching is the model. Time goes in ticks.
type latching struct {
	limit    uint8             // ticks for which a request may be under way
	budget   uint8             // ticks for which a call is repeated
	count    uint8             // that is set
	stays    [maxClients]uint8 // ticks that a latch stays without a word, by client
	rest     uint8             // ticks after which a gate looks without a reason; 0: that is left out
	wishes   [maxClients]uint8 // calls of a client
	waiters  [maxWaiters]uint8 // waits of a waiter
	faults   uint8             // answers that do not come in time
	crashes  uint8
	breaks   uint8 // of the connection for messages
	leaves   uint8 // waiters who give up
	other    uint8 // calls of an undisturbed client
	redisson uint8
	untold   uint8 // deletions of which nobody is told
	off      model.Defence
	only     error // look for this violation alone
	cut      int   // requests for which the bounds had no room
}

func (m *latching) start() state {
	s := state{faults: m.faults, crashes: m.crashes, breaks: m.breaks, leaves: m.leaves, other: m.other,
		redisson: m.redisson, untold: m.untold}
	for c := range s.clients {
		s.clients[c].wishes = m.wishes[c]
	}
	for i := range s.waiters {
		s.waiters[i].wishes = m.waiters[i]
	}
	return s
}

// explore also looks whether those who wait while no latch is set can be let in from everywhere, by
// steps of their client and its connection alone.
func (m latching) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only, m.rest = off, only, cmp.Or(m.rest, model.Endless)
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Settle: m.settle, Check: m.check, Only: only, Cut: &m.cut,
	}
	if m.anyWaiter() {
		explored.Goal = m.served
	}
	return model.Explore(explored)
}

// one leaves a scenario one waiter, or one call of one client, for controls that have to see all or
// many states.
func one(m latching) latching {
	if m.anyWaiter() {
		m.waiters = each{1, 0}
	}
	if m.wishes != (each{}) {
		m.wishes = each{1, 0}
	}
	return m
}

func (m *latching) anyWaiter() bool { return m.waiters != [maxWaiters]uint8{} }

type each = [maxClients]uint8

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	repeats = latching{limit: 1, budget: 1, count: 2, stays: each{4, 4}, wishes: each{1, 2}, faults: 2, other: 1}
	calls   = latching{limit: 1, budget: 1, count: 1, stays: each{3, 3}, wishes: each{2, 1}, faults: 1, other: 2}
	dies    = latching{limit: 1, budget: 1, count: 1, stays: each{3, 3}, wishes: each{2, 2}, faults: 1, crashes: 1}
	stays   = latching{limit: 1, budget: 1, count: 3, stays: each{4, 2}, wishes: each{2, 2}, redisson: 2}
	waits   = latching{limit: 1, budget: 1, count: 1, stays: each{3, 3}, waiters: each{2, 2}, other: 4, leaves: 1}
	breaks  = latching{limit: 1, budget: 1, count: 1, stays: each{3, 3}, waiters: each{2, 1}, other: 4, breaks: 2,
		faults: 1}
	shared = latching{limit: 1, budget: 1, count: 2, stays: each{3, 3}, waiters: each{2, 1}, other: 2, redisson: 3,
		breaks: 1}
	untold = latching{limit: 1, budget: 1, count: 1, stays: each{6, 6}, rest: 2, waiters: each{1, 1}, other: 1,
		redisson: 2, untold: 1, breaks: 1}
	both = latching{limit: 1, budget: 1, count: 1, stays: each{2, 2}, wishes: each{1, 1}, faults: 1,
		waiters: each{1, 0}, other: 1}
)

// large are the bounds of this level: those for a longer look, if model.Large says so. With
// -short fewer calls are made where all of their orders are most of what there is.
func large(m latching) latching {
	if testing.Short() && m.wishes != (each{}) && m.faults > 0 {
		m.wishes, m.other, m.count = each{1, 1}, m.other-min(m.other, 1), 1
	}
	if testing.Short() && m.anyWaiter() {
		m.redisson, m.waiters[0] = min(m.redisson, 2), 1
	}
	if !model.Large() {
		return m
	}
	switch {
	case m.wishes == (each{}):
		m.other, m.breaks = m.other+1, 2*m.breaks
	case m.anyWaiter():
		m.stays = each{3, 3}
	case m.crashes > 0:
		m.faults++
	default:
		m.other++
	}
	return m
}

// TestLatchModel: in no state that can be reached is a promise broken.
func TestLatchModel(t *testing.T) {
	model.Run(t, "latch model", latching.explore, []model.Scenario[latching]{
		{"repeats", large(repeats)},
		{"calls", large(calls)},
		{"dies", large(dies)},
		{"stays", large(stays)},
		{"waits", large(waits)},
		{"breaks", large(breaks)},
		{"with Redisson", large(shared)},
		{"untold", large(untold)},
		{"waits for repeats", large(both)},
	})
}
