// Package simulation runs the whole library in virtual time: several clients, each behind a network of its own, and one
// emulated server, in a bubble of testing/synctest. An hour of leases, lost messages, partitions, restarts and crashes passes
// in a fraction of a second, and history's checks look at all that was done.
//
// A world has plain or fair locks, or, one in four, read-write locks, permits, latches or elections; see kinds.go.
//
// A [World] is one such run. Everything in it is drawn from one seed: who locks what and when, how long each message takes,
// which are lost, when faults come and go, when clients die. [World.Run] returns what was done and what was found wrong.
//
// What a run cannot show:
//
//   - A process that is paused beyond its lease. All goroutines of a bubble share the clock, and
//     the clock stands still while any of them can run.
//   - What the emulated server does not have: memory limits, permissions, replicas and failover,
//     Cluster. Those are tested on real servers.
//   - That it is the same on a real server. The emulation runs the library's own scripts, in
//     another Lua.
//
// At times a stranger puts things of its own under the names of locks: strings, hashes that are none, locks without an end.
//
// Fleets of processes die while they wait for fair locks, and leave thousands of places. What
// scripts do at the server is counted, and such places may cost it no more than to take each of
// them out. Processes are stopped there too; each may cost the others one claim.
//
// In worlds of their own all clients sleep now and then, as on a machine that is suspended, while the server goes on.
//
// In worlds of their own callers are the fault: crowds that give up within a few round trips, at a server that takes time for
// each command. A free lock is granted to somebody all the same, places at the server, commands and goroutines are bounded by
// how many callers there are, and the kind of each error is right by what the history knows.
//
// The clock of the server is not that of the clients: it runs up to a little less than one per cent faster or slower.
//
// Not promised: that a seed gives the same history twice. All choices of the simulation are the
// same, but goroutines that can run at one moment run in any order, and the library spreads its
// retries by random numbers that no seed reaches. Most of what a seed finds, it finds again.
package simulation

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/suspend"
)

// World is one run: a server, clients and what happens to them. It lives in a bubble.
type World struct {
	Settings
	// Hooks are added to every go-redis client. Mutated scripts are sent by them.
	Hooks []redis.Hook

	start   time.Time
	server  *miniredis.Miniredis
	faults  faultCounts
	traffic sync.WaitGroup // goroutines of connections
	granted workload.Granted
	work    work
	slept   atomic.Int64 // for how long all clients did, in nanoseconds

	mu        sync.Mutex // guards the rest
	downUntil time.Time
	alive     []*network
	clients   int                      // so far
	windows   []history.Window         // of faults that concern all
	local     map[int][]history.Window // of those of single clients
	closed    map[int][]history.Window // from when on clients were closed
	naps      []history.Window         // in which holds end late: who waits for that sleeps too
	histories [][]history.Op
	samples   []history.Sample
	problems  []history.Violation // found while it ran
	halted    map[string]*stopped // processes, by their ids
	foreign   map[string]bool     // names under which a stranger may have put something
	idle      time.Time           // when the server will have done all commands so far
	commands  int                 // so far
	loads     []load
	questions map[int]*questions // of each client
}

// Result is what came of a run.
type Result struct {
	Ops      []history.Op
	Faults   [kinds]int64
	Clients  int
	Dead     int           // places in queues that processes left when they died
	Length   time.Duration // in virtual time, all of it
	Problems []history.Violation
}

// Run runs the world. It must be called in a bubble of synctest, and leaves no goroutine there.
func (w *World) Run() Result {
	w.start, w.local, w.closed = time.Now(), make(map[int][]history.Window), make(map[int][]history.Window)
	w.questions = make(map[int]*questions)
	w.server = miniredis.NewMiniRedis()
	w.server.ClockTTL(true)
	if w.Naps > 0 {
		suspend.System.Forget()
		defer suspend.System.Forget()
	}
	w.flush() // also starts it, without a listener
	w.server.Server().SetPreHook(w.skew)

	ctx, stop := context.WithCancel(context.Background())
	storm, calm := context.WithCancel(ctx)
	var group, weather, audit sync.WaitGroup
	weather.Go(func() { w.disturb(storm) })
	audit.Go(func() { w.audit(ctx) })
	weather.Go(func() { w.visit(storm) })
	weather.Go(func() { w.mourn(storm) })
	weather.Go(func() { w.halt(storm) })
	weather.Go(func() { w.nap(storm) })
	weather.Go(func() { w.measure(storm) })
	for slot := range w.Clients {
		group.Go(func() {
			w.sleep(ctx, time.Duration(slot)*time.Microsecond) // else their numbers change
			w.inhabit(ctx, storm, newSource(w.Seed, 'g', uint64(slot)))
		})
	}
	w.sleep(ctx, w.Length)
	calm()
	weather.Wait()
	w.sleep(ctx, w.recovery()+w.Lease) // what was disturbed has to come right again by itself
	stop()
	group.Wait()
	audit.Wait()
	w.depart()
	w.server.Close()
	w.traffic.Wait()
	synctest.Wait()
	return w.result()
}

// Now is the clock of all recorders.
func (w *World) Now() int64 { return int64(time.Since(w.start)) }

// stale is for how long a message may be under way: then a kernel gives up. Those held for longer on purpose do arrive.
func (w *World) stale() time.Duration { return 20 * w.ReadTimeout }

// late is how much later than anything else a request may reach the server.
func (w *World) late() time.Duration {
	if len(w.Only) > 0 && !slices.Contains(w.Only, HeldRequest) {
		return 0
	}
	return w.Lease
}

// recovery is how long after a fault clients may need to be as they were: a dead subscription is noticed after two pings of 5 s
// each, what was sent last is tried again, stragglers arrive, and what is undone may pause for 30 s before it is tried.
func (w *World) recovery() time.Duration {
	return 12*time.Second + min(w.Lease, 30*time.Second) + w.RetryBudget + w.stale() + 5*w.DialTimeout + 100*w.slowest()
}

// sleep returns after d, or false when ctx ends.
func (w *World) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(w.round(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// round moves a duration to a multiple of the quantum.
func (w *World) round(d time.Duration) time.Duration {
	if w.Quantum == 0 || d <= 0 {
		return d
	}
	return (d + w.Quantum - 1) / w.Quantum * w.Quantum
}

// skew sets the server's clock before each script, and counts what scripts do.
func (w *World) skew(from *server.Peer, cmd string, args ...string) bool {
	if from != nil && isNested(from.Ctx) {
		w.work.did(from.Ctx)
		w.serveMore()
		if cmd == "HSET" && w.fairQueue() {
			w.handed(args[0], args[1])
		}
		return false
	}
	if from != nil {
		w.serve()
	}
	if cmd == "EVALSHA" || cmd == "EVAL" { // scripts call the server too, with its mutex held, but never these
		w.server.SetTime(w.serverTime())
	}
	return false
}

// serverTime is what the server's clock says.
func (w *World) serverTime() time.Time {
	past := time.Since(w.start)
	return w.start.Add(past + time.Duration(float64(past)*w.Skew) + time.Duration(w.slept.Load()))
}

func (w *World) networks() []*network {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*network(nil), w.alive...)
}

// flush has the server forget its scripts.
func (w *World) flush() {
	c, err := w.server.Dial()
	if err != nil {
		w.problem("simulation", err.Error())
		return
	}
	defer c.Close()
	var reply [16]byte
	if _, err = c.Write([]byte("*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n")); err == nil {
		_, err = c.Read(reply[:])
	}
	if err != nil || reply[0] != '+' {
		w.problem("simulation", "SCRIPT FLUSH: "+string(reply[:]))
	}
}

func (w *World) down() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.downUntil)
}

// restart has the server be gone for a time.
func (w *World) restart(ctx context.Context, d time.Duration) {
	w.mu.Lock()
	w.downUntil = time.Now().Add(d)
	w.mu.Unlock()
	for _, n := range w.networks() {
		n.cut()
	}
	w.sleep(ctx, d)
	w.flush()
}

// problem notes what is wrong beside the histories.
func (w *World) problem(check, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, history.Violation{Check: check, Text: text})
}
