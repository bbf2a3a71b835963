package fair

import (
	"cmp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// fair is the model of a fair lock's queue and hand-over: what the scripts do to its keys, what
// clients do about answers and messages that come, come late or do not come, a network that loses,
// delays and reorders requests, mailboxes that break, processes that stand still or die. Time goes
// in ticks, for all clocks alike; what is granted is trusted for a tick less. A grant by a message
// counts from the moment of the grant. The fields are the bounds.
type fair struct {
	clients, waiters         uint8
	harmed                   uint8  // how many of the clients meet faults, leave, stand still and die
	home                     homes  // whose client's a waiter is
	wishes                   wishes // locks that a waiter wants, one after another
	lease, claim, place      uint8  // ticks
	messages                 int    // that were given up and may still arrive, at a time
	faults                   uint8  // requests or answers that do not come in time
	leavers, crashes, pauses uint8
	breaks                   uint8 // of mailboxes
	losses                   uint8 // of the server's keys
	tries                    bool  // the last waiter also tries the lock without waiting
	prompt                   bool  // clients do what they have to in time
	off                      defence
	only                     error // look for this violation alone
	exploration
}

// explore also looks whether everybody who waits can be served from everywhere, and all can come to
// rest: by messages, polls, answers, unlocks and time, without a fault, a renewal or a new wish.
func (m fair) explore(off defence, only error) (model.Report, error) {
	m = bounded(m)
	m.off, m.only = off, only
	explored := model.Model[state]{
		Start: m.start(), MaxStates: 8_000_000,
		Next: func(s state, out *model.Steps[state]) {
			m.next(s, func(label string, n state) { out.Step(0, label, !line.Loud(label), n) })
		},
		Check: func(s *state) error { return m.check(*s) },
	}
	if model.Looks(only) {
		explored.Goal = func(s *state) bool { return m.calm(*s) }
	}
	r, err := model.Explore(explored)
	r.Cut = m.Cut + m.CutMail
	return r, err
}

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	handsOver = fair{clients: 3, waiters: 3, home: homes{0, 1, 2}, wishes: wishes{1, 1, 1}, breaks: 1, lease: 2}
	shares    = fair{clients: 2, waiters: 3, home: homes{0, 0, 1}, wishes: wishes{1, 1, 1}, breaks: 1, lease: 2}
	again     = fair{clients: 2, waiters: 2, home: homes{0, 1}, wishes: wishes{2, 2}, tries: true, lease: 2}
	loses     = fair{clients: 2, waiters: 2, home: homes{0, 1}, wishes: wishes{2, 1}, messages: 1, faults: 1}
	departs   = fair{clients: 2, waiters: 2, home: homes{0, 1}, wishes: wishes{2, 1}, messages: 1, faults: 1,
		leavers: 1, lease: 2}
	perishes  = fair{clients: 3, waiters: 3, home: homes{0, 1, 2}, wishes: wishes{1, 1, 1}, messages: 1, crashes: 1}
	freezes   = fair{clients: 2, waiters: 2, home: homes{0, 1}, wishes: wishes{1, 2}, pauses: 1}
	waits     = fair{clients: 1, waiters: 4, wishes: wishes{1, 1, 1, 1}, lease: 2, place: 3, prompt: true}
	runs      = fair{clients: 2, waiters: 4, home: homes{0, 0, 0, 1}, wishes: wishes{1, 1, 1, 1}, lease: 2, place: 3, prompt: true}
	runsLeave = fair{clients: 2, waiters: 3, home: homes{0, 0, 1}, wishes: wishes{1, 1, 1}, leavers: 1, lease: 2}
	runsFail  = fair{clients: 2, waiters: 3, home: homes{0, 0, 1}, wishes: wishes{1, 1, 1}, messages: 1, faults: 1,
		lease: 2}
	runsDie   = fair{clients: 2, waiters: 3, home: homes{0, 0, 1}, wishes: wishes{1, 1, 1}, crashes: 1, pauses: 1, lease: 2}
	runsAgain = fair{clients: 1, waiters: 3, wishes: wishes{1, 2, 1}, lease: 2}
	runsLost  = fair{clients: 2, waiters: 3, home: homes{0, 0, 1}, wishes: wishes{1, 1, 1}, losses: 1, lease: 2}
	wiped     = fair{clients: 2, waiters: 2, home: homes{0, 1}, wishes: wishes{2, 1}, losses: 1}
)

type (
	homes  = line.Owners
	wishes = line.Owners
)

// pair leaves two waiters of a scenario, each of a client of its own, for controls that have to see
// all states.
func pair(m fair) fair {
	m.clients, m.waiters, m.home, m.wishes = 2, 2, homes{0, 1}, wishes{1, 1}
	return m
}

// bounded gives a scenario its times, and says how many clients meet faults. HOLDFAST_MODEL=large
// in the environment chooses the bounds for a longer look: all do, more goes wrong, and places and
// leases last longer.
func bounded(m fair) fair {
	m.claim, m.harmed = 2, 1
	m.lease, m.place = cmp.Or(m.lease, 3), cmp.Or(m.place, 2)
	if model.Large() {
		m.harmed = m.clients
		m.lease, m.place = max(m.lease, 3), max(m.place, 3)
		m.breaks, m.pauses, m.crashes = 2*m.breaks, 2*m.pauses, 2*m.crashes
		if m.leavers == 0 {
			m.messages, m.faults = 2*m.messages, 2*m.faults
		}
	}
	return m
}

// TestFairModel: in no state that can be reached is a promise broken.
func TestFairModel(t *testing.T) {
	model.Run(t, "fair model", fair.explore, []model.Scenario[fair]{
		{"hands over", handsOver},
		{"two of one client", shares},
		{"the same owner again", again},
		{"loses requests", loses},
		{"leaves", departs},
		{"dies", perishes},
		{"stands still", freezes},
		{"waits long", waits},
		{"server forgets", wiped},
		{"runs", runs},
		{"runs, and leaves", runsLeave},
		{"runs, and loses requests", runsFail},
		{"runs, and dies or stands still", runsDie},
		{"runs, and the same owner again", runsAgain},
		{"runs, and the server forgets", runsLost},
	})
}
