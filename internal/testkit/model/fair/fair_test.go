package fair

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

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	handsOver = bounds{Clients: 3, Waiters: 3, Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}
	shares    = bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}
	again     = bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 2}, Tries: true, Lease: 2}
	loses     = bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1}
	departs   = bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1,
		Leaves: 1, Lease: 2}
	perishes  = bounds{Clients: 3, Waiters: 3, Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Messages: 1, Crashes: 1}
	freezes   = bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{1, 2}, Pauses: 1}
	waits     = bounds{Clients: 1, Waiters: 4, Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}
	runs      = bounds{Clients: 2, Waiters: 4, Home: of{0, 0, 0, 1}, Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}
	runsLeave = bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Leaves: 1, Lease: 2}
	runsFail  = bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Messages: 1, Faults: 1,
		Lease: 2}
	runsDie   = bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Crashes: 1, Pauses: 1, Lease: 2}
	runsAgain = bounds{Clients: 1, Waiters: 3, Wishes: of{1, 2, 1}, Lease: 2}
	runsLost  = bounds{Clients: 2, Waiters: 3, Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Losses: 1, Lease: 2}
	wiped     = bounds{Clients: 2, Waiters: 2, Home: of{0, 1}, Wishes: of{2, 1}, Losses: 1}
)

// TestFairModel: in no state that can be reached is a promise broken.
func TestFairModel(t *testing.T) {
	model.Run(t, "fair model", explore, []model.Scenario[bounds]{
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
