package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

func TestMain(m *testing.M) { leak.Main(m) }

const example = "testdata/example"

// TestExploring: a test that draws a seed by a function of its package explores, as one for soaks does; a level is not enough.
func TestExploring(t *testing.T) {
	names, err := exploring(example)
	require.NoError(t, err)
	require.Equal(t, []string{"TestFinds", "TestPasses"}, names)
	names, err = exploring("../model/latch")
	require.NoError(t, err)
	require.Contains(t, names, "TestLatchModel", "its bounds are wider in a soak, by another package")
	require.Contains(t, names, "TestLatchModelIsLikeTheScripts", "another package draws its seed")
	names, err = exploring(".")
	require.NoError(t, err)
	require.Empty(t, names, "the tests here mention level, and do not explore")
}

// TestSoak: a failed run is counted and kept, with its replay command; a passed one is counted; one cut off by the end is not.
func TestSoak(t *testing.T) {
	logs := t.TempDir()
	tests := []test{{folder: example, name: "TestFinds"}, {folder: example, name: "TestPasses"}}
	require.NoError(t, build(tests, logs, ""))
	s := &soaker{logs: logs, tests: tests, count: make(map[string]int)}
	for range 2 {
		next := s.turn()
		v := next.run(t.Context(), logs, 7)
		require.False(t, v.stopped)
		s.ended(next, v, 7)
		if next.name != "TestFinds" {
			continue
		}
		require.Contains(t, v.why, "found it")
		out, err := os.ReadFile(v.log)
		require.NoError(t, err)
		require.Contains(t, string(out), level.SeedEnv+"=7 go test")
	}
	require.Equal(t, 1, s.failures)
	require.Equal(t, map[string]int{example + ".TestFinds": 1, example + ".TestPasses": 1}, s.count)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, tests[0].run(over, logs, 7).stopped)
}

// TestBuildFails: a package whose tests do not compile is an error, and no soak of less.
func TestBuildFails(t *testing.T) {
	require.ErrorContains(t, build([]test{{folder: "no/such", name: "TestX"}}, t.TempDir(), ""), "no/such")
}

// TestReplay: the command names what a person needs, from the root.
func TestReplay(t *testing.T) {
	require.Equal(t, `HOLDFAST_SOAK=1 HOLDFAST_SEED=7 go test -race -count=1 -overlay "$(go run ./internal/testkit/overlay)" -run '^TestX$' ./rlock`,
		test{folder: "rlock", name: "TestX"}.replay(7))
	require.NoFileExists(t, filepath.Join(example, "ran"))
}
