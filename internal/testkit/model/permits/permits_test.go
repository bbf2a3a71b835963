package permits

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type (
	bounds = line.Bounds
	of     = line.Owners // numbers of waiters, one after another
)

// semaphore is the model within bounds.
type semaphore struct {
	line.Bounds
	few          of // wishes with -short, where these are fewer
	want         of // how many permits a waiter wants
	permits      int8
	sets         uint8 // of the number of permits
	fewest, most int8  // to which it is set
	takes        uint8 // of a permit by a client of Redisson
}

// pair leaves two waiters of a scenario, each of a client of its own, for controls that have to see
// all states.
func pair(s semaphore) semaphore {
	s.Bounds = s.Pair()
	return s
}

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	handsOver = semaphore{
		Bounds: bounds{Clients: 3, Waiters: 3, Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2},
		want:   of{1, 2, 1}, permits: 2,
	}
	together = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2},
		want:   of{1, 1, 1}, permits: 1, few: of{1, 1},
	}
	again = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 2}, Tries: true, Lease: 2},
		want:   of{2, 1}, permits: 2, few: of{1, 2},
	}
	loses = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1},
		want:   of{2, 1}, permits: 2, few: of{1, 1},
	}
	losesTogether = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Messages: 1, Faults: 1, Lease: 2},
		want:   of{1, 1, 2}, permits: 2, few: of{1, 1},
	}
	departs = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1, Leaves: 1, Lease: 2},
		want:   of{2, 1}, permits: 2, few: of{1, 1},
	}
	perishes = semaphore{
		Bounds: bounds{Clients: 3, Waiters: 3, Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Messages: 1, Crashes: 1, Lease: 2},
		want:   of{1, 2, 1}, permits: 2,
	}
	freezes = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{1, 2}, Pauses: 1},
		want:   of{2, 1}, permits: 2,
	}
	silent = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 4, Home: of{1, 0, 0, 1}, Wishes: of{1, 1, 1, 1}, Pauses: 1, Lease: 2, Place: 4, Prompt: true},
		want:   of{2, 1, 2, 1}, permits: 2, few: of{1, 1, 1},
	}
	waits = semaphore{
		Bounds: bounds{Clients: 1, Waiters: 4, Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true},
		want:   of{1, 2, 1, 1}, permits: 2,
	}
	misses = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2, Place: 3, Prompt: true},
		want:   of{1, 2, 1}, permits: 2,
	}
	resized = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Lease: 2},
		want:   of{1, 2, 1}, permits: 2, sets: 2, fewest: 1, most: 3, few: of{1, 1},
	}
	shared = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{1, 1}, Breaks: 1, Lease: 2},
		want:   of{2, 1}, permits: 3, takes: 2,
	}
	wiped = semaphore{
		Bounds: bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 1}, Losses: 1},
		want:   of{2, 1}, permits: 2,
	}
)

// short gives a scenario fewer wishes with -short, where that makes a difference.
func short(m semaphore) semaphore {
	if testing.Short() && m.few != (of{}) {
		m.Wishes = m.few
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
