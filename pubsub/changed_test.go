package pubsub_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/pubsub"
)

// TestChanged: the loss of a connection is told once, with its reason, and so is the next one.
func TestChanged(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	changes := make(chan pubsub.Connection, 100)
	h := pubsub.New(rdb, pubsub.Options{Changed: func(c pubsub.Connection) { changes <- c }})
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	t.Cleanup(func() { require.Empty(t, changes, "the end of the hub is no loss") })
	sub := h.Subscribe("a")
	defer sub.Close()
	<-sub.Wake()
	require.Empty(t, changes, "the first connection is no return")
	for range 2 {
		require.Eventually(t, func() bool { return rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Val() == 1 },
			20*time.Second, time.Millisecond, "a connection that is up has subscribed, and is lost")
		for _, up := range []bool{false, true} {
			c := kindtest.Receive(t, "a change is told", changes)
			require.Equal(t, rdb.Options().Addr, c.Server)
			require.Equal(t, up, c.Up)
			require.Equal(t, up, c.Err == nil)
		}
		<-sub.Wake()
	}
}

// TestChangedUnneeded: a connection that was lost, and that nobody needs any more, is not lost for ever.
func TestChangedUnneeded(t *testing.T) {
	proxy := faultproxy.New(t, redistest.Start(t).Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	defer rdb.Close()
	changes := make(chan pubsub.Connection, 100)
	h := pubsub.New(rdb, pubsub.Options{Linger: time.Millisecond, Changed: func(c pubsub.Connection) { changes <- c }})
	defer func() { require.NoError(t, h.Close(context.Background())) }()
	sub := h.Subscribe("a")
	<-sub.Wake()
	proxy.Stop()
	require.False(t, kindtest.Receive(t, "a change is told", changes).Up)
	sub.Close()
	require.True(t, kindtest.Receive(t, "a change is told", changes).Up)
}
