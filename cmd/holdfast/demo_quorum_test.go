package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// tellOfMasters tells the chapter of the quorum, on emulations that were changed. It returns what
// the demo would show.
func tellOfMasters(t *testing.T, change func([]*master)) (*story, string, error) {
	t.Helper()
	masters, err := startMasters(t.Context(), true)
	require.NoError(t, err)
	t.Cleanup(func() { stopMasters(masters) })
	var screen bytes.Buffer
	s := &story{screen: newScreen(&screen), start: order{Name: "demo"}}
	for _, m := range masters {
		srv := *m.server // change may take away what stops it
		s.masters = append(s.masters, &master{server: &srv, rdb: m.rdb})
	}
	change(s.masters)
	err = s.onMasters(t.Context())
	for _, m := range s.crew {
		m.kill()
	}
	return s, screen.String(), err
}

func TestDemoOnMasters(t *testing.T) {
	t.Parallel()
	s, screen, err := tellOfMasters(t, func([]*master) {})
	require.NoError(t, err, screen)
	require.Zero(t, s.failed, screen)
	require.Equal(t, 6, s.passed)
}

// The controls: what the chapter says of masters is seen to be wrong where it is.
func TestDemoFailsOnBrokenMasters(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	t.Run("they survive", func(t *testing.T) {
		_, screen, err := tellOfMasters(t, func(masters []*master) {
			for _, m := range masters {
				m.stop = func() {}
			}
		})
		require.ErrorContains(t, err, "no word from the worker", "that its lock is lost")
		require.Contains(t, screen, "D unlocks, and E gets it")
	})
	t.Run("they die together", func(t *testing.T) {
		_, screen, err := tellOfMasters(t, func(masters []*master) {
			masters[0].stop = func() {
				for _, m := range masters[1:] {
					m.stop()
				}
			}
		})
		require.Error(t, err)
		require.NotContains(t, screen, "ok      two are killed")
	})
	t.Run("one of them forgets", func(t *testing.T) {
		_, screen, err := tellOfMasters(t, func(masters []*master) {
			stop := masters[1].stop
			masters[1].stop = func() {
				stop()
				masters[2].rdb.FlushAll(context.Background())
				masters[3].stop()
			}
		})
		require.Error(t, err)
		require.NotContains(t, screen, "ok      two are killed")
	})
	t.Run("the lease ends too early", func(t *testing.T) {
		s, screen, err := tellOfMasters(t, func(masters []*master) { masters[2].rdb.AddHook(shortens{masters[2].rdb}) })
		require.NoError(t, err)
		require.Equal(t, 1, s.failed)
		require.Contains(t, screen, "FAILED  a third one is killed: E is told in time")
	})
}

// shortens makes a lease end early before the demo looks how long it is.
type shortens struct{ rdb redis.UniversalClient }

func (h shortens) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "pttl" {
			if err := h.rdb.PExpire(ctx, cmd.Args()[1].(string), quorumLease()/4).Err(); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func (shortens) DialHook(next redis.DialHook) redis.DialHook { return next }

func (shortens) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
