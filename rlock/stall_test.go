package rlock_test

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

//go:noinline
func lockHere(t *testing.T, m *rlock.Mutex) { unlock(t, lock(t, m)) }

// TestPromptServersNeedNoGoroutine: a lock is asked for in the goroutine of its caller while the
// server answers promptly, and in another one behind an answer that was late.
func TestPromptServersNeedNoGoroutine(t *testing.T) {
	p := newProxied(t, nil)
	here, elsewhere := 0, 0 // locks that were asked for in the goroutine of lockHere, and in another one
	rdb := redistest.NewClient(t, p.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if args := cmds[0].Args(); len(cmds) == 1 && len(args) > 1 && args[1] == lua.Acquire.Hash() {
			if strings.Contains(string(debug.Stack()), "rlock_test.lockHere(") {
				here++
			} else {
				elsewhere++
			}
		}
		return send()
	}))
	m := rlock.New(newClient(t, rdb, nil), "a")
	lockHere(t, m)
	require.Zero(t, here, "nothing is known of the server yet")
	eventually(t, "the server answers promptly", func() bool { lockHere(t, m); return here > 0 })

	late := p.proxy.DelayReply(script(lua.Release), 0, 50*time.Millisecond)
	lockHere(t, m)
	before := elsewhere
	lockHere(t, m)
	require.Equal(t, before+1, elsewhere)
	require.Equal(t, 2, late.Count())
}

// inAStall reports whether somebody leaves, within a time, who comes when the server has been silent
// for a while. One who asked in the moment before sits in a read that does not end.
func inAStall(t *testing.T, within time.Duration) (leaves bool) {
	t.Helper()
	p := newProxied(t, nil)
	rdb := redistest.NewClient(t, p.proxy.Addr(), func(o *redis.Options) {
		o.ReadTimeout, o.MinIdleConns = 10*patience, 3
	})
	client := newClient(t, rdb, nil)
	asked := script(lua.Acquire)
	// ask locks a name, is cancelled when the proxy has swallowed that, and says when it has left
	ask := func(name string) <-chan error {
		ctx, cancel := context.WithCancel(t.Context())
		before, left := p.proxy.Seen(asked), make(chan error, 1)
		go func() {
			_, err := rlock.New(client, name).Lock(ctx)
			left <- err
		}()
		eventually(t, "it is asked for", func() bool { return p.proxy.Seen(asked) > before })
		cancel()
		return left
	}
	eventually(t, "the server answers promptly, over several connections", func() bool {
		h := lock(t, rlock.New(client, "warm"))
		start := time.Now()
		unlock(t, h)
		return time.Since(start) < 5*time.Millisecond && rdb.PoolStats().IdleConns >= 3
	})
	p.proxy.On(asked, 0, faultproxy.BlackHole)
	first, start := ask("first"), time.Now()
	eventually(t, "it is overdue", func() bool { return time.Since(start) > 20*time.Millisecond })
	late := ask("late")
	waiting := []<-chan error{first}
	select {
	case err := <-late:
		require.ErrorIs(t, err, context.Canceled)
		leaves = true
	case <-time.After(within):
		waiting = append(waiting, late)
	}
	p.proxy.Clear()
	p.proxy.CutAll()
	for _, left := range waiting {
		require.ErrorIs(t, <-left, context.Canceled)
	}
	return leaves
}

func TestWhoComesInAStallLeaves(t *testing.T) {
	require.True(t, inAStall(t, patience))
	// The control: where nobody notices the stall, everybody sits in a read.
	defer defence.Overdue.Without(t)()
	require.False(t, inAStall(t, 500*time.Millisecond))
}
