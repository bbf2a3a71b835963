//go:build linux

package chaos

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// allKinds are the kinds of locks beside plain, fair and quorum locks.
func allKinds() []history.Family {
	return []history.Family{history.ReadWrite, history.Permits, history.Latches, history.Elections}
}

// permits is how many each semaphore has until somebody sets their number.
const permits = 4

// named makes a name one of a kind, because each is for one kind only.
func named(name string, kind history.Family) string { return name + ":" + string(kind) }

// kindOf is the kind that a key is of: what stands under the name itself.
func kindOf(key string) history.Family {
	for _, kind := range allKinds() {
		if strings.HasSuffix(key, ":"+string(kind)) {
			return kind
		}
	}
	return history.Locks
}

// counts reports whether a key is one of those in which a semaphore counts, which stand for as long as
// it remembers how many permits there are. A census says whether they are right.
func counts(key string) bool {
	name, ends := strings.CutSuffix(key, "}:timeout")
	return kindOf(name) == history.Permits && (ends || !strings.Contains(name, "{"))
}

// runner is an actor of any kind.
type runner interface{ Run(ctx context.Context) }

// actors are those of a client, of all kinds that the process uses.
func (j *job) actors(cfg workload.Config, c *holdfast.Client, rec *history.Recorder, rng *rand.Rand) (list []runner) {
	dice := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
	if len(j.Kinds) == 0 {
		for n := range j.Actors {
			list = append(list, workload.New(cfg, rec, j.Client, n, dice()))
		}
		return list
	}
	name := cfg.Name
	for _, kind := range j.Kinds {
		cfg.Name = func(rng *rand.Rand) string { return named(name(rng), kind) }
		for range j.Actors {
			list = append(list, j.actor(kind, cfg, c, rec, len(list), dice()))
		}
		if kind == history.Elections {
			list = append(list, workload.NewObserver(cfg, elections(c), rec, j.Client, len(list), dice()))
		}
	}
	return list
}

// actor is one of a kind.
func (j *job) actor(kind history.Family, cfg workload.Config, c *holdfast.Client, rec *history.Recorder, number int,
	rng *rand.Rand) runner {
	switch kind {
	case history.ReadWrite:
		of := func(name string) *rwlock.RWMutex { return rwlock.New(c, name) }
		return workload.NewReadWriter(cfg, of, rec, j.Client, number, rng)
	case history.Permits:
		some := workload.Permits{Of: semaphores(c), Most: permits, Sets: []int{permits - 1, permits, permits, permits + 1}}
		return workload.NewTaker(cfg, some, rec, j.Client, number, rng)
	case history.Latches: // one that nobody opens ends soon, because its name is not used for long
		of := func(name string) *latch.Latch { return latch.New(c, name, holdfast.Lease(j.Lease)) }
		return workload.NewCounter(cfg, of, rec, j.Client, number, rng)
	default:
		return workload.NewCandidate(cfg, elections(c), rec, j.Client, number, rng)
	}
}

func semaphores(c *holdfast.Client) func(name string) *semaphore.Semaphore {
	return func(name string) *semaphore.Semaphore { return semaphore.New(c, name, permits) }
}

func elections(c *holdfast.Client) func(name string) *election.Election {
	return func(name string) *election.Election { return election.New(c, name) }
}

// census asks of each semaphore that was used how many of its permits are free, when nobody has any.
func census(tb testing.TB, t *target, ops []history.Op) []history.Op {
	tb.Helper()
	names := make(map[string]bool)
	for _, o := range ops {
		if o.Of == history.Permits {
			names[o.Name] = true
		}
	}
	j := job{Mode: t.mode, Addrs: t.addrs}
	rdb := j.connectTo(t.addrs[0])
	defer rdb.Close()
	c, err := holdfast.New(rdb, nil)
	require.NoError(tb, err)
	defer c.Close(tb.Context())
	rec := history.NewRecorder(now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		workload.Census(tb.Context(), rec, semaphores(c)(name), history.Op{Last: true})
	}
	for _, o := range rec.Ops() {
		require.Equal(tb, history.OK, o.Result, "nobody knows what is free of %s: %s", o.Name, o.Error)
	}
	return rec.Ops()
}
