package faultproxy

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// restarted has a client ask a server before and after that was started anew, and returns how many
// connections it made.
func restarted(t *testing.T, change func(*Proxy)) (dials int64) {
	t.Helper()
	s := redistest.Start(t)
	p := New(t, s.Addr())
	change(p)
	var made atomic.Int64
	rdb := redistest.NewClient(t, p.Addr(), func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			made.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	id := func() string { return redistest.InfoField(rdb.Info(t.Context(), "server").Val(), "run_id") }
	before := id()
	require.NotEmpty(t, before)
	s.Restart()
	require.Eventually(t, func() bool {
		after := id()
		return after != "" && after != before
	}, 10*time.Second, time.Millisecond)
	return made.Load()
}

func TestConnectionsAreKept(t *testing.T) {
	require.EqualValues(t, 1, restarted(t, (*Proxy).KeepConnections))
	require.Greater(t, restarted(t, func(*Proxy) {}), int64(1), "control: without that they end with the server's")
}

// A request that the server has when it ends is not answered by the next one, and a subscription is
// not made again.
func TestConnectionsThatAreNotKept(t *testing.T) {
	s := redistest.Start(t)
	p := New(t, s.Addr())
	p.KeepConnections()
	dial := func(words ...string) net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for _, w := range words {
			_, err = c.Write([]byte(w + "\r\n"))
			require.NoError(t, err)
		}
		return c
	}
	waits, listens := dial("BLPOP nothing 0"), dial("SUBSCRIBE nothing")
	buf := make([]byte, 100)
	_, err := listens.Read(buf)
	require.NoError(t, err)
	direct := s.Client(t)
	require.Eventually(t, func() bool {
		return redistest.InfoField(direct.Info(t.Context(), "clients").Val(), "blocked_clients") == "1"
	}, 10*time.Second, time.Millisecond)
	s.Restart()
	ended := func(c net.Conn) bool {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := c.Read(buf)
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	require.True(t, ended(waits))
	_, err = listens.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	require.True(t, ended(listens))
}

// A request that is kept reaches the server when the client and the rule are gone, or when its time has come.
func TestAKeptRequestArrivesInTheEnd(t *testing.T) {
	p, rdb, direct := setup(t, impatient)
	p.KeepRequest(Script(hash), 1, forever)
	require.ErrorContains(t, incr(t.Context(), t, rdb), "i/o timeout")
	p.Clear()
	p.CutAll()
	require.Zero(t, count(t, direct))
	for range 2 {
		p.Deliver()
		require.Equal(t, 1, count(t, direct), "once")
	}
	p.KeepRequest(Script(hash), 1, time.Millisecond)
	require.ErrorContains(t, incr(t.Context(), t, rdb), "i/o timeout")
	require.Eventually(t, func() bool { return count(t, direct) == 2 }, 10*time.Second, time.Millisecond)
}
