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
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// runner is any kind of actor.
type runner interface{ Run(ctx context.Context) }

// maker makes an actor.
type maker func(cfg Config, c *holdfast.Client, rec *history.Recorder, client, number int, rng *rand.Rand) runner

// event is something that a history must have in it, so many times.
type event struct {
	kind   history.Kind
	result history.Result
	shared bool
}

// TestEveryKind: without faults everything happens that actors of a kind do, and the history is a good
// one.
func TestEveryKind(t *testing.T) {
	const permits = 4
	lock, unlock := event{history.Lock, history.OK, false}, event{history.Unlock, history.OK, false}
	for kind, k := range map[history.Family]struct {
		actor  maker
		events []event
	}{
		history.Locks: {func(cfg Config, c *holdfast.Client, rec *history.Recorder, client, number int, rng *rand.Rand) runner {
			cfg.Lock = func(name string) Locker { return rlock.New(c, name) }
			cfg.Other = func(name string) Locker { return fairlock.New(c, name) }
			return New(cfg, rec, client, number, rng)
		}, []event{
			lock, unlock, {history.Try, history.OK, false}, {history.Reenter, history.OK, false}, {history.Extend, history.OK, false},
			{history.State, history.OK, false}, {history.Mixed, history.Refused, false},
		}},
		history.ReadWrite: {func(cfg Config, c *holdfast.Client, rec *history.Recorder, client, number int, rng *rand.Rand) runner {
			return NewReadWriter(cfg, func(name string) *rwlock.RWMutex { return rwlock.New(c, name) }, rec, client, number, rng)
		}, []event{
			lock, unlock, {history.Lock, history.OK, true}, {history.Try, history.OK, true}, {history.Try, history.Denied, false},
			{history.Unlock, history.OK, true}, {history.Reenter, history.OK, true}, {history.Reenter, history.OK, false},
			{history.Upgrade, history.Refused, true}, {history.State, history.OK, true}, {history.State, history.OK, false},
			{history.Queue, history.OK, false}, {history.Extend, history.OK, true},
		}},
		history.Permits: {func(cfg Config, c *holdfast.Client, rec *history.Recorder, client, number int, rng *rand.Rand) runner {
			of := func(name string) *semaphore.Semaphore { return semaphore.New(c, name, permits) }
			return NewTaker(cfg, Permits{Of: of, Most: permits, Sets: []int{3, 4, 5}}, rec, client, number, rng)
		}, []event{
			lock, unlock, {history.Try, history.OK, false}, {history.Try, history.Denied, false}, {history.Set, history.OK, false},
			{history.Lock, history.Refused, false}, {history.State, history.OK, false}, {history.Queue, history.OK, false},
			{history.Extend, history.OK, false},
		}},
		history.Latches: {func(cfg Config, c *holdfast.Client, rec *history.Recorder, client, number int, rng *rand.Rand) runner {
			cfg.Patience = 100 * time.Millisecond // else all wait in the end, and nobody counts
			return NewCounter(cfg, func(name string) *latch.Latch { return latch.New(c, name) }, rec, client, number, rng)
		}, []event{
			{history.Set, history.OK, false}, {history.Set, history.Denied, false}, {history.CountDown, history.OK, false},
			{history.Look, history.OK, false}, {history.Delete, history.OK, false}, {history.Delete, history.Denied, false},
			{history.Wait, history.OK, false}, {history.Wait, history.Left, false},
		}},
		history.Elections: {func(cfg Config, c *holdfast.Client, rec *history.Recorder, client, number int, rng *rand.Rand) runner {
			of := func(name string) *election.Election { return election.New(c, name) }
			if number == 0 {
				return NewObserver(cfg, of, rec, client, number, rng)
			}
			return NewCandidate(cfg, of, rec, client, number, rng)
		}, []event{
			lock, unlock, {history.Lock, history.Left, false}, {history.Look, history.OK, false}, {history.Look, history.Denied, false},
			{history.Leads, history.OK, false}, {history.Leads, history.Denied, false}, {history.Told, history.OK, false},
			{history.Observe, history.OK, false}, {history.Queue, history.OK, false},
		}},
	} {
		t.Run("kind "+string(kind), func(t *testing.T) {
			ops := everyEvent(t, "workload:"+uuid.NewString(), k.actor, k.events)
			history.Report(t, history.Check(ops, history.Config{Lease: time.Minute, Bound: 5 * time.Second, Recovery: 5 * time.Second,
				Leaving: time.Minute, // a busy machine says late that somebody has left
				Permits: permits, Place: 15 * time.Second, Claim: 2 * time.Second}), "go test ./workload")
		})
	}
}

// everyEvent has actors of two clients work until each event has happened some times, and returns the
// history.
func everyEvent(t *testing.T, prefix string, actor maker, events []event) []history.Op {
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	var recorders []*history.Recorder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for client := range 2 {
		rdb := redistest.Shared(t).Client(t)
		rdb.AddHook(new(Places))
		rdb.AddHook(Asked{})
		repeats := &Repeats{}
		rdb.AddHook(repeats)
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
		}
		for number := range 4 {
			a := actor(cfg, c, rec, client, number, rand.New(rand.NewPCG(1, uint64(10*client+number))))
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
		seen := make(map[event]int)
		for _, o := range all() {
			seen[event{o.Kind, o.Result, o.Shared}]++
		}
		return !slices.ContainsFunc(events, func(e event) bool { return seen[e] < 5 })
	}, 20*time.Second, 10*time.Millisecond)
	cancel()
	group.Wait()
	return all()
}
