package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// worked says that a measurement has counted what its scenario is about.
func worked(got sample) bool {
	return got.Metrics[metricRate] > 0 && (got.Scenario != "writer" || got.Metrics[metricReads] > 0)
}

// readers, a writer, permits and leaders are measured as what they are, and so are those beside
// them.
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

// The control: what lets a writer in among readers, or more in than there are permits, is found
// out.
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

// Candidates who wait are no more work than waiters of a fair lock; that is for a full run to say.
// Here both are counted.
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
