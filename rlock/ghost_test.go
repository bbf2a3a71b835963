package rlock_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// newTimed is newProxied with a server whose clock can be moved.
func newTimed(t *testing.T) *proxied {
	t.Helper()
	srv := redistest.Start(t, redistest.Clock())
	proxy := faultproxy.New(t, srv.Addr())
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond })
	c := newClient(t, rdb, nil)
	return &proxied{srv, proxy, srv.Client(t), c, rlock.New(c, "a")}
}

// straggler abandons an acquisition that the network keeps, and returns it.
func straggler(t *testing.T, p *proxied) []string {
	t.Helper()
	rule := p.proxy.On(script(lua.Acquire), 1, faultproxy.BlackHole)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-rule.Fired()
		cancel()
	}()
	_, err := p.mutex.Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	var last []string
	for _, args := range p.proxy.Requests() {
		if script(lua.Acquire)(args) {
			last = args
		}
	}
	return last
}

// arrives sends a request as it was caught, or with another script.
func arrives(t *testing.T, p *proxied, args []string, text string) {
	t.Helper()
	words := []any{"EVAL", text}
	for _, a := range args[2:] {
		words = append(words, a)
	}
	require.NoError(t, p.direct.Do(t.Context(), words...).Err())
}

// TestLateAcquireRefusesItself: the network keeps an acquisition for longer than anybody waits for
// it, and longer than it is given back.
func TestLateAcquireRefusesItself(t *testing.T) {
	p := newTimed(t)
	warm(t, p)
	late := straggler(t, p)
	p.proxy.Clear()
	p.srv.MoveClock(t, time.Minute) // spares the wait
	require.NoError(t, p.client.Close(t.Context()))
	arrives(t, p, late, lua.Acquire.Text())
	require.True(t, free(t, p.direct, "a"), "taken for nobody")

	// The control: without the look at the clock.
	check := "then return {-2, clock} end"
	require.Contains(t, lua.Acquire.Text(), check)
	arrives(t, p, late, strings.Replace(lua.Acquire.Text(), check, "then end", 1))
	require.False(t, free(t, p.direct, "a"))
}

// TestServersClockIsSet: each time that the server's clock jumps forwards a lock costs one more
// round trip, and only one. It may be another server's clock.
func TestServersClockIsSet(t *testing.T) {
	p := newTimed(t)
	warm(t, p)
	scripts := func() int {
		before := p.proxy.Seen(script(lua.Acquire))
		unlock(t, lock(t, p.mutex))
		return p.proxy.Seen(script(lua.Acquire)) - before
	}
	require.Equal(t, 1, scripts())
	p.srv.MoveClock(t, time.Hour)
	require.Equal(t, 2, scripts())
	require.Equal(t, 1, scripts())
	p.srv.MoveClock(t, -2*time.Hour)
	require.Equal(t, 1, scripts())
	p.srv.MoveClock(t, time.Minute)
	require.Equal(t, 2, scripts())
	require.Equal(t, 1, scripts())
	p.nothingLeft(t)
}

// TestSlowWay: the network keeps every request for longer than it may take. Each refusal gives the
// next one more time, so that it gets there.
func TestSlowWay(t *testing.T) {
	p := newTimed(t)
	p.client = newClient(t, redistest.NewClient(t, p.proxy.Addr()), nil)
	p.mutex = rlock.New(p.client, "a")
	warm(t, p)
	before := p.proxy.Seen(script(lua.Acquire))
	var slow []*faultproxy.Rule
	for i := range 2 {
		slow = append(slow, p.proxy.DelayRequest(script(lua.Acquire), i+1, time.Hour))
	}
	got := make(chan error, 1)
	go func() {
		h, err := p.mutex.Lock(context.Background())
		if err == nil {
			err = h.Unlock(context.Background())
		}
		got <- err
	}()
	for _, rule := range slow {
		<-rule.Fired()
		p.srv.MoveClock(t, 10*time.Second) // spares the wait
		rule.Release()
	}
	require.NoError(t, <-got)
	require.Equal(t, before+3, p.proxy.Seen(script(lua.Acquire)))
	p.nothingLeft(t)
}

// TestSilentServerKeepsNoGoroutines: who leaves while the server does not answer leaves one
// goroutine for all behind, however many they are, and however long the lease; and when it answers
// again all is given back.
func TestSilentServerKeepsNoGoroutines(t *testing.T) {
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) {
		o.ReadTimeout, o.PoolTimeout, o.PoolSize = 200*time.Millisecond, 200*time.Millisecond, 5
	})
	c := newClient(t, rdb, &holdfast.Options{Lease: time.Hour})
	unlock(t, lock(t, rlock.New(c, "warm")))
	direct := srv.Client(t)
	name := func(i int) string { return fmt.Sprint("silent:", i) }
	const each = 300
	left := 0
	proxy.LoseReplies(true)
	for range 3 {
		var g sync.WaitGroup
		for range each {
			m := rlock.New(c, name(left))
			left++
			g.Go(func() {
				_, err := m.Lock(context.Background(), holdfast.Wait(100*time.Millisecond))
				if err == nil {
					t.Error("granted without an answer")
				}
			})
		}
		g.Wait()
		// and the watchdog
		eventually(t, "only the undoer is left", func() bool { return goroutines("holdfast/internal/engine.") <= 2 })
	}
	before := srv.CommandCalls(t)["evalsha"]
	proxy.LoseReplies(false)
	proxy.CutAll() // a connection that has lost a reply loses all
	eventually(t, "all are given back", func() bool {
		for i := range left {
			if !free(t, direct, name(i)) {
				return false
			}
		}
		return true
	})
	eventually(t, "and it ends", func() bool { return goroutines("holdfast/internal/engine.") <= 1 })
	require.LessOrEqual(t, srv.CommandCalls(t)["evalsha"]-before, int64(4*left),
		"three releases for each, and few are sent again")
}

// goroutines counts those that have a function with this in its name.
func goroutines(function string) (n int) {
	buf := make([]byte, 1<<22)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "created by github.com/holdfast-go/"+function) ||
			strings.Contains(g, "holdfast/internal/task.") {
			n++
		}
	}
	return n
}
