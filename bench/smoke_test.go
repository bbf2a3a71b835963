package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// testBench measures for a moment, on the shared server, with workers that are processes of this test binary.
func testBench(t *testing.T) *bench {
	self, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "holdfast-bench-test-") // T.TempDir is closed to the user that PostgreSQL runs as
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	b := &bench{
		config: config{Rounds: 1, Time: 200 * time.Millisecond, WarmUp: 50 * time.Millisecond, Waiters: 50, Held: 100,
			run: t.Name(), scenarios: scenarios},
		addr: redistest.Shared(t).Addr(), dir: dir, worker: []string{self, workerArg},
	}
	b.rdb = redis.NewClient(&redis.Options{Addr: b.addr})
	t.Cleanup(func() { b.rdb.Close() })
	return b
}

func pick(t *testing.T, scenarioName, contenderName string) (scenario, contender) {
	s, err := choose("scenario", scenarioName, scenarios, func(s scenario) string { return s.name })
	require.NoError(t, err)
	c, ok := contenderNamed(contenderName)
	require.True(t, ok)
	return s[0], c
}

// measured measures until that is enough, for which a moment is too short on a busy machine.
func (b *bench) measured(t *testing.T, s scenario, c contender, enough func(sample) bool) sample {
	for longer := *b; ; longer.Time *= 2 {
		got, err := longer.measure(t.Context(), s, c, 1)
		require.NoError(t, err)
		if enough(got) || longer.Time > 10*time.Second {
			return got
		}
	}
}

// well measures once, which must go well.
func (b *bench) well(t *testing.T, s scenario, c contender) sample {
	got, err := b.measure(t.Context(), s, c, 1)
	require.NoError(t, err)
	require.False(t, got.bad(), "%s: %+v", c.name, got)
	return got
}

func anybody(got sample) bool     { return got.Safety.Entries > 0 && got.Metrics[metricRate] > 0 } // not only after its end
func overlapping(got sample) bool { return got.Safety.Overlaps > 0 }
func unsafely(got sample) bool    { return overlapping(got) && got.Safety.Disorder > 0 }

// Each lock in Go is measured, in one process and in two.
func TestEachLockIsMeasured(t *testing.T) {
	b := testBench(t)
	b.contenders = slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool {
		return strings.HasPrefix(c.name, "broken") || c.name == "minority" || c.needs == needJava
	})
	stops, absent := b.prepare(t.Context())
	for _, stop := range stops {
		t.Cleanup(stop)
	}
	for _, why := range absent {
		require.Regexp(t, "^(pg-advisory|etcd): no |: no redis-server and no valkey-server", why,
			"only what is not installed is left out")
		t.Log("left out, as the program leaves it out:", why)
	}
	for _, c := range b.contenders {
		in := []string{"clients", "gap2", "quorum", "quorum8"}
		switch c.name {
		case "rlock":
			in = append(in, "names", "keep2", "far1") // what differs is not the lock's
		case "rlock-keep":
			in = append(in, "keep2")
		case "rlock-background":
			in = []string{"single"}
		}
		for _, name := range in {
			s, _ := pick(t, name, c.name)
			if !b.has(s, c) {
				continue
			}
			if s.quorum {
				s.goroutines = min(s.goroutines, 4) // more would split the votes for all of this moment
			}
			got := b.measured(t, s, c, anybody)
			require.Zero(t, got.unsafe(), "%s: %+v", c.name, got)
			if c.name != "redsync-5-failfast" { // whose unlock may not find what its lock has not written yet
				require.False(t, got.bad(), "%s: %+v", c.name, got)
			}
			require.Positive(t, got.Metrics[metricRate], c.name)
			require.Positive(t, got.Safety.Entries, c.name)
			if name == "far1" {
				require.Greater(t, got.Metrics[metricWaitP50], 0.001, "farther by a millisecond")
			}
			if !s.quorum && c.group != another {
				require.Positive(t, got.Metrics[metricServer], c.name)
			}
			if c.open != nil {
				require.Positive(t, got.Metrics[metricCPU], c.name)
			}
			if name == "gap2" {
				require.Positive(t, got.Metrics[metricGapMean], c.name)
			}
			if s.quorum {
				require.Greater(t, got.Metrics[metricCommands], 2.0, "%s: commands of the masters", c.name)
			}
		}
	}
}

// The control: what does not lock is found out, also over two processes.
func TestABrokenLockIsFoundOut(t *testing.T) {
	b := testBench(t)
	for _, name := range []string{"clients", "gap2"} {
		s, c := pick(t, name, "broken")
		got := b.measured(t, s, c, unsafely)
		require.Empty(t, got.Error)
		require.Positive(t, got.Safety.Overlaps, name)
		require.Positive(t, got.Safety.Disorder, name)
		require.Equal(t, 1, (&report{Samples: []sample{got}}).code(), name)
	}
}

// withMasters starts the masters of the scenarios of a quorum.
func withMasters(t *testing.T, b *bench) {
	addrs, stop, err := startMasters(t.Context(), b.dir)
	require.NoError(t, err)
	t.Cleanup(stop)
	b.masters = addrs
}

// The control: a quorum of less than a majority is found out, where the same with a majority lets nobody in.
func TestAMinorityIsFoundOut(t *testing.T) {
	b := testBench(t)
	b.Time = time.Second
	withMasters(t, b)
	measured := map[string]sample{}
	for name, enough := range map[string]func(sample) bool{"minority": overlapping, "floor-5": anybody} {
		s, c := pick(t, "quorum8", name)
		s.section = 5 * time.Millisecond // long enough for another one to come in
		measured[name] = b.measured(t, s, c, enough)
	}
	require.Positive(t, measured["minority"].Safety.Overlaps)
	require.Equal(t, 1, (&report{Samples: []sample{measured["minority"]}}).code())
	require.Zero(t, measured["floor-5"].unsafe())
}

func TestTheFloorNeedsAMajorityOfMasters(t *testing.T) {
	b := testBench(t)
	withMasters(t, b)
	for _, dead := range []int{2, 3} {
		t.Run(strconv.Itoa(dead)+" dead", func(t *testing.T) {
			t.Parallel()
			masters := slices.Clone(b.masters)
			for i := range dead {
				masters[i] = "127.0.0.1:1" // nobody listens there
			}
			c, err := openFloorQuorum(job{Masters: masters})
			require.NoError(t, err)
			lock, err := c.locker(t.Context(), t.Name())
			require.NoError(t, err)
			unlock, _, err := lock(t.Context())
			if dead == 2 {
				require.NoError(t, err)
				require.NoError(t, unlock())
			} else {
				require.ErrorContains(t, err, "refused")
			}
			require.NoError(t, c.close())
		})
	}
}

func TestAKilledHolderIsFollowed(t *testing.T) {
	b := testBench(t)
	for _, lock := range []string{"rlock", "fairlock"} {
		s, c := pick(t, "crash", lock)
		require.Positive(t, b.well(t, s, c).Metrics[metricTakeover])
	}
}

// The control: the waiter of a lock whose lease ends before its holder is killed is not taken for fast.
func TestATakeoverBeforeTheCrashIsAFailure(t *testing.T) {
	b := testBench(t)
	s, c := pick(t, "crash", "floor")
	s.lease = 100 * time.Millisecond // the holder lives for half a second at least, and the floor renews nothing
	got, err := b.measure(t.Context(), s, c, 1)
	require.NoError(t, err)
	require.True(t, got.bad())
	require.Contains(t, got.Error, "before its holder was killed")
	require.Positive(t, got.Safety.Overlaps)
}

func TestWaitersAndHeldNamesAreMeasured(t *testing.T) {
	b := testBench(t)
	for _, lock := range []string{"rlock", "fairlock"} {
		s, c := pick(t, "waiters", lock)
		got := b.well(t, s, c)
		require.EqualValues(t, 50, got.Safety.Entries)
		require.InDelta(t, 1, got.Metrics[metricSubscriptions], 0)
		require.Positive(t, got.Metrics[metricMemory])
		require.Positive(t, got.Metrics[metricScripts])
		require.Greater(t, got.Metrics[metricCommands], got.Metrics[metricScripts], "what scripts call counts too")

		s, c = pick(t, "held", lock)
		s.lease = 3 * time.Second
		got = b.well(t, s, c)
		require.Positive(t, got.Metrics[metricScriptRate], "renewals")
		require.Positive(t, got.Metrics[metricLeastTrust])
		require.InDelta(t, 3, got.Metrics[metricLease], 0)
	}
}

// What a worker cannot do is the sample's error, and not a hang.
func TestAWorkerThatFailsSaysWhy(t *testing.T) {
	b := testBench(t)
	s, c := pick(t, "single", "rlock")
	b.addr = "127.0.0.1:1" // nobody listens there
	got, err := b.measure(t.Context(), s, c, 1)
	require.NoError(t, err)
	require.True(t, got.bad())
	s, c = pick(t, "waiters", "redsync")
	got, err = b.measure(t.Context(), s, c, 1)
	require.NoError(t, err)
	require.Contains(t, got.Error, "only Holdfast")
	b.worker = []string{"false"}
	got, err = b.measure(t.Context(), s, c, 1)
	require.NoError(t, err)
	require.True(t, got.bad())
}

// worked says that a measurement has counted what its scenario is about.
func worked(got sample) bool {
	about := map[string]string{"writer": metricReads, "resign-far5": metricTrips}[got.Scenario]
	return got.Metrics[metricRate] > 0 && (about == "" || got.Metrics[about] > 0)
}

// readers, a writer, permits and leaders are measured as what they are, and so are those beside them.
func TestEachKindIsMeasured(t *testing.T) {
	b := testBench(t)
	for name, contenders := range map[string][]string{
		"readers":     {"rwlock", "rlock", "floor"},
		"writer":      {"rwlock", "floor-rw"},
		"semaphore":   {"semaphore", "floor-permits"},
		"resign":      {"election", "fairlock", "floor-election"},
		"resign-far5": {"election"},
	} {
		for _, contender := range contenders {
			s, c := pick(t, name, contender)
			require.True(t, s.takes(c), "%s in %s", contender, name)
			got := b.measured(t, s, c, worked)
			require.False(t, got.bad(), "%s, %s: %+v", name, contender, got)
			require.Positive(t, got.Metrics[metricRate], "%s, %s", name, contender)
			require.Positive(t, got.Safety.Entries)
			if name == "writer" {
				require.Positive(t, got.Metrics[metricReads], contender)
				require.Positive(t, got.Metrics[metricLongestRead], contender)
			}
			if contender == "semaphore" || contender == "rwlock" {
				require.Positive(t, got.Metrics[metricScripts])
			}
			if name == "resign-far5" {
				require.Greater(t, got.Metrics[metricTrips], 1.0, "a round trip and a message")
			}
		}
	}
}

// The control: what lets a writer in among readers, or more in than there are permits, is found out.
func TestBrokenKindsAreFoundOut(t *testing.T) {
	b := testBench(t)
	for _, name := range []string{"writer", "semaphore"} {
		s, c := pick(t, name, "broken-"+name)
		s.section = 5 * time.Millisecond
		got := b.measured(t, s, c, overlapping)
		require.Empty(t, got.Error)
		require.Positive(t, got.Safety.Overlaps, name)
		require.Equal(t, 1, (&report{Samples: []sample{got}}).code(), name)
	}
}

func TestALatchIsMeasured(t *testing.T) {
	b := testBench(t)
	for _, contender := range []string{"latch", "floor-latch"} {
		s, c := pick(t, "latch", contender)
		s.processes, s.goroutines, s.laps, s.warmLaps = 2, 10, 2, 1
		got := b.well(t, s, c)
		require.Positive(t, got.Metrics[metricAwakeAll])
		require.InDelta(t, 2, got.Metrics[metricSubscriptions], 0, "one for each client")
		require.InDelta(t, 2, got.Metrics[metricMessages], 0, "one for each client")
	}
	// The control: who does not wait is found out.
	s, c := pick(t, "latch", "broken-latch")
	s.processes, s.goroutines, s.laps, s.warmLaps = 1, 2, 1, 0
	got, err := b.measure(t.Context(), s, c, 1)
	require.NoError(t, err)
	require.True(t, got.bad())
	require.Contains(t, got.Error, "before the last count-down")
}

// Candidates who wait are no more work than waiters of a fair lock; that is for a full run to say. Here both are counted.
func TestIdleCandidatesAreCounted(t *testing.T) {
	b := testBench(t)
	for _, contender := range []string{"election", "fairlock"} {
		s, c := pick(t, "candidates", contender)
		s.clients, s.goroutines = 2, 10
		got := b.well(t, s, c)
		require.Positive(t, got.Metrics[metricCommandRate], contender)
	}
}

// A leader's successor leads when its lease has ended, as the server counts it.
func TestAKilledLeaderIsFollowedAtItsLease(t *testing.T) {
	b := testBench(t)
	s, c := pick(t, "crash", "election")
	require.Contains(t, b.well(t, s, c).Metrics, metricAfterLease)
}

// The worker in Java measures the other kinds of Redisson, too.
func TestTheWorkerInJavaKnowsTheKinds(t *testing.T) {
	b := withJava(t)
	if b == nil {
		return
	}
	b.JavaWarmUp, b.Time = 100*time.Millisecond, time.Second // its first commands load classes
	for name, contender := range map[string]string{"writer": "redisson-rw", "semaphore": "redisson-permits",
		"latch": "redisson-latch", "fleet": "fleet-rlock", "fleet-held": "fleet-fairlock"} {
		s, c := pick(t, name, contender)
		if name == "latch" {
			s.processes, s.goroutines, s.laps, s.warmLaps = 1, 10, 2, 1
		}
		// Its readers may never let the writer in.
		got := b.measured(t, s, c, func(got sample) bool { return got.Metrics[metricReads] > 0 || worked(got) || name == "latch" })
		require.False(t, got.bad(), "%s: %+v", name, got)
		if name != "latch" {
			require.Positive(t, got.Safety.Entries, name)
		}
		if name == "writer" {
			require.Positive(t, got.Metrics[metricReads])
		}
		if c.kind == aFleet { // the second side, which is Holdfast's, had its part
			require.Greater(t, got.Metrics[metricAllRate], got.Metrics[metricRate], name)
			require.Less(t, got.Metrics[metricFirstShare], 1.0, name)
		}
	}
}

// The worker in Java has a page of its own making: that it finds two inside is shown by two workers
// that lock different names and write to the same slot. The control: of one name it finds nobody.
func TestTheWorkerInJavaFindsTwoInside(t *testing.T) {
	b := withJava(t)
	if b == nil {
		return
	}
	s, c := pick(t, "gap2", "redisson")
	for _, names := range [][2]string{{"java:a", "java:a"}, {"java:b", "java:c"}} {
		two := names[0] != names[1]
		var got sample
		// For longer and longer: on a busy machine the two need not meet in a moment.
		for took := 500 * time.Millisecond; took < 20*time.Second; took *= 4 {
			page, path, remove, err := b.newPage()
			require.NoError(t, err)
			jobs := []job{b.job(s, c, names[0], taskPairs, path), b.job(s, c, names[1], taskPairs, path)}
			jobs[1].Process = 1
			got = javaPair(t, b.command(c), jobs, page, took)
			remove()
			if got.Safety.Entries > 0 && got.Safety.Overlaps > 0 == two {
				break
			}
		}
		require.Zero(t, got.Errors, got.Error)
		require.Positive(t, got.Safety.Entries)
		require.Equal(t, two, got.Safety.Overlaps > 0, "%v: %+v", names, got)
	}
}

// withJava is testBench with the worker in Java, or nil where that has not been built yet.
func withJava(t *testing.T) *bench {
	b := testBench(t)
	done, err := redissonBuilt()
	require.NoError(t, err)
	if _, err := os.Stat(done); err != nil {
		t.Log("left out: the worker is built by Maven when the benchmark first runs, and it has not run here yet")
		return nil
	}
	b.redisson, err = buildRedisson(t.Context())
	require.NoError(t, err)
	return b
}

// javaPair lets two workers lock for a while.
func javaPair(t *testing.T, command []string, jobs []job, p *page, took time.Duration) (got sample) {
	team, err := assemble(t.Context(), command, jobs...)
	require.NoError(t, err)
	defer team.stop()
	from := now()
	require.NoError(t, team.tell(window{from, from + int64(took)}))
	results, err := team.results(t.Context())
	require.NoError(t, err)
	got.check(p, results)
	return got
}
