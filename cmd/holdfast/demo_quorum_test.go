package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
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

// The controls of what [TestDemo] says of masters: it is seen to be wrong where it is.
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
		s, screen, err := tellOfMasters(t, func(masters []*master) {
			rdb := masters[2].rdb
			rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
				if cmds[0].Name() == "pttl" { // the demo is about to look how long it is
					rdb.PExpire(t.Context(), cmds[0].Args()[1].(string), quorumLease()/4)
				}
				return send()
			}))
		})
		require.NoError(t, err)
		require.Equal(t, 1, s.failed)
		require.Contains(t, screen, "FAILED  a third one is killed: E is told in time")
	})
}
