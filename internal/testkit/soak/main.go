// Command soak runs the tests that explore, with new seeds, until its time is over:
//
//	soak -overlay FILE 30m
//
// A test explores if it draws a seed, looks for the level, or says that it is for a soak, itself or through functions of its package.
// Nobody keeps a list of those. Tests run in turn, each in a process
// of its own, as many at a time as there are cores. Each has a line when it fails, with the command that
// replays it, and its output is kept in bin/soak.
//
// Not promised: that a replay fails again. It has the same seed, and another schedule.
//
// Interrupted or terminated, it ends what it has started, and says what it found until then.
//
// The exit code is 1 if a test failed, and 2 if nothing could be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	overlay := flag.String("overlay", "", "the file that internal/testkit/overlay wrote, with the switches of the controls")
	flag.Parse()
	duration, err := time.ParseDuration(flag.Arg(0))
	if err != nil || duration <= 0 || flag.NArg() != 1 {
		fmt.Fprintf(os.Stderr, "soak: %q is no time to explore for: give one such as 30m\n", flag.Arg(0))
		os.Exit(2)
	}
	found, err := soak(*overlay, duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if found > 0 {
		os.Exit(1)
	}
}

// soak explores for a while and returns how many runs failed.
func soak(overlay string, duration time.Duration) (failures int, err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return 0, err
	}
	logs := filepath.Join(root, "bin", "soak")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return 0, err
	}
	tests, err := explorers(root)
	if err != nil {
		return 0, err
	}
	if len(tests) == 0 {
		return 0, errors.New("no test calls package level; start it in the root of the repository")
	}
	if err := build(tests, logs, overlay); err != nil {
		return 0, err
	}
	fmt.Printf("soak: %d tests explore, for %v\n", len(tests), duration)
	asked, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(asked, duration, errors.New("the soak's time is over"))
	defer cancel()
	s := &soaker{logs: logs, tests: tests, count: make(map[string]int)}
	s.all(ctx)
	s.report()
	return s.failures, nil
}

// soaker hands out the tests in turn, and counts.
type soaker struct {
	logs  string
	tests []test

	mu       sync.Mutex // guards what is below
	next     int
	count    map[string]int // runs that ended, by test
	failures int
}

// all runs tests until ctx ends, as many at a time as there are cores.
func (s *soaker) all(ctx context.Context) {
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() {
			for ctx.Err() == nil {
				t := s.turn()
				seed := 1 + rand.Uint64N(1e9)
				s.ended(t, t.run(ctx, s.logs, seed), seed)
			}
		})
	}
	running.Wait()
}

// turn returns the test whose turn it is.
func (s *soaker) turn() test {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.tests[(s.next-1)%len(s.tests)]
}

// ended counts a run, and prints what it found.
func (s *soaker) ended(t test, r verdict, seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.stopped:
	case r.failed:
		s.failures++
		fmt.Printf("FOUND %s: %s\n  replay: %s\n  output: %s\n", t, r.why, t.replay(seed), r.log)
		fallthrough
	default:
		s.count[t.String()]++
	}
}

func (s *soaker) report() {
	runs := 0
	for _, t := range s.tests {
		n := s.count[t.String()]
		runs += n
		if n == 0 {
			fmt.Printf("soak: %s had no run that ended; give it more time\n", t)
		}
	}
	fmt.Printf("soak: %d runs of %d tests, %d failed\n", runs, len(s.tests), s.failures)
}
