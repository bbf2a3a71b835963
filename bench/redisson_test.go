package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
