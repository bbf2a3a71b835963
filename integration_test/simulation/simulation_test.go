package simulation

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

var (
	// few are the worlds of the quick level: the cheapest twenty of the first two hundred in which all
	// happens that is to happen, and not only once.
	few = []uint64{18, 21, 22, 23, 27, 46, 51, 71, 91, 99, 132, 145, 159, 173, 180, 181, 184, 187, 189, 195}
	// many are those of all.
	many = upTo(50)
	// regressions are worlds that have found something.
	regressions = []uint64{
		119,       // who leaves a queue gives its place back before it says so
		794845675, // a server's clock that was set back remembers calls to a latch for longer
	}
)

func upTo(n uint64) (seeds []uint64) {
	for seed := range n {
		seeds = append(seeds, seed+1)
	}
	return seeds
}

// TestSimulation runs worlds, each drawn from a seed.
func TestSimulation(t *testing.T) {
	var sum totals
	for seeds := range worlds(t, few, many, regressions) {
		t.Run("worlds", func(t *testing.T) {
			for _, seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					r := run(t, &World{Settings: Draw(seed)})
					sum.add(r)
					history.Report(t, r.Problems, replay(t, seed))
				})
			}
		})
	}
	t.Logf("proof: simulation: %s", &sum)
	if !level.Exploring() && !t.Failed() {
		require.Empty(t, sum.missing(), "has not happened, and does in these worlds")
	}
}

// worlds are the seeds of the worlds to run, some at a time: those of the level, with the regressions, or from
// another one on for as long as the run is told to explore, until something is found.
func worlds(t *testing.T, few, many, regressions []uint64) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		if !level.Exploring() {
			if !testing.Short() {
				few = many
			}
			yield(slices.Concat(regressions, few))
			return
		}
		batch, end := []uint64{level.Seed(t)}, time.Now().Add(level.Duration(t, time.Minute))
		for yield(batch) && !t.Failed() && time.Now().Before(end) {
			next := batch[len(batch)-1] + 1
			batch = []uint64{next, next + 1, next + 2, next + 3}
		}
	}
}

// replay is the command that runs a world again, and then explores from there.
func replay(t *testing.T, seed uint64) string {
	command := level.Replay(t, seed)
	if kind := os.Getenv(kindEnv); kind != "" {
		command = kindEnv + "=" + kind + " " + command
	}
	return command
}

// run runs a world in a bubble of its own.
func run(t *testing.T, w *World) (r Result) {
	synctest.Test(t, func(*testing.T) { r = w.Run() })
	return r
}

// TestReplay: a seed gives the same again. Without faults the library draws no random number, so the
// whole history of plain locks comes back. With faults it does until the first retry of the library,
// whose pauses no seed reaches.
func TestReplay(t *testing.T) {
	s := drawOf(3, history.Locks) // no crowd: who of those that wait in one client runs first is not in the seed
	calm(&s)
	// else goroutines that can run at one moment run in any order: one message may wake several
	s.Fair, s.Quantum = false, 0
	first := anonymous(run(t, &World{Settings: s}).Ops)
	require.Greater(t, len(first), 50)
	require.Equal(t, first, anonymous(run(t, &World{Settings: s}).Ops))
}

// anonymous is a history without the clients' UUIDs, which are random.
func anonymous(ops []history.Op) []history.Op {
	const length = 36 // of a UUID
	for i := range ops {
		for _, owner := range []*string{&ops[i].Owner, &ops[i].Seen, &ops[i].Asked} {
			if len(*owner) > length {
				*owner = (*owner)[length:]
			}
		}
		ops[i].Error = ""
	}
	return ops
}

// TestNaps runs worlds in which all clients sleep now and then while the server goes on: no hold is
// trusted that may have ended meanwhile. One world at a time, for what notices a sleep belongs to
// the process.
func TestNaps(t *testing.T) {
	var sum totals
	for seeds := range worlds(t, []uint64{2, 4, 7, 8, 11}, upTo(12), []uint64{
		401878089, // an Unlock that called a lost lock released
	}) {
		for _, seed := range seeds {
			s := Draw(seed)
			if s.Kind == history.Elections { // Run does not say until when a term is trusted, so its end is known late
				s = drawOf(seed, history.Locks)
			}
			s.Naps = newSource(seed, 'n').between(s.Lease/2, 4*s.Lease)
			if seed%4 == 0 {
				s.Fair, s.Keeping = false, 1
				s.atHome(2)
			}
			s.Staying, s.Strangers = 0, 0 // how long a thing stays is by the server's clock
			r := run(t, &World{Settings: s})
			sum.add(r)
			history.Report(t, r.Problems, replay(t, seed))
		}
	}
	t.Logf("proof: simulation: naps: %s", &sum)
	require.Positive(t, sum.faults[Nap])
}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it would report every fault
	debug.SetGCPercent(400)   // each script makes a Lua state of its own on the emulated server

	leak.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
