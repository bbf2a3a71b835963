package pubsub

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Waiters come and go, subscriptions end almost at once, connections are killed: whoever stays
// hears in the end, and whoever waits is woken in any case.
func TestComingAndGoingThroughKills(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	h := newHub(t, rdb, Options{Linger: time.Millisecond})
	const goroutines, rounds, names = 16, 60, 5
	stay, rnd := make([]*Subscription, goroutines), level.Rand(t)
	var wg sync.WaitGroup
	for g := range goroutines {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() {
			for range rounds {
				s := h.Subscribe(fmt.Sprint("name", rnd.IntN(names)))
				if rnd.IntN(2) == 0 {
					woken(t, s)
				}
				s.Close()
			}
			stay[g] = h.Subscribe(fmt.Sprint("name", g%names))
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-tick.C:
			require.NoError(t, rdb.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		}
	}
	eventually(t, "one connection with everything on it", func() bool {
		return len(subscribers(t, rdb)) == 1 && h.Stats().Channels == names && h.Stats().Connections == 1
	})
	for i := range names {
		name := fmt.Sprint("name", i)
		awaitConfirmed(t, h, name)
		for g := i; g < goroutines; g += names {
			hasToken(stay[g])
		}
		publish(t, rdb, name, 1)
		for g := i; g < goroutines; g += names {
			woken(t, stay[g])
			require.NoError(t, stay[g].Err())
			stay[g].Close()
		}
	}
	eventually(t, "nothing left", func() bool { return h.Stats() == Stats{} })
}
