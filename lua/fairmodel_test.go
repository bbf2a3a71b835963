package lua_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/model"
)

// fair is the model of a fair lock's queue and hand-over: what the scripts do to its keys, what clients do about answers and
// messages that come, come late or do not come, a network that loses, delays and reorders requests, mailboxes that break,
// processes that stand still or die. Time goes in ticks, for all clocks alike; what is granted is trusted for a tick less. A
// grant by a message counts from the moment of the grant. The fields are the bounds.
type fair struct {
	clients, waiters         uint8
	harmed                   uint8              // how many of the clients meet faults, leave, stand still and die
	home                     [fairWaiters]uint8 // whose client's a waiter is
	wishes                   [fairWaiters]uint8 // locks that a waiter wants, one after another
	lease, claim, place      uint8              // ticks
	messages                 int                // that were given up and may still arrive, at a time
	faults                   uint8              // requests or answers that do not come in time
	leavers, crashes, pauses uint8
	breaks                   uint8 // of mailboxes
	losses                   uint8 // of the server's keys
	tries                    bool  // the lock is also tried without waiting
	off                      fairDefence
	only                     error // look for this violation alone
	cut, cutMail             int   // messages for which the bounds had no room
	at                       terms
}

func (m *fair) start() fairState {
	s := fairState{
		faults: m.faults, leaves: m.leavers, crashes: m.crashes, pauses: m.pauses, breaks: m.breaks, losses: m.losses,
	}
	s.clock = 1
	for w := range m.waiters {
		s.waiters[w].wishes = m.wishes[w]
	}
	return s
}

// explore also looks whether everybody who waits can be served from everywhere, and all can come to rest: by messages, polls,
// answers, unlocks and time, without a fault, a renewal or a new wish.
func (m *fair) explore(t testing.TB) model.Report[fairState] {
	t.Helper()
	explored := model.Model[fairState]{Start: []fairState{m.start()}, Next: m.next, Check: m.check, MaxStates: 3_000_000}
	if m.only == nil || errors.Is(m.only, model.ErrStuck) {
		explored.Goal, explored.Quiet = m.calm, func(label string) bool { return !fairLoud[label] }
	}
	r, err := model.Explore(explored)
	require.NoError(t, err)
	return r
}

// The scenarios. One with everything in it would not end.
var (
	handsOver = fair{clients: 3, waiters: 3, home: [3]uint8{0, 1, 2}, wishes: [3]uint8{1, 1, 1}, breaks: 1}
	shares    = fair{clients: 2, waiters: 3, home: [3]uint8{0, 0, 1}, wishes: [3]uint8{1, 1, 1}, breaks: 1}
	again     = fair{clients: 2, waiters: 2, home: [3]uint8{0, 1}, wishes: [3]uint8{2, 2}, tries: true}
	loses     = fair{clients: 2, waiters: 2, home: [3]uint8{0, 1}, wishes: [3]uint8{2, 1}, messages: 1, faults: 1}
	departs   = fair{clients: 2, waiters: 2, home: [3]uint8{0, 1}, wishes: [3]uint8{2, 1}, messages: 1, faults: 1, leavers: 1}
	perishes  = fair{clients: 3, waiters: 3, home: [3]uint8{0, 1, 2}, wishes: [3]uint8{1, 1, 1}, messages: 1, crashes: 1}
	freezes   = fair{clients: 2, waiters: 2, home: [3]uint8{0, 1}, wishes: [3]uint8{1, 2}, pauses: 1}
	wiped     = fair{clients: 2, waiters: 2, home: [3]uint8{0, 1}, wishes: [3]uint8{2, 1}, losses: 1}
)

// bounded gives a scenario the times, and says how many clients meet faults. HOLDFAST_MODEL=large in the environment takes a
// longer look.
func bounded(m fair) fair {
	m.lease, m.claim, m.place, m.harmed = 3, 2, 2, 1
	if os.Getenv("HOLDFAST_MODEL") == "large" {
		m.place, m.harmed = 3, m.clients
	}
	return m
}

// TestFairModel: in no state that can be reached is a promise broken.
func TestFairModel(t *testing.T) {
	for _, scenario := range []struct {
		name  string
		bound fair
	}{
		{"hands over", handsOver}, {"two of one client", shares}, {"the same owner again", again}, {"loses requests", loses},
		{"leaves", departs}, {"dies", perishes}, {"stands still", freezes}, {"server forgets", wiped},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			m := bounded(scenario.bound)
			r := m.explore(t)
			t.Logf("proof: fair model, %s: %d states, %d transitions, depth %d, %d requests and %d messages cut off by the bounds",
				scenario.name, r.States, r.Transitions, r.Depth, m.cut, m.cutMail)
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}
