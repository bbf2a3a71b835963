package rlock_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// refusedOnce is a client whose first connection is refused. The next ones hang, as those to a server that drops packets.
func refusedOnce(t *testing.T, o redis.Options) (rdb *redis.Client, dials *atomic.Int64) {
	over := make(chan struct{})
	o.Addr, o.ReadTimeout = "127.0.0.1:1", 100*time.Millisecond
	o.Dialer, dials = refusesOnce(t, over)
	rdb = redis.NewClient(&o)
	t.Cleanup(func() { close(over); _ = rdb.Close() })
	return rdb, dials
}

// refusesOnce is the dialer of such a client.
func refusesOnce(t *testing.T, over chan struct{}) (dial func(ctx context.Context, network, addr string) (net.Conn, error),
	dials *atomic.Int64,
) {
	refusedDials(t)
	dials = new(atomic.Int64)
	return func(context.Context, string, string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			<-over
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}, dials
}

// TestRefusedInACluster: who leaves while go-redis dials a node again is told why it does.
func TestRefusedInACluster(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	dial, dials := refusesOnce(t, over)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Dialer: dial})
	t.Cleanup(func() { close(over); _ = rdb.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, rlock.New(newClient(t, rdb, nil), "a").Lock)
	eventually(t, "it dials again", func() bool { return dials.Load() > 1 })
	cancel()
	unavailable(t, left.Err(), syscall.ECONNREFUSED, context.Canceled)
}

// TestBudgetInAnUnknownCluster: an operation that nothing but its budget bounds ends with it where go-redis knows no server
// of the cluster, and no dial comes back. The client is made without a question, too.
func TestBudgetInAnUnknownCluster(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"},
		Dialer: func(context.Context, string, string) (net.Conn, error) { <-over; return nil, syscall.ECONNREFUSED }})
	t.Cleanup(func() { close(over); _ = rdb.Close() })
	m := rlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond}), "a")
	unavailable(t, begin(context.Background(), t, m.Lock).Err())
}

// TestOutageBehindOneWhoDials: a waiter behind one of its client for which go-redis dials again is told why, before a failure.
func TestOutageBehindOneWhoDials(t *testing.T) {
	t.Parallel()
	srv, over := redistest.Start(t), make(chan struct{})
	refuse, dials := refusesOnce(t, over)
	var gone atomic.Bool
	c := newClient(t, redistest.NewClient(t, srv.Addr(), func(o *redis.Options) {
		o.DialerRetries = 5
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				return refuse(ctx, network, addr)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}), nil)
	end := sync.OnceFunc(func() { close(over) })
	t.Cleanup(end)
	m := rlock.New(c, "a")
	unlock(t, lock(t, m))
	gone.Store(true)
	srv.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	front := begin(ctx, t, m.Lock)
	eventually(t, "it dials again", func() bool { return dials.Load() > 1 })
	unavailable(t, kindtest.Err(m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))), syscall.ECONNREFUSED)
	require.False(t, front.Over(), "the one in front has given up")
	cancel()
	unavailable(t, front.Err(), syscall.ECONNREFUSED, context.Canceled)

	// The control: one that answers again is not silent.
	end()
	gone.Store(false)
	srv.Restart()
	eventually(t, "it answers", func() bool {
		h, err := m.Lock(t.Context())
		return err == nil && h.Unlock(t.Context()) == nil
	})
	h := lock(t, rlock.New(newClient(t, srv.Client(t), nil), "a"))
	require.NotErrorIs(t, refused(t.Context(), t, m.Lock, holdfast.Wait(20*time.Millisecond)), holdfast.ErrUnavailable)
	unlock(t, h)
}
