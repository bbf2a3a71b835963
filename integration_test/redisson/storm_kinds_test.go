package redisson

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// runner is an actor of a storm, of either side.
type runner interface{ Run(ctx context.Context) }

// theirs is an actor of Redisson's.
type theirs interface{ run(ctx context.Context) }

// The names of a storm, by the kind of lock. Of these there are fewer, because they share.
var (
	lockNames   = []string{"plain:a", "plain:b", "plain:c", "fair:a", "fair:b", "fair:c"}
	rwNames     = []string{"rw:a", "rw:b"}
	permitNames = []string{"permits:a", "permits:b"}
	latchNames  = []string{"latch:a", "latch:b"}
)

// fairNames are those of the locks with a queue that Redisson's threads have places in.
var fairNames = lockNames[3:]

func anyOf(names []string) func(rng *rand.Rand) string {
	return func(rng *rand.Rand) string { return names[rng.IntN(len(names))] }
}

// kinds are the actors of one of our clients for the other kinds, two of each.
func (st *storm) kinds(c *holdfast.Client, rec *history.Recorder, client int, source func(int) *rand.Rand) (all []runner) {
	cfg := st.workload(c)
	cfg.Think += cfg.Think / 2
	// Redisson's readers put the end of the lock to the end of their own lease, so none is longer.
	cfg.Leases, cfg.Extends = nil, nil
	cfg.Permits, cfg.Sets = stormPermits, []int{stormPermits - 1, stormPermits, stormPermits, stormPermits + 1}
	for range 2 {
		for _, k := range []struct {
			kind  history.Family
			names []string
		}{{history.ReadWrite, rwNames}, {history.Permits, permitNames}, {history.Latches, latchNames}} {
			cfg.Name = anyOf(k.names)
			n := threads + len(all) + 1
			all = append(all, workload.NewOf(k.kind, c, cfg, rec, client, n, source(n)))
		}
	}
	return all
}

// javaKinds are the same of a client of Redisson's. make makes an actor with a thread of its own.
func javaKinds(start func(name func(*rand.Rand) string) actor) (all []theirs) {
	for range 2 {
		one, two := start(anyOf(rwNames)), start(anyOf(permitNames))
		all = append(all, &one, &javaTaker{two})
	}
	return append(all, &javaCounter{start(anyOf(latchNames))})
}

// set makes what has to be there before Redisson uses it: the number of permits, and a token for
// readers.
func (st *storm) set(t *testing.T, c *holdfast.Client, j *Thread) {
	t.Helper()
	for _, name := range permitNames {
		r := j.Do(t, Ask{Op: "trySetPermits", Kind: "permits", Name: name, N: stormPermits})
		require.True(t, r.Yes())
	}
	for _, name := range rwNames {
		h, err := rwlock.New(c, name).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// census asks how many permits are free when all have given back theirs. What was handed to one of
// ours as it left comes back in the background.
func (st *storm) census(t *testing.T, c *holdfast.Client) {
	t.Helper()
	rec := st.recorder()
	for _, name := range permitNames {
		await(Patience, func() bool {
			s, err := semaphore.New(c, name, stormPermits).State(t.Context())
			return err != nil || s.Free == s.Permits
		})
		workload.Census(t.Context(), rec, semaphore.New(c, name, stormPermits), history.Op{Client: oursFirst, Last: true})
	}
}

// await waits for a condition, for so long at the most.
func await(patience time.Duration, cond func() bool) {
	limit, tick := time.After(patience), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			return
		}
	}
}
