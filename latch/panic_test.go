package latch_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
)

// TestPanickingHook: a hook panics while the client looks for those who wait. The panic goes on in
// them, where they can recover from it, and not in a goroutine of the library, where it would end the
// process. Afterwards the latch works.
func TestPanickingHook(t *testing.T) {
	l := newLab(t)
	rdb := redistest.Shared(t).Client(t)
	var panics atomic.Bool // while somebody looks at a latch
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); panics.Load() && len(args) > 1 && args[1] == lua.LatchLook.Hash() {
				panic("hook")
			}
		}
		return send()
	}))
	m := latch.New(newClient(t, rdb, nil), l.name)
	set(t, m, 1)
	first := make(chan any, 1)
	go func() {
		defer func() { first <- recover() }()
		_ = m.Wait(context.Background())
	}()
	eventually(t, "it listens", func() bool { return l.listening() == 1 })
	panics.Store(true)
	require.PanicsWithValue(t, "hook", func() { _, _ = m.Count(t.Context()) })
	require.PanicsWithValue(t, "hook", func() { _ = m.Wait(t.Context()) })
	require.Equal(t, "hook", <-first)
	panics.Store(false)
	c := waiting(t.Context(), m)
	count(t, m, 0)
	open(t, c)
}
