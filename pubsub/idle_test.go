package pubsub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestLingeringCostsNothing: who joins and leaves among thousands of channels that linger looks at
// none of them. What is counted is what is looked at, with the hub's mutex held; to look at all of
// them each time was 8 ms for each new waiter among 60 000.
func TestLingeringCostsNothing(t *testing.T) {
	for _, n := range []int{10, 3000} {
		h := newHub(t, redistest.Start(t).Client(t), Options{Linger: time.Hour})
		subs := make([]*Subscription, n)
		for i := range subs {
			subs[i] = h.Subscribe(fmt.Sprint(t.Name(), n, "-", i))
		}
		for _, s := range subs {
			woken(t, s)
			s.Close()
		}
		before := looked(h)
		const come = 100
		for i := range come {
			s := h.Subscribe(fmt.Sprint(t.Name(), n, "+", i))
			woken(t, s)
			s.Close()
		}
		require.Less(t, looked(h)-before, 10*come, "beside %d", n)
		require.Equal(t, n+come, h.Stats().Channels)
	}
}

func looked(h *Hub) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.swept
}

// TestIdleOrder: the list is that of a slice, whatever is done to it.
func TestIdleOrder(t *testing.T) {
	topics, rnd := make([]topic, 20), level.Rand(t)
	var list idle
	var want []*topic
	for range 5000 {
		x := &topics[rnd.IntN(len(topics))]
		at := slices.Index(want, x)
		switch op := rnd.IntN(3); {
		case op == 0 && at < 0:
			list.push(x)
			want = append(want, x)
		case op == 1:
			list.remove(x)
			if at >= 0 {
				want = slices.Delete(want, at, at+1)
			}
		case op == 2 && at >= 0:
			list.hurry(x)
			want = slices.Insert(slices.Delete(want, at, at+1), 0, x)
		}
		var forward, back []*topic
		for e := list.first; e != nil; e = e.after {
			forward = append(forward, e)
		}
		for e := list.last; e != nil; e = e.before {
			back = append(back, e)
		}
		slices.Reverse(back)
		require.Equal(t, len(want), len(forward))
		require.True(t, slices.Equal(want, forward))
		require.True(t, slices.Equal(want, back))
	}
}

// TestLeftInTurn: channels end when each has lingered, also those that were joined and left again
// meanwhile, and those whose time was cut short.
func TestLeftInTurn(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	h := newHub(t, rdb, Options{Linger: 300 * time.Millisecond})
	name := func(i int) string { return fmt.Sprint(t.Name(), i) }
	stays := joined(t, h, name(0))
	for i := 1; i < 50; i++ {
		joined(t, h, name(i)).Close()
	}
	for i := 10; i < 20; i++ {
		s := h.Subscribe(name(i))
		defer s.Close()
	}
	for i := 20; i < 30; i++ {
		h.Unlinger(name(i))
	}
	eventually(t, "what is left has ended, and nothing else", func() bool { return h.Stats().Channels == 11 })
	require.Equal(t, confirmed, stateOf(h, name(0)))
	for i := 10; i < 20; i++ {
		require.Equal(t, confirmed, stateOf(h, name(i)))
	}
	require.NoError(t, stays.Err())
}

// Waiters come and go, subscriptions end almost at once, connections are killed: whoever stays
// hears in the end, and whoever waits is woken in any case.
func TestComingAndGoingThroughKills(t *testing.T) {
	_, rdb, h := started(t, Options{Linger: time.Millisecond})
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
