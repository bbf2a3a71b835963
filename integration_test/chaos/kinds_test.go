//go:build linux

package chaos

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
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

// actors are those of a client, of all kinds that the process uses.
func (j *job) actors(cfg workload.Config, c *holdfast.Client, rec *history.Recorder, rng *rand.Rand) (list []workload.Runner) {
	dice := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
	of := func(n int) workload.Config { // the n-th of a kind
		cfg := cfg
		if n >= j.Actors {
			cfg.Haste = workload.Haste{Longest: 4 * time.Millisecond, Every: 400 * time.Millisecond, Rounds: 4}
			cfg.Hold, cfg.Staying, cfg.Keeping = time.Millisecond, 0, 0
		}
		return cfg
	}
	if len(j.Kinds) == 0 {
		for n := range j.Actors + j.Hasty {
			list = append(list, workload.New(of(n), rec, j.Client, n, dice()))
		}
		return list
	}
	cfg.Permits, cfg.Sets = permits, []int{permits - 1, permits, permits, permits + 1}
	cfg.Lasts = j.Lease // a latch that nobody opens ends soon, because its name is not used for long
	name := cfg.Name
	for _, kind := range j.Kinds {
		cfg.Name = func(rng *rand.Rand) string { return named(name(rng), kind) }
		some := j.Actors
		if kind != history.Latches { // nobody has to wait for those
			some += j.Hasty
		}
		for n := range some {
			list = append(list, workload.NewOf(kind, c, of(n), rec, j.Client, len(list), dice()))
		}
		if kind == history.Elections {
			list = append(list, workload.NewObserver(c, cfg, rec, j.Client, len(list), dice()))
		}
	}
	return list
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
		workload.Census(tb.Context(), rec, semaphore.New(c, name, permits), history.Op{Last: true})
	}
	for _, o := range rec.Ops() {
		require.Equal(tb, history.OK, o.Result, "nobody knows what is free of %s: %s", o.Name, o.Error)
	}
	return rec.Ops()
}
