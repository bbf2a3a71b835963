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

// panicky is a hook of go-redis that panics while somebody looks at a latch.
type panicky struct{ on atomic.Bool }

func (p *panicky) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *panicky) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.look(cmd)
		return next(ctx, cmd)
	}
}

func (p *panicky) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.look(cmds...)
		return next(ctx, cmds)
	}
}

func (p *panicky) look(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if args := cmd.Args(); p.on.Load() && len(args) > 1 && args[1] == lua.LatchLook.Hash() {
			panic("hook")
		}
	}
}

// TestPanickingHook: a hook panics while the client looks for those who wait. The panic goes on in
// them, where they can recover from it, and not in a goroutine of the library, where it would end the
// process. Afterwards the latch works.
func TestPanickingHook(t *testing.T) {
	l := newLab(t)
	rdb, hook := redistest.Shared(t).Client(t), &panicky{}
	rdb.AddHook(hook)
	m := latch.New(newClient(t, rdb, nil), l.name)
	set(t, m, 1)
	first := make(chan any, 1)
	go func() {
		defer func() { first <- recover() }()
		_ = m.Wait(context.Background())
	}()
	eventually(t, "it listens", func() bool { return l.listening() == 1 })
	hook.on.Store(true)
	require.PanicsWithValue(t, "hook", func() { _, _ = m.Count(t.Context()) })
	require.PanicsWithValue(t, "hook", func() { _ = m.Wait(t.Context()) })
	require.Equal(t, "hook", <-first)
	hook.on.Store(false)
	c := waiting(t.Context(), m)
	count(t, m, 0)
	open(t, c)
}
