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

// testBench measures for a moment, on the shared server, with workers that are processes of this
// test binary.
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
	t.Helper()
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
	t.Helper()
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

// The control: a quorum of less than a majority is found out, where the same with a majority lets
// nobody in.
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

// The control: the waiter of a lock whose lease ends before its holder is killed is not taken for
// fast.
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
