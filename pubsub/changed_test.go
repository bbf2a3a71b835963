package pubsub_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		require.NoError(t, rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		for _, up := range []bool{false, true} {
			select {
			case c := <-changes:
				require.Equal(t, rdb.Options().Addr, c.Server)
				require.Equal(t, up, c.Up)
				require.Equal(t, up, c.Err == nil)
			case <-time.After(20 * time.Second):
				require.Fail(t, "nobody is told")
			}
		}
		<-sub.Wake()
	}
}
