package rw

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// rwlock is the model of a read-write lock: what the scripts do to its keys, what clients do when
// answers and messages come, come late or do not come, and a network that loses, delays and
// reorders what was sent on different connections.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease.
// Processes are always scheduled: a client notices in the same tick that its trust is over. The
// fields are the bounds.
type rwlock struct {
	clients  int
	frail    int                      // how many of them meet faults, leave and die
	wishes   [maxClients][sides]uint8 // how often each wants to write, and to read
	leases   [maxClients]uint8        // ticks
	long     uint8                    // a lease that was extended; 0: nobody does that
	place    uint8                    // for how long that of a writer counts, ticks
	rest     uint8                    // for how long a lock stays taken whose writer unlocks it; 0: it is free
	depth    uint8                    // of re-entries
	messages int                      // that were given up and may still arrive, at a time
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
		Settle: func(s *state) bool { return !s.full },
	}
	if m.losses == 0 {
		explored.Goal = m.free
	}
	return model.Explore(explored)
}

type (
	wishes = [maxClients][sides]uint8
	leases = [maxClients]uint8
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	reenters = rwlock{clients: 2, frail: 1, wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, depth: 2,
		messages: 1, faults: 1}
	extends = rwlock{clients: 2, frail: 1, wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, long: 4,
		messages: 1, faults: 1, renews: true}
	shares = rwlock{clients: 3, frail: 1, wishes: wishes{{0, 2}, {0, 1}, {1, 0}}, leases: leases{2, 4, 3},
		messages: 1, crashes: 1, renews: true}
	both = rwlock{clients: 2, frail: 1, wishes: wishes{{1, 1}, {1, 1}}, leases: leases{2, 3},
		messages: 1, crashes: 1, renews: true}
	turning = rwlock{clients: 3, wishes: wishes{{1, 0}, {0, 2}, {1, 0}}, leases: leases{2, 2, 2}}
	yields  = rwlock{clients: 3, frail: 2, wishes: wishes{{1, 0}, {1, 0}, {0, 2}}, leases: leases{2, 2, 4},
		messages: 1, leavers: 1, crashes: 1, brief: true}
	leavesWriting = rwlock{clients: 2, frail: 1, wishes: wishes{{2, 0}, {0, 1}}, leases: leases{2, 2},
		messages: 2, faults: 1, leavers: 1, brief: true}
	leavesReading = rwlock{clients: 2, frail: 1, wishes: wishes{{0, 2}, {1, 0}}, leases: leases{2, 2},
		messages: 2, faults: 1, leavers: 1, brief: true}
	calls = rwlock{clients: 3, frail: 2, wishes: wishes{{1, 1}, {1, 1}, {0, 1}}, leases: leases{2, 2, 2},
		breaks: 1, leavers: 1, still: true}
	callsLost = rwlock{clients: 2, frail: 1, wishes: wishes{{1, 2}, {1, 1}}, leases: leases{2, 2},
		messages: 1, faults: 1, still: true}
	stays = rwlock{clients: 2, frail: 1, wishes: wishes{{1, 1}, {0, 1}}, leases: leases{4, 2}, rest: 1,
		messages: 1, faults: 1, renews: true}
	forced  = rwlock{clients: 3, wishes: wishes{{1, 0}, {0, 2}, {0, 1}}, leases: leases{2, 2, 2}, forces: 1, renews: true}
	forgets = rwlock{clients: 2, wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, losses: 1}
)

// bounded gives a scenario the bounds that all have. model.Large chooses
// those for a longer look: more wishes, more of what goes wrong, places that last longer.
func bounded(m rwlock) rwlock {
	m.place, m.depth = 2, max(m.depth, 1)
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
func fewer(m rwlock) rwlock {
	if m.wishes[1][write] > 0 {
		m.wishes[1][read] = 0
	}
	for c := range m.wishes {
		for side := range m.wishes[c] {
			if m.clients == 3 {
				m.wishes[c][side] = min(m.wishes[c][side], 1)
			}
		}
	}
	return m
}

// short gives a scenario fewer wishes with -short.
func short(m rwlock) rwlock {
	if testing.Short() {
		return fewer(m)
	}
	return m
}

// TestReadWriteModel: in no state that can be reached is a promise broken.
func TestReadWriteModel(t *testing.T) {
	model.Run(t, "model of the read-write lock", rwlock.explore, []model.Scenario[rwlock]{
		{"re-enters", short(reenters)},
		{"extends", short(extends)},
		{"shares", short(shares)},
		{"takes turns", short(turning)},
		{"writes and reads", short(both)},
		{"yields", short(yields)},
		{"leaves, and writes", short(leavesWriting)},
		{"leaves, and reads", short(leavesReading)},
		{"no time", short(calls)},
		{"no time, and loses requests", short(callsLost)},
		{"stays", short(stays)},
		{"forced", short(forced)},
		{"server forgets", short(forgets)},
	})
}
