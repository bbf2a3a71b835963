package pubsub

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
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
