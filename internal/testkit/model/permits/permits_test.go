package permits

import (
	"cmp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// semaphore is the model of a semaphore: what the scripts do to its keys, what clients do about answers
// and messages that come, come late or do not come, a network that loses, delays and reorders requests,
// mailboxes that break, processes that stand still or die. Time goes in ticks, for all clocks alike;
// what is granted is trusted for a tick less. A grant by a message counts from the moment of the grant.
// The fields are the bounds.
type semaphore struct {
	clients, waiters         uint8
	harmed                   uint8  // how many of the clients meet faults, leave, stand still and die
	home                     homes  // whose client's a waiter is
	want                     wants  // how many permits it wants
	wishes                   wishes // acquisitions of a waiter, one after another
	few                      wishes // the same with -short, where that is fewer
	permits                  uint8
	lease, claim, place      uint8 // ticks
	messages                 int   // that were given up and may still arrive, at a time
	faults                   uint8 // requests or answers that do not come in time
	leavers, crashes, pauses uint8
	breaks                   uint8 // of mailboxes
	losses                   uint8 // of the server's keys
	sets                     uint8 // of the number of permits
	fewest, most             uint8 // to which it is set
	takes                    uint8 // of a permit by a client of Redisson
	tries                    bool  // the last waiter also tries without waiting
	prompt                   bool  // clients do what they have to in time
	off                      defence
	only                     error // look for this violation alone
	exploration
}

// explore also looks whether everybody who waits can be served from everywhere, and all can come to
// rest: by messages, polls, answers, unlocks and time, without a fault, a renewal or a new wish.
func (m semaphore) explore(off defence, only error) (model.Report, error) {
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
	handsOver = semaphore{clients: 3, waiters: 3, home: homes{0, 1, 2}, want: wants{1, 2, 1}, wishes: wishes{1, 1, 1}, permits: 2,
		breaks: 1, lease: 2}
	together = semaphore{clients: 2, waiters: 3, home: homes{0, 0, 1}, want: wants{1, 1, 1}, wishes: wishes{1, 1, 1}, permits: 1,
		breaks: 1, lease: 2, few: wishes{1, 1}}
	again = semaphore{clients: 2, waiters: 2, home: homes{0, 1}, want: wants{2, 1}, wishes: wishes{2, 2}, permits: 2, tries: true,
		lease: 2, few: wishes{1, 2}}
	loses = semaphore{clients: 2, waiters: 2, home: homes{0, 1}, want: wants{2, 1}, wishes: wishes{2, 1}, permits: 2, messages: 1,
		faults: 1, few: wishes{1, 1}}
	losesTogether = semaphore{clients: 2, waiters: 3, home: homes{0, 0, 1}, want: wants{1, 1, 2}, wishes: wishes{1, 1, 1}, permits: 2,
		messages: 1, faults: 1, lease: 2, few: wishes{1, 1}}
	departs = semaphore{clients: 2, waiters: 2, home: homes{0, 1}, want: wants{2, 1}, wishes: wishes{2, 1}, permits: 2, messages: 1,
		faults: 1, leavers: 1, lease: 2, few: wishes{1, 1}}
	perishes = semaphore{clients: 3, waiters: 3, home: homes{0, 1, 2}, want: wants{1, 2, 1}, wishes: wishes{1, 1, 1}, permits: 2,
		messages: 1, crashes: 1, lease: 2}
	freezes = semaphore{clients: 2, waiters: 2, home: homes{0, 1}, want: wants{2, 1}, wishes: wishes{1, 2}, permits: 2, pauses: 1}
	silent  = semaphore{clients: 2, waiters: 4, home: homes{1, 0, 0, 1}, want: wants{2, 1, 2, 1}, wishes: wishes{1, 1, 1, 1}, permits: 2,
		pauses: 1, lease: 2, place: 4, prompt: true, few: wishes{1, 1, 1}}
	waits = semaphore{clients: 1, waiters: 4, want: wants{1, 2, 1, 1}, wishes: wishes{1, 1, 1, 1}, permits: 2, lease: 2, place: 3,
		prompt: true}
	misses = semaphore{clients: 2, waiters: 3, home: homes{0, 0, 1}, want: wants{1, 2, 1}, wishes: wishes{1, 1, 1}, permits: 2,
		breaks: 1, lease: 2, place: 3, prompt: true}
	resized = semaphore{clients: 2, waiters: 3, home: homes{0, 0, 1}, want: wants{1, 2, 1}, wishes: wishes{1, 1, 1}, permits: 2, sets: 2,
		fewest: 1, most: 3, lease: 2, few: wishes{1, 1}}
	shared = semaphore{clients: 2, waiters: 2, home: homes{0, 1}, want: wants{2, 1}, wishes: wishes{1, 1}, permits: 3, takes: 2,
		breaks: 1, lease: 2}
	wiped = semaphore{clients: 2, waiters: 2, home: homes{0, 1}, want: wants{2, 1}, wishes: wishes{2, 1}, permits: 2, losses: 1}
)

type (
	homes  = line.Owners
	wants  = line.Owners
	wishes = line.Owners
)

// bounded gives a scenario its times, and says how many clients meet faults. HOLDFAST_MODEL=large
// in the environment chooses the bounds for a longer look: all do, more goes wrong, and places and
// leases last longer.
func bounded(m semaphore) semaphore {
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

// short gives a scenario fewer wishes with -short, where that makes a difference.
func short(m semaphore) semaphore {
	if testing.Short() && m.few != (wishes{}) {
		m.wishes = m.few
	}
	return m
}

// TestPermitsModel: in no state that can be reached is a promise broken.
func TestPermitsModel(t *testing.T) {
	model.Run(t, "permits model", semaphore.explore, []model.Scenario[semaphore]{
		{"hands over", short(handsOver)},
		{"places together", short(together)},
		{"again", short(again)},
		{"loses requests", short(loses)},
		{"loses those for places together", short(losesTogether)},
		{"leaves", short(departs)},
		{"dies", short(perishes)},
		{"stands still", short(freezes)},
		{"stands still with several", short(silent)},
		{"waits long", short(waits)},
		{"misses messages", short(misses)},
		{"number set", short(resized)},
		{"shared with Redisson", short(shared)},
		{"server forgets", short(wiped)},
	})
}

// pair leaves two waiters of a scenario, each of a client of its own, for controls that have to see
// all states.
func pair(m semaphore) semaphore {
	m.clients, m.waiters, m.home, m.wishes = 2, 2, homes{0, 1}, wishes{1, 1}
	return m
}
