package multilock

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// TestWhoIsNext: the turn goes to who came first of those who have time enough, and else to who has most of it.
func TestWhoIsNext(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is sent
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, rdb.Close()) }()
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	turns := turnsOf((*engine.Client)(c))
	require.Same(t, turns, turnsOf((*engine.Client)(c)))
	require.True(t, turns.enter(t.Context(), "set", time.Time{}))
	require.True(t, turns.enter(t.Context(), "another set", time.Time{}))
	turns.leave("another set", time.Minute)
	require.Equal(t, longestTurn, turns.took)

	now, next := time.Now(), make(chan string)
	for i, one := range []struct {
		name  string
		until time.Time
	}{
		{"came first", now.Add(3 * time.Hour)},
		{"has little left", now.Add(time.Hour)},
		{"has more", now.Add(2 * time.Hour)},
		{"has no end", time.Time{}},
	} {
		go func() {
			turns.enter(t.Context(), "set", one.until)
			next <- one.name
		}()
		require.Eventually(t, func() bool {
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return turns.lines["set"].Len() == i+1
		}, 10*time.Second, time.Millisecond)
	}
	var order []string
	for _, took := range []time.Duration{time.Second, 4 * time.Hour, 4 * time.Hour, 4 * time.Hour} {
		turns.took = took
		turns.leave("set", 0)
		order = append(order, <-next)
	}
	require.Equal(t, []string{"came first", "has no end", "has more", "has little left"}, order)
	turns.leave("set", 0)
	require.Empty(t, turns.lines)
}

// TestATurnThatDoesNotCome: who leaves has no place any more, and who is told that the client was closed does not wait.
func TestATurnThatDoesNotCome(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	turns := turnsOf((*engine.Client)(c))
	require.True(t, turns.enter(t.Context(), "set", time.Time{}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, turns.enter(ended, "set", time.Time{}))
	require.False(t, turns.enter(t.Context(), "set", time.Now().Add(time.Millisecond)))
	require.Zero(t, turns.lines["set"].Len())
	closed := make(chan bool)
	go func() { closed <- turns.enter(t.Context(), "set", time.Time{}) }()
	require.NoError(t, c.Close(context.Background()))
	require.False(t, <-closed)
	turns.leave("set", 0)
	require.Empty(t, turns.lines)
	require.NoError(t, rdb.Close())
}
