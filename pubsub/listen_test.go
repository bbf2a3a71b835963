package pubsub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// ear is a listener that remembers.
type ear struct {
	mu       sync.Mutex
	messages []string
	looks    []bool
}

func (e *ear) Message(payload string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages = append(e.messages, payload)
}

func (e *ear) Look(confirmed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks = append(e.looks, confirmed)
}

func (e *ear) heard() (messages []string, looks []bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.messages...), append([]bool(nil), e.looks...)
}

// TestListen: a listener is told what messages say, each of them, and when some may have been
// missed. Who only waits beside it is woken as ever.
func TestListen(t *testing.T) {
	_, rdb, h := started(t, Options{})
	e := &ear{}
	s := h.Listen("name", e)
	defer s.Close()
	eventually(t, "confirmed", s.Confirmed)
	beside := h.Subscribe("name")
	defer beside.Close()
	woken(t, beside)
	for _, text := range []string{"one", "two", "three"} {
		require.EqualValues(t, 1, rdb.Publish(t.Context(), "name", text).Val())
	}
	eventually(t, "all messages", func() bool { m, _ := e.heard(); return len(m) == 3 })
	woken(t, beside)
	m, looks := e.heard()
	require.Equal(t, []string{"one", "two", "three"}, m)
	require.Equal(t, []bool{true}, looks)

	late := &ear{}
	defer h.Listen("name", late).Close()
	_, looks = late.heard()
	require.Equal(t, []bool{true}, looks, "joined a channel that is confirmed")

	require.NoError(t, rdb.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	eventually(t, "down, and up again", func() bool { _, looks := e.heard(); return len(looks) == 3 })
	_, looks = e.heard()
	require.Equal(t, []bool{true, false, true}, looks)
	require.NoError(t, h.Close(t.Context()))
	require.ErrorIs(t, s.Err(), ErrClosed)
	_, looks = e.heard()
	require.Equal(t, []bool{true, false, true, false}, looks)
}

// TestDoubt: a connection to the wrong server is replaced, and that is told as an outage.
func TestDoubt(t *testing.T) {
	old, next := redistest.Start(t), redistest.Start(t)
	addr := atomic.Pointer[string]{}
	first, second := old.Addr(), next.Addr()
	addr.Store(&first)
	rdb := redistest.NewClient(t, "", func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", *addr.Load())
		}
	})
	h := newHub(t, rdb, Options{})
	e := &ear{}
	s := h.Listen("name", e)
	defer s.Close()
	eventually(t, "confirmed", s.Confirmed)
	addr.Store(&second) // the name of the primary means another one now
	heard := func() bool { return next.Client(t).Publish(t.Context(), "name", "text").Val() == 1 }
	require.False(t, heard(), "control")
	s.Reconnect()
	eventually(t, "heard at the new one", heard)
	eventually(t, "told", func() bool {
		messages, looks := e.heard()
		return len(messages) == 1 && slices.Equal(looks, []bool{true, false, true})
	})
}

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
