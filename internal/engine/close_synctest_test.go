package engine

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestCloseTwiceInABubble: the second Close waits on a channel, so time passes in a bubble. With a mutex the first hangs.
func TestCloseTwiceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("nobody is there")
		}})
		defer rdb.Close()
		c, err := New(rdb, nil)
		require.NoError(t, err)
		c.Tasks().Go(func() { time.Sleep(time.Second) })
		ends := make(chan error, 2)
		for range 2 {
			go func() { ends <- c.Close(context.Background()) }()
		}
		require.NoError(t, <-ends)
		require.NoError(t, <-ends)
	})
}
