package simulation

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// totals add up what runs have done, so that runs in which nothing happened do not pass for proof.
type totals struct {
	mu         sync.Mutex // guards the rest
	seeds      int
	clients    int
	dead       int
	operations int
	violations int
	length     time.Duration
	done       map[history.Kind]int
	handed     int // grants that the server did not make
	stayed     int // of locks that are to stay taken
	lost       int // holds that ended with ErrLost
	unknown    int // operations of unknown outcome
	faults     [kinds]int64
}

func (s *totals) add(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(map[history.Kind]int)
	}
	s.seeds++
	s.clients += r.Clients
	s.dead += r.Dead
	s.operations += len(r.Ops)
	s.violations += len(r.Problems)
	s.length += r.Length
	for _, o := range r.Ops {
		if o.Handed {
			s.handed++
		}
		if o.Least > 0 && o.Kind != history.Reenter && o.Result == history.OK {
			s.stayed++
		}
		switch {
		case o.Kind == history.End && o.Result == history.Lost:
			s.lost++
		case o.Result == history.OK:
			s.done[o.Kind]++
		case o.Result == history.Unknown:
			s.unknown++
		}
	}
	for f, n := range r.Faults {
		s.faults[f] += n
	}
}

func (s *totals) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var faults []string
	for f, n := range s.faults {
		faults = append(faults, fmt.Sprintf("%d %v", n, Fault(f)))
	}
	return fmt.Sprintf("%.0f simulated hours, %d seeds, %d clients, %d operations: %d grants, %d of them handed on within a client, %d to stay taken for a while, %d re-entries, %d extensions, "+
		"%d places in queues beside %d of the dead, %d losses, %d of unknown outcome; faults: %s; %d violations",
		s.length.Hours(), s.seeds, s.clients, s.operations,
		s.done[history.Lock]+s.done[history.Try], s.handed, s.stayed, s.done[history.Reenter], s.done[history.Extend],
		s.done[history.Queue], s.dead, s.lost, s.unknown,
		strings.Join(faults, ", "), s.violations)
}

// requireAll fails unless everything has happened.
func (s *totals) requireAll(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []history.Kind{
		history.Lock, history.Try, history.Reenter, history.Unlock, history.Extend, history.State, history.Crash,
		history.Queue,
	} {
		require.Positive(t, s.done[kind], kind)
	}
	require.Positive(t, s.handed, "locks handed on within a client")
	require.Positive(t, s.stayed, "locks that are to stay taken")
	if s.seeds > 100 { // one in twelve has them
		require.Positive(t, s.dead, "places of the dead")
	}
	require.Positive(t, s.lost, "losses")
	require.Positive(t, s.unknown, "unknown outcomes")
	for f, n := range s.faults {
		if Fault(f) == Nap {
			continue // TestNaps has those
		}
		require.Positive(t, n, Fault(f).String())
	}
}

func (s *totals) hours() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.length.Hours()
}
