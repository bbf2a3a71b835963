package simulation

import (
	"fmt"
	"strings"
	"sync"
	"time"

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
	done       map[history.Kind]int // of plain and fair locks
	events     history.Events       // of the others
	handed     int                  // grants that the server did not make
	kept       int                  // of these, of locks that nobody held then
	stayed     int                  // of locks that are to stay taken
	lost       int                  // holds that ended with ErrLost
	unknown    int                  // operations of unknown outcome
	faults     [kinds]int64
}

func (s *totals) add(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done, s.events = make(map[history.Kind]int), make(history.Events)
	}
	s.seeds++
	s.clients += r.Clients
	s.dead += r.Dead
	s.operations += len(r.Ops)
	s.violations += len(r.Problems)
	s.length += r.Length
	s.kept += history.Kept(r.Ops)
	for _, o := range r.Ops {
		if s.events.Add(o); o.Of != history.Locks {
			continue
		}
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
	return fmt.Sprintf("%.0f simulated hours, %d seeds, %d clients, %d operations: %d grants, %d of them handed on within a client (%d of kept locks), %d to stay taken for a while, %d re-entries, %d extensions, "+
		"%d places in queues beside %d of the dead, %d losses, %d of unknown outcome; %s; faults: %s; %d violations",
		s.length.Hours(), s.seeds, s.clients, s.operations,
		s.done[history.Lock]+s.done[history.Try], s.handed, s.kept, s.stayed, s.done[history.Reenter], s.done[history.Extend],
		s.done[history.Queue], s.dead, s.lost, s.unknown,
		s.events, strings.Join(faults, ", "), s.violations)
}

// missing is something that has not happened yet, and that a run without proves nothing about; empty
// if all has.
func (s *totals) missing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []history.Kind{
		history.Lock, history.Try, history.Reenter, history.Unlock, history.Extend, history.State, history.Crash,
		history.Queue,
	} {
		if s.done[kind] == 0 {
			return fmt.Sprint(kind)
		}
	}
	for f, n := range s.faults {
		if n == 0 && Fault(f) != Nap { // TestNaps has those
			return Fault(f).String()
		}
	}
	if missing := s.events.Missing(); len(missing) > 0 {
		return missing[0].String()
	}
	switch {
	case s.handed == 0:
		return "locks handed on within a client"
	case s.kept == 0:
		return "locks that a client has kept"
	case s.stayed == 0:
		return "locks that are to stay taken"
	case s.dead == 0:
		return "places of the dead"
	case s.lost == 0:
		return "losses"
	case s.unknown == 0:
		return "unknown outcomes"
	}
	return ""
}
