package workload

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestEveryKind: without faults everything happens that actors of a kind do, and the history is a good
// one.
func TestEveryKind(t *testing.T) {
	for _, kind := range []history.Family{history.Locks, history.ReadWrite, history.Permits, history.Latches, history.Elections} {
		t.Run("kind "+string(kind), func(t *testing.T) {
			ops := everyEvent(t, "workload:"+uuid.NewString(), kind)
			history.Report(t, history.Check(ops, history.Config{Lease: time.Minute, Bound: 15 * time.Second, Recovery: 5 * time.Second,
				Leaving: time.Minute, // a busy machine says late that somebody has left
				Permits: permits, Place: 15 * time.Second, Claim: 2 * time.Second}), "go test ./workload")
		})
	}
}

const permits = 4

// everyEvent has actors of two clients work until each event has happened some times, and returns the
// history.
func everyEvent(t *testing.T, prefix string, kind history.Family) []history.Op {
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	var recorders []*history.Recorder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for client := range 2 {
		rdb := redistest.Shared(t).Client(t)
		rdb.AddHook(new(Places))
		repeats := &Repeats{}
		rdb.AddHook(repeats.Hook())
		c, err := holdfast.New(rdb, nil)
		require.NoError(t, err)
		defer c.Close(context.Background())
		rec := history.NewRecorder(now)
		recorders = append(recorders, rec)
		cfg := Config{
			Name:  func(rng *rand.Rand) string { return prefix + []string{":a", ":b"}[rng.IntN(2)] },
			Think: time.Millisecond, Hold: time.Millisecond, Wait: 5 * time.Millisecond,
			Lease: 30 * time.Second, Leases: []time.Duration{0, 10 * time.Second},
			Extends: []time.Duration{time.Minute, 10 * time.Second}, Plain: 4, Patience: 20 * time.Second, Repeats: repeats, Now: now,
			Lock:    func(name string) Locker { return rlock.New(c, name) },
			Other:   func(name string) Locker { return fairlock.New(c, name) },
			Permits: permits, Sets: []int{permits - 1, permits, permits + 1},
		}
		if kind == history.Latches {
			cfg.Patience = 100 * time.Millisecond // else all wait in the end, and nobody counts
		}
		for number := range 4 {
			rng := rand.New(rand.NewPCG(1, uint64(10*client+number)))
			a := NewOf(kind, c, cfg, rec, client, number, rng)
			if kind == history.Elections && number == 0 {
				a = NewObserver(c, cfg, rec, client, number, rng)
			}
			group.Go(func() { a.Run(ctx) })
		}
	}
	all := func() []history.Op {
		var histories [][]history.Op
		for _, r := range recorders {
			histories = append(histories, r.Ops())
		}
		return history.Merge(histories...)
	}
	require.Eventually(t, func() bool {
		seen := make(history.Events)
		for _, o := range all() {
			seen[history.Event{Of: kind, Kind: o.Kind, Result: o.Result, Shared: o.Shared}]++
		}
		return !slices.ContainsFunc(history.Wanted(kind), func(e history.Event) bool { return seen[e] < 5 })
	}, time.Minute, 10*time.Millisecond)
	cancel()
	group.Wait()
	return all()
}
