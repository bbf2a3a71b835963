package rlock_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestTryLockAsksOnce: a server that does not answer is not asked again by who does not want to
// wait. Only a connection that the other side had closed is replaced, once.
func TestTryLockAsksOnce(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	asked := func() (n int, err error) {
		before := p.proxy.Seen(script(lua.Acquire))
		h, err := p.mutex.TryLock(t.Context())
		if err == nil {
			unlock(t, h)
		}
		p.proxy.Clear()
		return p.proxy.Seen(script(lua.Acquire)) - before, err
	}
	for _, fault := range []faultproxy.Action{faultproxy.BlackHole, faultproxy.HoldReply} {
		p.proxy.On(script(lua.Acquire), 0, fault)
		n, err := asked()
		require.Error(t, err)
		require.Equal(t, 1, n, fault.String())
	}
	p.proxy.On(script(lua.Acquire), 1, faultproxy.Cut)
	n, err := asked()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	p.proxy.On(script(lua.Acquire), 0, faultproxy.Cut)
	n, err = asked()
	require.Error(t, err)
	require.Equal(t, 2, n)
}

// TestBudgetBoundsDials: a connection that is never ready, as of a TLS client at a port without
// TLS, takes go-redis five times its DialTimeout. Nobody waits for that.
func TestBudgetBoundsDials(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var g sync.WaitGroup
	var conns []net.Conn
	g.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c) // never a word
		}
	})
	rdb := redis.NewClient(&redis.Options{
		Addr: ln.Addr().String(), DialTimeout: 10 * time.Minute, ReadTimeout: 100 * time.Millisecond,
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // nobody is there
	})
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 200 * time.Millisecond})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		if _, err := rlock.New(c, "a").Lock(context.Background()); err == nil {
			t.Error("granted by nobody")
		}
		done <- c.Close(context.Background())
	}()
	select {
	case err = <-done:
	case <-time.After(patience):
		t.Error("Lock and Close wait for go-redis")
	}
	require.NoError(t, ln.Close())
	g.Wait()
	for _, conn := range conns {
		_ = conn.Close()
	}
	require.ErrorIs(t, err, holdfast.ErrUncertain, "for all that is known the lock was granted")
	require.NoError(t, rdb.Close())
}
