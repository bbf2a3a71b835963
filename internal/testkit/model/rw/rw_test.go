package rw

import (
	"cmp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// rwlock is the model within bounds. Its network loses, delays and reorders what was sent on different
// connections.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease.
// Processes are always scheduled: a client notices in the same tick that its trust is over.
type rwlock struct {
	clients  int                      // default 2
	frail    int                      // how many of them meet faults, leave and die; default 1
	wishes   [maxClients][sides]uint8 // how often each wants to write, and to read
	leases   [maxClients]uint8        // ticks
	long     uint8                    // a lease that was extended; 0: nobody does that
	place    uint8                    // for how long that of a writer counts, ticks
	rest     uint8                    // for how long a lock stays taken whose writer unlocks it; 0: it is free
	depth    uint8                    // of re-entries
	messages int                      // that were given up and may still arrive, at a time; default 1
	faults   uint8                    // answers that do not come in time
	leavers  uint8
	crashes  uint8
	breaks   uint8 // of subscriptions
	losses   uint8 // of the server's keys, or of its time
	forces   uint8
	renews   bool // there is a watchdog
	brief    bool // of late requests only those that may take the lock arrive later than a tick
	still    bool // no time passes: who waits is helped by messages alone
	off      model.Defence
	only     error // look for this violation alone
	cut      int   // messages for which the bounds had no room
}

func (m *rwlock) start() state {
	s := state{
		faults: m.faults, leaves: m.leavers, crashes: m.crashes, breaks: m.breaks, losses: m.losses, forces: m.forces,
	}
	if m.losses > 0 {
		s.clock = 2 * clockStep
	}
	for c := range m.clients {
		s.clients[c].wishes = m.wishes[c]
	}
	return s
}

// explore also looks whether everybody who waits can be granted the lock from everywhere, and all
// can come to rest: by answers and messages, attempts, unlocks and time, without a fault, a renewal
// or a new wish.
func (m rwlock) explore(off model.Defence, only error) (model.Report, error) {
	m = bounded(m)
	m.off, m.only = off, only
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Check: m.check, Only: only, Cut: &m.cut,
		Settle: func(s *state) bool { return bool(!s.full) },
	}
	if m.losses == 0 {
		explored.Goal = m.free
	}
	return model.Explore(explored)
}

type (
	wishes   = [maxClients][sides]uint8
	leases   = [maxClients]uint8
	scenario = model.Scenario[rwlock]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	reenters = scenario{"re-enters", rwlock{wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, depth: 2, faults: 1}}
	extends  = scenario{"extends", rwlock{wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, long: 4, faults: 1,
		renews: true}}
	shares = scenario{"shares", rwlock{clients: 3, wishes: wishes{{0, 2}, {0, 1}, {1, 0}}, leases: leases{2, 4, 3},
		crashes: 1, renews: true}}
	both = scenario{"writes and reads", rwlock{wishes: wishes{{1, 1}, {1, 1}}, leases: leases{2, 3},
		crashes: 1, renews: true}}
	turning = scenario{"takes turns", rwlock{clients: 3, wishes: wishes{{1, 0}, {0, 2}, {1, 0}}, leases: leases{2, 2, 2}}}
	yields  = scenario{"yields", rwlock{clients: 3, frail: 2, wishes: wishes{{1, 0}, {1, 0}, {0, 2}},
		leases: leases{2, 2, 4}, leavers: 1, crashes: 1, brief: true}}
	leavesWriting = scenario{"leaves, and writes", rwlock{wishes: wishes{{2, 0}, {0, 1}}, leases: leases{2, 2},
		messages: 2, faults: 1, leavers: 1, brief: true}}
	leavesReading = scenario{"leaves, and reads", rwlock{wishes: wishes{{0, 2}, {1, 0}}, leases: leases{2, 2},
		messages: 2, faults: 1, leavers: 1, brief: true}}
	calls = scenario{"no time", rwlock{clients: 3, frail: 2, wishes: wishes{{1, 1}, {1, 1}, {0, 1}},
		leases: leases{2, 2, 2}, breaks: 1, leavers: 1, still: true}}
	callsLost = scenario{"no time, and loses requests", rwlock{wishes: wishes{{1, 2}, {1, 1}}, leases: leases{2, 2},
		faults: 1, still: true}}
	stays = scenario{"stays", rwlock{wishes: wishes{{1, 1}, {0, 1}}, leases: leases{4, 2}, rest: 1, faults: 1,
		renews: true}}
	forced = scenario{"forced", rwlock{clients: 3, wishes: wishes{{1, 0}, {0, 2}, {0, 1}}, leases: leases{2, 2, 2},
		forces: 1, renews: true}}
	forgets = scenario{"server forgets", rwlock{wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, losses: 1}}
)

// bounded gives a scenario the bounds that all have. model.Large chooses
// those for a longer look: more wishes, more of what goes wrong, places that last longer.
func bounded(m rwlock) rwlock {
	m.place, m.depth = 2, max(m.depth, 1)
	m.clients, m.frail, m.messages = cmp.Or(m.clients, 2), cmp.Or(m.frail, 1), cmp.Or(m.messages, 1)
	switch {
	case !model.Large():
	case m.losses > 0:
		m.wishes[1][read] = 1
	case m.clients == 3:
		m.place, m.breaks = 3, 2*m.breaks
	case m.faults > 0:
		m.messages, m.faults = 2, 2
	}
	return m
}

// fewer takes wishes from a scenario: those of three clients have one for each side at most, and the
// second client does not want to read if it also writes.
func fewer(s scenario) scenario {
	w := &s.In.wishes
	if w[1][write] > 0 {
		w[1][read] = 0
	}
	for c := range w {
		for side := range w[c] {
			if s.In.clients == 3 {
				w[c][side] = min(w[c][side], 1)
			}
		}
	}
	return s
}

// short gives a scenario fewer wishes with -short.
func short(m rwlock) rwlock {
	if testing.Short() {
		return fewer(scenario{In: m}).In
	}
	return m
}

// TestReadWriteModel: in no state that can be reached is a promise broken.
func TestReadWriteModel(t *testing.T) {
	model.Run(t, "model of the read-write lock", rwlock.explore, short, reenters, extends, shares, turning, both, yields,
		leavesWriting, leavesReading, calls, callsLost, stays, forced, forgets)
}
