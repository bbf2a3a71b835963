package redlock_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// stickyProxy keeps its clients' connections when the server's end, and makes new ones to the server: what proxies for Redis do.
func stickyProxy(t *testing.T, server string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	serve := func(client net.Conn) {
		defer func() { _ = client.Close() }()
		var up net.Conn
		var gone chan struct{}
		buf := make([]byte, 1<<16)
		for {
			n, err := client.Read(buf)
			if err != nil {
				break
			}
			select {
			case <-gone:
				up = nil
			default:
			}
			if up == nil {
				server, err := net.DialTimeout("tcp", server, time.Second)
				if err != nil {
					break
				}
				keep(server)
				ended := make(chan struct{})
				up, gone = server, ended
				wg.Go(func() {
					defer close(ended)
					_, _ = io.Copy(client, server)
				})
			}
			_, _ = up.Write(buf[:n])
		}
		if up != nil {
			_ = up.Close()
		}
	}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			keep(c)
			wg.Go(func() { serve(c) })
		}
	})
	return ln.Addr().String()
}

// A restart is noticed also where a proxy keeps the connections: the master's run is asked with its vote.
func TestRestartBehindProxy(t *testing.T) {
	l := newLab(t, 5)
	opts := &holdfast.Options{Lease: 3 * time.Second, RetryBudget: 300 * time.Millisecond}
	a, b := l.party(opts), &party{}
	for _, m := range l.masters {
		c, err := holdfast.New(redistest.NewClient(t, stickyProxy(t, m.Addr())), opts)
		require.NoError(t, err)
		redistest.CloseAtEnd(t, c)
		b.clients = append(b.clients, c)
	}
	eventually(t, "the masters are older than a lease", func() bool {
		age, err := strconv.Atoi(redistest.InfoField(l.direct[4].Info(t.Context(), "server").Val(), "uptime_in_seconds"))
		return err == nil && age >= 5
	})
	require.NoError(t, lockOnce(t.Context(), b.mutex("other")))
	for _, i := range []int{3, 4} {
		a.proxies[i].Stop()
	}
	name := uniqueName(t)
	h, err := a.mutex(name).Lock(t.Context())
	require.NoError(t, err)
	l.masters[2].Restart()
	_, err = b.mutex(name).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "two masters have the lock, and the third one does not count")
	_ = h.Unlock(t.Context())
}
