package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func one(scenario, lock string, round int, metrics map[string]float64) sample {
	c, _ := contenderNamed(lock)
	return sample{Scenario: scenario, Contender: lock, Group: c.group, Round: round, Metrics: metrics}
}

func rate(x float64) map[string]float64 { return map[string]float64{metricRate: x} }

func gap(x, moved float64) map[string]float64 {
	return map[string]float64{metricGapMean: x, metricMoved: moved}
}

// invented is a report of numbers that are easy to divide.
func invented() *report {
	return &report{
		Config: config{Rounds: 2, Time: time.Second},
		Absent: []string{"redisson: no java"},
		Samples: []sample{
			one("clients", "rlock", 1, rate(200)), one("clients", "redsync", 1, rate(50)),
			one("clients", "redislock", 1, rate(100)),
			one("clients", "rlock", 2, rate(300)), one("clients", "redsync", 2, rate(75)),
			one("clients", "redislock", 2, rate(60)),
			one("clients", "floor", 1, rate(400)), one("clients", "floor", 2, rate(300)),
			one("gap16", "fairlock", 1, gap(100e-6, 1)), one("gap16", "redsync", 1, gap(50e-6, 0.06)),
			one("gap16", "rueidislock", 1, gap(170e-6, 1)),
			one("gap16", "rlock", 1, gap(100e-6, 0.05)),
		},
	}
}

func TestRatiosArePerRound(t *testing.T) {
	found := map[string]ratio{}
	for _, x := range invented().ratios(scenarios) {
		found[x.scenario+" "+x.lock+" "+x.against] = x
	}
	require.Len(t, found, 4)
	x := found["clients rlock best peer"]
	require.Equal(t, "3.00 (2.00..4.00)", x.spread.String(), "another peer is the best in each round")
	require.Equal(t, []string{"redislock", "redsync"}, x.best)
	require.Equal(t, "0.750 (0.500..1.00)", found["clients rlock floor"].spread.String())
	x = found["gap16 fairlock best peer"]
	require.Equal(t, "1.70", x.spread.String(), "less is better")
	require.Equal(t, []string{"rueidislock"}, x.best, "who takes it again itself is not compared with")
	x = found["gap16 rlock best peer"]
	require.Equal(t, "0.500", x.spread.String(), "unless ours does it too")
	require.Equal(t, []string{"redsync"}, x.best)
}

func TestAllIsWritten(t *testing.T) {
	dir, r := t.TempDir(), invented()
	var terminal strings.Builder
	require.NoError(t, r.write(config{Out: dir}, &terminal))
	require.Contains(t, terminal.String(), "rlock")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	lines, err := csv.NewReader(strings.NewReader(read("results.csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+len(r.Samples))
	var again report
	require.NoError(t, json.Unmarshal([]byte(read("results.json")), &again))
	require.Equal(t, r.Samples, again.Samples)
	md := read("table.md")
	for _, want := range []string{"### clients", "| rlock | 250 (200..300) |", "Left out: redisson: no java",
		"Nobody was inside together"} {
		require.Contains(t, md, want)
	}
	require.Contains(t, read("clients.svg"), "<svg")
	require.NoFileExists(t, filepath.Join(dir, "single.svg"), "nobody measured it")
}

// What a lock of Holdfast must not do ends the program with 1; of others it is only shown.
func TestTheExitCode(t *testing.T) {
	for what, spoil := range map[string]func(*sample){
		"overlap":  func(s *sample) { s.Safety.Overlaps = 1 },
		"disorder": func(s *sample) { s.Safety.Disorder = 1 },
		"lost":     func(s *sample) { s.Lost = 1 },
		"errors":   func(s *sample) { s.Errors = 1 },
		"failed":   func(s *sample) { s.Error = "no answer" },
	} {
		r := invented()
		require.Zero(t, r.code(), what)
		spoil(&r.Samples[1])
		require.Equal(t, "redsync", r.Samples[1].Contender)
		require.Zero(t, r.code(), what)
		require.Contains(t, r.markdown(), "clients, redsync, round 1:", what)
		spoil(&r.Samples[0])
		require.Equal(t, 1, r.code(), what)
		require.Contains(t, r.markdown(), "clients, rlock, round 1:", what)
	}
}
