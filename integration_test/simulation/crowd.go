package simulation

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// crowded chooses settings of a world in which callers are the fault. Beside a few who wait for as long as it takes,
// crowds come in bursts: many more callers than the lock can serve, who give up within a few round trips, or have given up
// before they call. The server takes time for each command. Of twelve seeds in a row each kind has two: one without other
// faults, and one with a network that is silent now and then.
func crowded(seed uint64) Settings {
	rng := newSource(seed, 'c')
	kind := append([]history.Family{history.Locks, history.Locks}, others...)[seed%6]
	s := Settings{
		Seed: seed, Kind: kind, Fair: kind == history.Locks && seed%6 == 1,
		Lease: 10 * time.Second, Length: 30 * time.Second, Life: time.Hour, FaultGap: time.Hour,
		Clients: 2, Actors: 2, Names: 1, Permits: 1 + rng.IntN(3), Crowd: 4 + rng.IntN(12),
		Latency: rng.between(50*time.Microsecond, 30*time.Millisecond), Apart: rng.IntN(2) == 0, Skew: 0.0095 * (2*rng.Float64() - 1),
		RetryBudget: 2 * time.Second, ReadTimeout: time.Second, DialTimeout: time.Second, DialerRetries: 1,
		Contexts: seed/12%2 == 1,
	}
	s.Service = rng.between(s.Latency/20, min(2*s.Latency, 5*time.Millisecond))
	s.Wait, s.Think, s.Hold = s.Lease, max(20*s.trip(), 4*time.Second), s.trip()
	s.Burst = min(30*s.trip(), s.Length/(2*bursts))
	if seed/6%2 == 1 {
		s.silence(s.Length/4, s.Lease/2)
	}
	return s
}

// silence has the network be silent, for as long as callers need to know that it is.
func (s *Settings) silence(gap, length time.Duration) {
	s.Only, s.FaultGap, s.FaultLength, s.ReadTimeout = []Fault{Partition}, gap, length, 3*time.Second
}

// bursts is how often a crowd comes.
const bursts = 3

// trip is how long a question takes that finds no other before it.
func (s *Settings) trip() time.Duration { return 2*s.Latency + s.Service }

// queueing is how long a question waits at the server if all callers ask at once.
func (s *Settings) queueing() time.Duration {
	return time.Duration(s.Clients*(s.Actors+s.Crowd)) * s.Service
}

// window is how long a wanted free lock may be granted to nobody: a waiter that was not told looks within a second, and a grant
// to a caller who leaves costs a trip back, perhaps many times in a row.
func (s *Settings) window() time.Duration {
	if s.Crowd == 0 {
		return 0
	}
	return time.Second + 20*s.trip() + 2*s.queueing()
}

// serving is how long one has to wait who can be expected to be granted a free lock.
func (s *Settings) serving() time.Duration { return 3*s.trip() + 2*s.queueing() }

// crowd adds the crowd of a client to its actors.
func (w *World) crowd(ctx context.Context, actors *sync.WaitGroup, c *holdfast.Client, cfg workload.Config,
	rec *history.Recorder, number int) {
	cfg.Hurry, cfg.Think, cfg.Hold = w.trip(), w.trip(), w.trip()/2
	for i := range w.Crowd {
		i += w.Actors + 1                                             // behind an observer
		rng := newSource(w.Seed, 'a', uint64(number), uint64(i)).Rand //nolint:gosec // not negative
		caller := workload.NewOf(w.Kind, c, cfg, rec, number, i, rng)
		actors.Go(func() { w.come(ctx, caller) })
	}
}

// come has one of a crowd come with the others, and leave in the moment that they do.
func (w *World) come(ctx context.Context, caller workload.Runner) {
	for i := range bursts {
		begin := w.start.Add(w.Length * time.Duration(1+2*i) / (2 * bursts))
		if !w.sleep(ctx, time.Until(begin)) {
			return
		}
		there, cancel := context.WithDeadline(ctx, begin.Add(w.Burst))
		caller.Run(there)
		cancel()
	}
}

// serve has a command wait until the server has done those before it, and then for its own time.
func (w *World) serve() {
	if w.Service == 0 {
		return
	}
	w.mu.Lock()
	w.commands++
	w.idle = latest(time.Now(), w.idle).Add(w.Service)
	d := time.Until(w.idle)
	w.mu.Unlock()
	w.sleep(context.Background(), d)
}

// serveMore has later commands wait for one of a script, which the server does in a part of the time.
func (w *World) serveMore() {
	if w.Service == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = latest(time.Now(), w.idle).Add(w.Service / 64)
}

// load is what callers cost at a moment.
type load struct {
	at         int64
	places     int // in the queue at the server
	commands   int // that the server had to do so far
	goroutines int // of the process, without those of the simulation
}

// measure notes what callers cost, until the storm ends. No other world may run meanwhile: the goroutines are the process's.
func (w *World) measure(storm context.Context) {
	if w.Crowd == 0 {
		return
	}
	name, before := w.nth(0), runtime.NumGoroutine()+w.Clients*(w.Actors+w.Crowd)
	for w.sleep(storm, max(w.trip(), 10*time.Millisecond)) {
		l := load{at: w.Now(), goroutines: runtime.NumGoroutine() - before}
		for _, n := range w.networks() {
			l.goroutines -= 3 * len(n.open()) // of a connection: each way, and the server's
		}
		queue, _ := w.server.List(keys.For(name).Queue)
		permits, _ := w.server.ZMembers(keys.ForPermits(name).Queue)
		writers, _ := w.server.ZMembers(keys.ForReadWrite(name).Writers)
		l.places = len(queue) + len(permits) + len(writers)
		w.mu.Lock()
		l.commands = w.commands
		w.loads = append(w.loads, l)
		w.mu.Unlock()
	}
}

// The bounds of what callers may cost, beside twice as much as there are callers who want the lock.
const (
	morePlaces     = 8
	moreGoroutines = 60 // for each client: its renewals, its subscriptions and polls, its observers, its log
	moreCommands   = 100
)

// dear finds the first moment at which callers cost too much. Places may stand that a fault keeps from being given back.
func (w *World) dear(ops []history.Op) (found []history.Violation) {
	limit := func(check string, l load, is, most int) bool {
		if is > most {
			found = append(found, history.Violation{Check: check, Text: fmt.Sprintf("%d at %s, and not more than %d were to be",
				is, time.Duration(l.at), most)})
		}
		return is > most
	}
	for _, l := range w.loads {
		if w.disturbed(l.at) {
			break
		}
		live, calls := w.callers(ops, l.at)
		places := limit("places", l, l.places, 2*live+morePlaces)
		goroutines := limit("goroutines", l, l.goroutines, 2*live+moreGoroutines*w.Clients)
		if limit("commands", l, l.commands, 2*calls+moreCommands) || places || goroutines {
			break
		}
	}
	return found
}

// callers are how many want the lock at a time, or left so recently that their places go back, and how many calls came so far.
func (w *World) callers(ops []history.Op, at int64) (live, calls int) {
	from := at - int64(6*w.slowest())
	want := make(map[[2]int]bool)
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Call > at, o.Kind == history.Queue, o.Kind == history.End, o.Kind == history.Crash:
			continue
		case o.Return >= from && (o.Kind == history.Lock || o.Kind == history.Try):
			want[[2]int{o.Client, o.Actor}] = true
		}
		calls++
	}
	return len(want), calls
}
