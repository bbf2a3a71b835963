package workload

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestEverythingHappens: without faults, every kind of operation succeeds at times, and the history
// is a good one.
func TestEverythingHappens(t *testing.T) {
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	var histories [][]history.Op
	var recorders []*history.Recorder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for client := range 2 {
		c, err := holdfast.New(redistest.Shared(t).Client(t), nil)
		require.NoError(t, err)
		defer c.Close(context.Background())
		rec := history.NewRecorder(now)
		recorders = append(recorders, rec)
		cfg := Config{
			Lock:  func(name string) Locker { return rlock.New(c, name) },
			Name:  func(rng *rand.Rand) string { return []string{"workload:a", "workload:b"}[rng.IntN(2)] },
			Think: time.Millisecond, Hold: time.Millisecond, Wait: 5 * time.Millisecond,
			Lease: 30 * time.Second, Leases: []time.Duration{0, 10 * time.Second},
			Extends: []time.Duration{time.Minute, 10 * time.Second}, Plain: 4,
			Other: func(name string) Locker { return fairlock.New(c, name) }, Patience: 20 * time.Second, Now: now,
		}
		for actor := range 3 {
			a := New(cfg, rec, client, actor, rand.New(rand.NewPCG(1, uint64(10*client+actor))))
			group.Go(func() { a.Run(ctx) })
		}
	}
	require.Eventually(t, func() bool {
		seen := map[history.Kind]int{}
		histories = nil
		for _, r := range recorders {
			histories = append(histories, r.Ops())
			for _, o := range r.Ops() {
				if o.Result == history.OK {
					seen[o.Kind]++
				}
			}
		}
		for _, kind := range []history.Kind{history.Lock, history.Try, history.Reenter, history.Unlock, history.Extend,
			history.State} {
			if seen[kind] < 10 {
				return false
			}
		}
		return true
	}, 20*time.Second, 10*time.Millisecond)
	cancel()
	group.Wait()
	histories = nil
	for _, r := range recorders {
		histories = append(histories, r.Ops())
	}
	history.Report(t, history.Check(history.Merge(histories...), history.Config{Lease: time.Minute,
		Bound: 5 * time.Second, Recovery: 5 * time.Second}), "go test ./workload")
}

// TestDeadlineBesidePause: a deadline is read by two clocks, one after the other, and a pause between them does not
// change it.
func TestDeadlineBesidePause(t *testing.T) {
	c, err := holdfast.New(redistest.Shared(t).Client(t), nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	h, err := rlock.New(c, "workload:deadline").Lock(t.Context())
	require.NoError(t, err)
	start, read := time.Now(), 0
	a := New(Config{Now: func() int64 {
		if read++; read == 1 { // the process is paused right afterwards, as far as can be told
			return int64(time.Since(start) - time.Minute)
		}
		return int64(time.Since(start))
	}}, nil, 0, 0, nil)
	require.WithinDuration(t, h.Deadline(), start.Add(time.Duration(a.until(h))), 30*time.Millisecond)
	require.Greater(t, read, 2)
	require.NoError(t, h.Unlock(t.Context()))
}
