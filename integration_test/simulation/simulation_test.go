package simulation

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

var (
	// few are the quick level's worlds: the cheapest twenty of the first 200 in which all happens that is to, more than once.
	few = []uint64{18, 21, 22, 23, 27, 46, 51, 71, 91, 99, 132, 145, 159, 173, 180, 181, 184, 187, 189, 195}
	// many are those of all.
	many = upTo(50)
	// regressions are worlds that have found something; quickly they are left out.
	regressions = []uint64{
		119,       // who leaves a queue gives its place back before it says so
		794845675, // a server's clock that was set back remembers calls to a latch for longer
	}
)

func upTo(n uint64) (seeds []uint64) {
	for seed := range n {
		seeds = append(seeds, seed+1)
	}
	return seeds
}

// TestSimulation runs worlds, each drawn from a seed.
func TestSimulation(t *testing.T) {
	var sum totals
	for seeds := range worlds(t, few, many, regressions) {
		t.Run("worlds", func(t *testing.T) {
			for _, seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					r := run(t, &World{Settings: Draw(seed)})
					sum.add(r)
					history.Report(t, r.Problems, replay(t, seed))
				})
			}
		})
	}
	t.Logf("proof: simulation: %s", &sum)
	if !level.Exploring() && !t.Failed() {
		require.Empty(t, sum.missing(), "has not happened, and does in these worlds")
	}
}

// worlds are the seeds to run, some at a time: the level's with the regressions, or others while exploring, until a find.
func worlds(t *testing.T, few, many, regressions []uint64) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		if !level.Exploring() {
			if !testing.Short() {
				few = slices.Concat(regressions, many)
			}
			yield(few)
			return
		}
		batch, end := []uint64{level.Seed(t)}, time.Now().Add(level.Duration(t, time.Minute))
		for yield(batch) && !t.Failed() && time.Now().Before(end) {
			next := batch[len(batch)-1] + 1
			batch = []uint64{next, next + 1, next + 2, next + 3}
		}
	}
}

// replay is the command that runs a world again, and then explores from there.
func replay(t *testing.T, seed uint64) string {
	command := level.Replay(t, seed)
	if kind := os.Getenv(kindEnv); kind != "" {
		command = kindEnv + "=" + kind + " " + command
	}
	return command
}

// run runs a world in a bubble of its own.
func run(t *testing.T, w *World) (r Result) {
	synctest.Test(t, func(*testing.T) { r = w.Run() })
	return r
}

// TestReplay: a seed gives the same again. Without faults the library draws no random number, so the whole history of plain
// locks comes back. With faults it does until the first retry of the library, whose pauses no seed reaches.
func TestReplay(t *testing.T) {
	s := drawOf(3, history.Locks) // no crowd: who of those that wait in one client runs first is not in the seed
	calm(&s)
	// else goroutines that can run at one moment run in any order: one message may wake several
	s.Fair, s.Quantum = false, 0
	first := anonymous(run(t, &World{Settings: s}).Ops)
	require.Greater(t, len(first), 50)
	require.Equal(t, first, anonymous(run(t, &World{Settings: s}).Ops))
}

// anonymous is a history without the clients' UUIDs, which are random.
func anonymous(ops []history.Op) []history.Op {
	const length = 36 // of a UUID
	for i := range ops {
		for _, owner := range []*string{&ops[i].Owner, &ops[i].Seen, &ops[i].Asked} {
			if len(*owner) > length {
				*owner = (*owner)[length:]
			}
		}
		ops[i].Error = ""
	}
	return ops
}

// TestNaps runs worlds in which all clients sleep now and then while the server goes on: no hold is trusted that may have ended
// meanwhile. One world at a time, for what notices a sleep belongs to the process.
func TestNaps(t *testing.T) {
	var sum totals
	for seeds := range worlds(t, []uint64{2, 4, 7}, upTo(12), []uint64{
		401878089, // an Unlock that called a lost lock released
	}) {
		for _, seed := range seeds {
			s := Draw(seed)
			if s.Kind == history.Elections { // Run does not say until when a term is trusted, so its end is known late
				s = drawOf(seed, history.Locks)
			}
			s.Naps = newSource(seed, 'n').between(s.Lease/2, 4*s.Lease)
			if seed%4 == 0 {
				s.Fair, s.Keeping = false, 1
				s.atHome(2)
			}
			s.Staying, s.Strangers = 0, 0 // how long a thing stays is by the server's clock
			r := run(t, &World{Settings: s})
			sum.add(r)
			history.Report(t, r.Problems, replay(t, seed))
		}
	}
	t.Logf("proof: simulation: naps: %s", &sum)
	require.Positive(t, sum.faults[Nap])
}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it would report every fault
	debug.SetGCPercent(400)   // each script makes a Lua state of its own on the emulated server

	leak.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

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

// missing is something that has not happened yet, and that a run without proves nothing about; empty if all has.
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

// What makes frequent what a defence is against.

// calm has no faults, and a lease that is long against all that recovery takes.
func calm(s *Settings) {
	s.Lease = 30 * time.Minute
	s.Length, s.Life, s.FaultGap = 6*s.Lease, 100*s.Lease, 1000*s.Lease
	s.Think, s.Hold, s.Wait = s.Lease/4, s.Lease/20, s.Lease/10
}

// replies get lost all the time.
func replies(s *Settings) {
	s.Only, s.FaultGap, s.FaultLength = []Fault{LostReply}, s.Lease/2, s.Lease/2
	s.Think = min(s.Think, s.Lease)
}

// partitions of single clients last for longer than anybody tries.
func partitions(s *Settings) {
	s.RetryBudget, s.ReadTimeout, s.DialTimeout, s.Latency = 100*time.Millisecond, 100*time.Millisecond, time.Second,
		time.Millisecond
	s.Lease, s.Clients, s.Names = 5*time.Minute, 3, 1
	s.Length, s.Life, s.Think, s.Hold, s.Wait = 20*s.Lease, 20*s.Lease, s.Lease/4, s.Lease/8, s.Lease
	s.Only, s.FaultGap, s.FaultLength = []Fault{Partition}, s.Lease, s.Lease
}

// apart: goroutines of clients at different distances hand a lock on among themselves, and all wait for as long as it takes.
func apart(s *Settings) {
	calm(s)
	s.Apart, s.Alike, s.Clients, s.Names, s.Actors = true, true, 2, 1, 6
	s.Latency, s.ReadTimeout, s.Quantum = 100*time.Microsecond, 3*time.Second, 0
	s.Lease, s.Length, s.Life = 10*time.Second, 5*time.Minute, time.Hour
	s.Hold, s.Think, s.Wait = s.Lease/20, s.Lease/100, time.Hour
}

// oblivion: names rest for so long that their tokens are forgotten.
func oblivion(s *Settings) {
	calm(s)
	s.Lease, s.Think = 2*time.Hour, 4*time.Hour
	s.Length = 60 * s.Lease
}

// crowd: many wait for one lock in each of two clients, so it is handed on, and who tries it meets others that wait.
func crowd(s *Settings) {
	s.Clients, s.Names, s.Actors, s.Alike = 2, 1, 6, true
	s.Hold, s.Think, s.Wait = s.Lease/8, s.Lease/2, s.Lease
	s.Length, s.FaultGap = 30*s.Lease, 4*s.Lease
}

// keeping: each client keeps the lock that it wants most of the time, and others want it now and then.
func keeping(s *Settings) {
	calm(s)
	s.atHome(2)
	s.Keeping, s.Clients, s.Staying, s.Length = 1, 3, 0, 2*s.Lease
	s.Latency, s.ReadTimeout, s.Hold, s.Think = time.Millisecond, time.Second, s.Lease/100, s.Lease/100
}

// staying: every other lock is to stay taken for a while.
func staying(s *Settings) { s.Staying, s.Wait = 2, s.Lease }

// visited: strangers come all the time.
func visited(s *Settings) {
	calm(s)
	s.Names, s.Strangers, s.Length = 1, s.Lease/4, 10*s.Lease
}

// collecting: one owner has fifty locks at once, and loses them.
func collecting(s *Settings) {
	calm(s)
	s.Clients, s.Actors, s.Many = 1, 1, 50
}

// quickQueue: a lock with many waiters, and a lease so short that a wake-up may take less than the pause between polls.
func quickQueue(s *Settings) {
	calm(s)
	s.Lease, s.Latency = 2*time.Second, time.Millisecond
	s.Hold, s.Think, s.Wait, s.Names = 50*time.Millisecond, 100*time.Millisecond, time.Minute, 1
	s.Length, s.Life, s.FaultGap = 10*s.Lease, 100*s.Lease, 1000*s.Lease
	s.Clients, s.Actors = 3, 2
}

// fleets of processes die all the time.
func fleets(s *Settings) {
	quickQueue(s)
	s.Dead, s.Length = 1000, 4*s.Lease
}

// newcomers: a message takes as long as a lock is held, and clients come back when they have forgotten it.
func newcomers(s *Settings) {
	quickQueue(s)
	s.Lease, s.ReadTimeout, s.Latency = 30*time.Second, 3*time.Second, 150*time.Millisecond
	s.Hold, s.Think, s.Length, s.Clients, s.Actors = 500*time.Millisecond, 8*time.Second, 20*s.Lease, 5, 1
}

// busy has clients of the other kinds meet all the time, and nothing else happen.
func busy(s *Settings) {
	calm(s)
	s.Lease, s.Latency, s.ReadTimeout = 20*time.Second, time.Millisecond, 3*time.Second
	s.Length, s.Life, s.FaultGap = s.Lease, 100*s.Lease, 1000*s.Lease
	s.Hold, s.Think, s.Wait, s.Names, s.Quantum = time.Second, time.Second, 5*time.Second, 1, 0
	s.Clients, s.Actors = 2, 3
}

// readersAndWriters hold for longer than they think, so that others wait.
func readersAndWriters(s *Settings) {
	busy(s)
	s.Think, s.Actors, s.Length = 300*time.Millisecond, 4, 2*s.Lease
}

func permitHolders(s *Settings) {
	busy(s)
	s.Permits = 3
}

// quickPermits have leases so short that a wake-up may take less than the pause between polls.
func quickPermits(s *Settings) {
	quickQueue(s)
	s.Permits, s.Length = 1, 5*s.Lease
}

func candidates(s *Settings) {
	busy(s)
	s.Hold = 2 * time.Second
}

// lostAnswers are those of calls that are sent again at once.
func lostAnswers(s *Settings) {
	busy(s)
	s.ReadTimeout, s.RetryBudget, s.Names = time.Second, 10*time.Second, 1
	s.Only, s.FaultGap, s.FaultLength, s.Length = []Fault{LostReply}, s.Lease/4, s.Lease/8, 2*s.Lease
}
