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
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// storm is where processes work, and at what.
type storm struct {
	name  string
	soak  bool // only there: on a busy machine Sentinels may not agree, nor masters vote, in time
	start func(tb testing.TB, p redistest.Program, rng *rand.Rand) *target
	plan  func(seed uint64, i int, d time.Duration, t *target) plan // the i-th of so long a time
}

// TestChaos has processes use plain and fair locks.
func TestChaos(t *testing.T) {
	storms(t, storm{"single", false, onServer, calmAfterStorm}, storm{"cluster", false, onCluster, calmAfterStorm},
		storm{"sentinel", true, onSentinel, calmAfterStorm})
}

// TestFamily has processes use read-write locks, semaphores, latches and elections on one client.
func TestFamily(t *testing.T) {
	storms(t, storm{"single", false, onServer, familyPlan}, storm{"cluster", true, onCluster, familyPlan},
		storm{"sentinel", true, onSentinel, familyPlan})
}

// TestQuorum: masters are stopped, emptied and out of memory, a minority at a time, and processes cut off from some of them or
// all, in one direction or both, misled, stopped and killed. Clocks of masters are months apart, and half of the processes have
// proxies that keep their connections when a master is started anew. It is done once with hand-offs within the processes, and
// once without. And once each process lacks one of the masters all the time.
func TestQuorum(t *testing.T) {
	handed := func(seed uint64, _ int, d time.Duration, _ *target) plan {
		p := quorumPlan(seed, d)
		p.processes, p.Actors, p.Names = 2, 8, 2
		return p
	}
	alone := func(seed uint64, _ int, d time.Duration, _ *target) plan {
		p := quorumPlan(seed, d)
		p.Alone, p.Staying = true, 6
		return p
	}
	links := func(seed uint64, _ int, d time.Duration, _ *target) plan { return linksPlan(seed, d) }
	storms(t, storm{"handed on", true, onMasters, handed}, storm{"alone", true, onMasters, alone},
		storm{"links", true, onMasters, links})
}

// storms has each of some storms happen once, for a few seconds, or in a soak again and again.
func storms(t *testing.T, list ...storm) {
	level.ForAll(t)
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			if s.soak {
				level.ForSoak(t)
			}
			if !level.Soaking() { // else other tests run beside this one
				t.Parallel()
			}
			seed, long := level.Seed(t), level.Duration(t, 10*time.Second)
			if level.Exploring() {
				long = level.Duration(t, 30*time.Second)
			}
			rng := rand.New(rand.NewPCG(seed, 0))
			programs := redistest.Programs(t)
			target := s.start(t, programs[rng.IntN(len(programs))], rng)
			var total figures
			var missing []history.Family
			begun := time.Now()
			// On a machine that stands still nothing may happen in a storm; then there is another one.
			for i := 0; i < 10 && (total.done["grants"] == 0 || len(missing) > 0) || time.Since(begun) < long && !t.Failed(); i++ {
				p := s.plan(rng.Uint64(), i, min(long, 15*time.Second), target)
				f, found := p.run(t, target)
				history.Report(t, found, level.Replay(t, seed))
				if total.add(f); len(p.Kinds) > 0 {
					missing = untouched(&total)
				}
			}
			t.Logf("proof: chaos: %s: %s", target.name, &total)
			require.Positive(t, total.done["grants"])
			require.Empty(t, missing)
		})
	}
}

func onServer(tb testing.TB, p redistest.Program, _ *rand.Rand) *target  { return startServer(tb, p) }
func onCluster(tb testing.TB, p redistest.Program, _ *rand.Rand) *target { return startCluster(tb, p) }

// onSentinel needs a server that knows CLIENT PAUSE WRITE.
func onSentinel(tb testing.TB, p redistest.Program, _ *rand.Rand) *target {
	for _, other := range append([]redistest.Program{p}, redistest.Programs(tb)...) {
		if !strings.HasPrefix(other.Version, "6.") {
			return startSentinel(tb, other)
		}
	}
	tb.Skip("no server here is Redis 7 or later")
	return nil
}

func onMasters(tb testing.TB, p redistest.Program, rng *rand.Rand) *target {
	return startMasters(tb, p, apart(rng)...)
}

// localKinds are the faults of single processes that are drawn at random.
func localKinds() []string { return without(slices.Sorted(maps.Keys(local)), "next-link") }

// serverKinds are the faults that a single server bears.
func serverKinds(t *target) (kinds []string) {
	for _, kind := range without(slices.Collect(maps.Keys(global)), "restart", "foreign") {
		if (kind != "failover" || t.failover != nil) && (kind != "clock" || t.clock) {
			kinds = append(kinds, kind)
		}
	}
	if t.mode != single { // a server that is silent for long is replaced, with all that it has not passed on
		kinds = []string{"failover", "kill-pubsub", "kill-clients", "script-flush", "out-of-memory"}
	}
	slices.Sort(kinds)
	return kinds
}

// calmAfterStorm plans a slice. Every other one has long leases, so that their end does not hide a waiter that is not woken.
func calmAfterStorm(seed uint64, i int, d time.Duration, t *target) plan {
	p := plan{
		work: work{Fair: seed%2 == 0, Lease: time.Second, Actors: 4, Names: 3, Period: 3 * time.Second},
		seed: seed, processes: 3, gap: 300 * time.Millisecond, recovery: 2500 * time.Millisecond, shape: drawShape,
		local: localKinds(), global: serverKinds(t),
	}
	p.calm = min(d*2/5, 4*time.Second)
	p.Hasty = drawHasty(seed)
	if i%2 == 1 && d > 12*time.Second {
		p.Lease, p.calm = 8*time.Second, 7*time.Second
		p.local = without(p.local, "pause-beyond-lease", "kill-paused") // would take up the whole storm
		p.global = without(p.global, "no-scripts", "no-publish")        // nothing but the lease helps against these
	}
	if p.storm = d - p.calm; !p.Fair {
		p.Keeping = 1 + int(seed/2%2) //nolint:gosec // small
	}
	return p
}

// drawHasty draws how many callers come in bursts: none in half of the plans. Who leaves may have been
// granted a lock in that moment, so less is expected of the others.
func drawHasty(seed uint64) int {
	if rng := rand.New(rand.NewPCG(seed, 3)); rng.IntN(2) == 0 {
		return 8 + 8*rng.IntN(4)
	}
	return 0
}

// familyPlan is of processes each of which uses all the other kinds.
func familyPlan(seed uint64, _ int, d time.Duration, t *target) plan {
	p := calmAfterStorm(seed, 0, d, t)
	p.Fair, p.Keeping, p.Kinds = false, 0, allKinds()
	p.storm, p.calm = d/2, min(d/2, bound)
	p.Actors, p.Names, p.Hasty = 3, 1, p.Hasty/4 // of each kind
	p.Period = 700 * time.Millisecond            // latches with many calls of unknown outcome take long to check
	return p
}

// quorumPlan is a storm over masters of a quorum and the processes that lock there.
func quorumPlan(seed uint64, d time.Duration) plan {
	return plan{
		work: work{Lease: time.Second, Actors: 4, Names: 3, Period: 2 * time.Second, Hasty: drawHasty(seed) / 4},
		seed: seed, storm: d / 2, calm: 4 * time.Second, progress: true, processes: 3, gap: 300 * time.Millisecond,
		recovery: 2500 * time.Millisecond, shape: drawShape, kept: 0.5, local: localKinds(), global: quorumKinds(),
	}
}

// quorumKinds are the faults of masters that are drawn at random.
func quorumKinds() []string {
	kinds := []string{"kill-clients", "kill-pubsub", "out-of-memory", "pause", "pause-beyond-lease", "restart", "script-flush"}
	if haveCompiler() {
		kinds = append(kinds, "clock")
	}
	return kinds
}

func without(list []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(some, s) })
}

// untouched are the kinds with which nothing was done.
func untouched(f *figures) (list []history.Family) {
	for _, kind := range allKinds() {
		if f.others[granted[kind]] == 0 {
			list = append(list, kind)
		}
	}
	return list
}

// granted is the least that happens with each kind.
var granted = map[history.Family]history.Event{
	history.ReadWrite: {Of: history.ReadWrite, Kind: history.Lock, Result: history.OK, Shared: true},
	history.Permits:   {Of: history.Permits, Kind: history.Lock, Result: history.OK},
	history.Latches:   {Of: history.Latches, Kind: history.CountDown, Result: history.OK},
	history.Elections: {Of: history.Elections, Kind: history.Lock, Result: history.OK},
}

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

// counts reports whether a key is a semaphore's counters, which stand while it remembers its size. A census checks them.
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
