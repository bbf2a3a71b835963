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

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMessageWakes(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			_, rdb, h := started(t, Options{}, func(o *redis.Options) { o.Protocol = protocol })
			a, b := joined(t, h, "a"), joined(t, h, "b")
			publish(t, rdb, "a", 1)
			woken(t, a)
			require.False(t, hasToken(b), "a message on another channel woke")
			publish(t, rdb, "b", 1)
			woken(t, b)
			require.NoError(t, a.Err())
		})
	}
}

// An unused hub has nothing: no goroutine, no connection, no command.
func TestIdleHubIsNothing(t *testing.T) {
	server := redistest.Start(t)
	server.ResetStats(t)
	h := newHub(t, server.Client(t), Options{})
	require.Equal(t, Stats{}, h.Stats())
	require.Empty(t, server.CommandCalls(t))
}

func TestManySubscribersOfOneChannel(t *testing.T) {
	server, rdb, h := started(t, Options{})
	const n = 10_000
	subs := make([]*Subscription, n)
	for i := range subs {
		subs[i] = h.Subscribe("name")
	}
	awaitConfirmed(t, h, "name")
	for _, s := range subs {
		woken(t, s)
	}
	require.Equal(t, Stats{Connections: 1, Channels: 1, Subscribers: n, Goroutines: 2}, h.Stats())
	require.EqualValues(t, 1, server.CommandCalls(t)["subscribe"])

	publish(t, rdb, "name", 1)
	for _, s := range subs {
		woken(t, s)
		s.Close()
		s.Close()
	}
	require.Zero(t, h.Stats().Subscribers)
}

func TestManyChannelsShareOneConnection(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	gated, open := server.Client(t), make(chan struct{})
	gated.AddHook(gate(open))
	h := newHub(t, gated, Options{})
	const n = 10_000
	subs := make([]*Subscription, n)
	for i := range subs {
		subs[i] = h.Subscribe(fmt.Sprint("name", i))
	}
	close(open)
	for _, s := range subs {
		woken(t, s)
	}
	require.Equal(t, Stats{Connections: 1, Channels: n, Subscribers: n, Goroutines: 2}, h.Stats())
	require.Len(t, subscribers(t, rdb), 1)
	require.EqualValues(t, n/batch, server.CommandCalls(t)["subscribe"], "channels do not travel together")
	publish(t, rdb, "name7777", 1)
	woken(t, subs[7777])
	for _, s := range subs {
		s.Close()
	}
}

func TestMessagesCoalesce(t *testing.T) {
	_, rdb, h := started(t, Options{})
	s, marker := joined(t, h, "name"), joined(t, h, "marker")
	for range 10 {
		publish(t, rdb, "name", 1)
	}
	publish(t, rdb, "marker", 1)
	woken(t, marker) // messages of one connection arrive in order: the ten are in
	require.True(t, hasToken(s))
	require.False(t, hasToken(s), "a second token")
}

func TestLingerThenNothing(t *testing.T) {
	server, rdb, h := started(t, Options{Linger: 30 * time.Millisecond})
	s := joined(t, h, "name")
	keep := joined(t, h, "keep")
	s.Close()
	require.Equal(t, 2, h.Stats().Channels, "the subscription does not linger")
	eventually(t, "UNSUBSCRIBE", func() bool { return server.CommandCalls(t)["unsubscribe"] == 1 })
	require.Equal(t, gone, stateOf(h, "name"))
	require.Len(t, subscribers(t, rdb), 1)
	publish(t, rdb, "keep", 1) // the other one is untouched
	woken(t, keep)
	keep.Close()
	eventually(t, "connection and goroutines gone", func() bool { return h.Stats() == Stats{} })
	eventually(t, "connection gone from the server", func() bool { return len(subscribers(t, rdb)) == 0 })
}

// Waiting for the same name again and again sends nothing.
func TestChurnSendsNothing(t *testing.T) {
	server := redistest.Start(t)
	h := newHub(t, server.Client(t), Options{Linger: time.Hour})
	joined(t, h, "name").Close()
	server.ResetStats(t)
	for range 10_000 {
		h.Subscribe("name").Close()
	}
	require.Empty(t, server.CommandCalls(t))
}

// A waiter tries, fails, and joins; a message between those two found nobody else's token. The
// token of joining covers it; the control shows that without it the waiter would sleep.
func TestJoiningWakes(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	for _, defended := range []bool{true, false} {
		if !defended {
			t.Cleanup(defence.JoinWake.Without(t))
		}
		h := newHub(t, rdb, Options{})
		first := joined(t, h, "name")
		publish(t, rdb, "name", int64(len(subscribers(t, rdb))))
		woken(t, first)
		second := h.Subscribe("name")
		require.Equal(t, defended, hasToken(second))
		second.Close()
	}
}

// What is published before the subscription stands is lost; the confirmation wakes in its stead.
func TestConfirmationWakes(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	for _, defended := range []bool{true, false} {
		if !defended {
			t.Cleanup(defence.Rewake.Without(t))
		}
		h := newHub(t, rdb, Options{})
		s := h.Subscribe("name")
		awaitConfirmed(t, h, "name")
		require.Equal(t, defended, hasToken(s))
		s.Close()
	}
}

// Names that are wanted again at any moment of their unsubscription end subscribed and woken.
func TestSubscribeDuringUnsubscribe(t *testing.T) {
	server, rdb, h := started(t, Options{Linger: 100 * time.Microsecond})
	for i := range 300 {
		s := h.Subscribe("name")
		woken(t, s)
		s.Close()
		if i%3 > 0 {
			eventually(t, "dropped", func() bool { return stateOf(h, "name") == gone })
		}
		s = h.Subscribe("name")
		woken(t, s)
		awaitConfirmed(t, h, "name")
		hasToken(s)
		eventually(t, "subscribed on the server", func() bool {
			n, err := rdb.Publish(t.Context(), "name", "0").Result()
			return err == nil && n > 0
		})
		woken(t, s)
		s.Close()
	}
	require.Positive(t, server.CommandCalls(t)["unsubscribe"])
}

func TestCloseWakesEverybody(t *testing.T) {
	_, rdb, h := started(t, Options{})
	s := joined(t, h, "name")
	require.NoError(t, h.Close(t.Context()))
	woken(t, s)
	require.ErrorIs(t, s.Err(), ErrClosed)
	require.Equal(t, Stats{Subscribers: 1}, h.Stats())
	eventually(t, "connection gone", func() bool { return len(subscribers(t, rdb)) == 0 })
	late := h.Subscribe("name")
	require.True(t, hasToken(late))
	require.ErrorIs(t, late.Err(), ErrClosed)
	late.Close()
	s.Close()
	require.NoError(t, h.Close(t.Context()), "closing twice")
	require.Equal(t, Stats{}, h.Stats())
}

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

// TestListen: a listener gets each message and hears when some may be missing. A waiter beside it is woken as ever.
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

// TestLeftInTurn: each channel ends when it has lingered, also if it was joined and left again, or its time was cut short.
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

// Waiters come and go, subscriptions end soon, connections are killed: whoever stays hears, and whoever waits is woken.
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
