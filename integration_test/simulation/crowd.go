package simulation

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// crowded chooses settings of a world in which callers are the fault: beside a few who wait for as long as
// it takes there come crowds, at times, who give up within a few round trips, or had given up before they called. The
// server takes time for each command, so it cannot serve all of them. Any twelve seeds that follow each other have each
// kind twice: without other faults, and with a network that is silent now and then.
func crowded(seed uint64) Settings {
	rng := newSource(seed, 'c')
	kind := append([]history.Family{history.Locks, history.Locks}, others...)[seed%6]
	s := drawOf(seed, kind)
	s = Settings{
		Seed: seed, Kind: kind, Fair: kind == history.Locks && seed%6 == 1,
		Lease: 10 * time.Second, Length: 30 * time.Second, Life: time.Hour, FaultGap: time.Hour,
		Clients: 2, Actors: 2, Names: 1, Permits: 1 + rng.IntN(3), Crowd: 4 + rng.IntN(12),
		Latency: rng.between(2*time.Millisecond, 30*time.Millisecond), Apart: s.Apart, Skew: s.Skew,
		RetryBudget: 5 * time.Second, ReadTimeout: 3 * time.Second, DialTimeout: time.Second, DialerRetries: 1,
	}
	s.Service = s.Latency / time.Duration(2+rng.IntN(20))
	s.Wait, s.Think, s.Hold = s.Lease, max(20*s.trip(), 2*time.Second), s.trip()
	if seed/6%2 == 1 {
		s.Only, s.FaultGap, s.FaultLength = []Fault{Partition}, s.Length/4, 5*time.Second
	}
	return s
}

// bursts is how often a crowd comes.
const bursts = 3

// burst is how long a crowd is there.
func (s *Settings) burst() time.Duration { return min(60*s.trip(), s.Length/(2*bursts)) }

// trip is how long a question takes that finds nobody before it.
func (s *Settings) trip() time.Duration { return 2*s.Latency + s.Service }

// callers is how many there are at one time, at most.
func (s *Settings) callers() int { return s.Clients * (s.Actors + s.Crowd) }

// queueing is how long a question waits at the server if all ask at once.
func (s *Settings) queueing() time.Duration { return time.Duration(s.callers()) * s.Service }

// window is how long a free lock may be granted to nobody while it is wanted.
func (w *World) window() time.Duration {
	if w.Crowd == 0 {
		return 0
	}
	return time.Second + 20*w.trip() + 2*w.queueing()
}

// rush is one of a crowd. All come at the same time.
func (w *World) rush(ctx context.Context, caller workload.Runner) {
	for i := range bursts {
		begin := w.start.Add(w.Length * time.Duration(1+2*i) / (2 * bursts))
		if !w.sleep(ctx, time.Until(begin)) {
			return
		}
		there, cancel := context.WithDeadline(ctx, begin.Add(w.burst()))
		caller.Run(there)
		cancel()
	}
}

// crowd has a crowd of a client come and go.
func (w *World) crowd(ctx context.Context, all *sync.WaitGroup, c *holdfast.Client, cfg workload.Config, rec *history.Recorder,
	number int) {
	cfg.Hurry, cfg.Think, cfg.Hold = w.trip(), w.trip(), w.trip()/2
	for i := range w.Crowd {
		i += w.Actors + 1                                             // behind an observer
		rng := newSource(w.Seed, 'a', uint64(number), uint64(i)).Rand //nolint:gosec // not negative
		caller := workload.NewOf(w.Kind, c, cfg, rec, number, i, rng)
		all.Go(func() { w.rush(ctx, caller) })
	}
}

// serve has a command wait until the server has done those before it, and then for its own time.
func (w *World) serve() {
	if w.Service == 0 {
		return
	}
	w.mu.Lock()
	w.idle = latest(time.Now(), w.idle).Add(w.Service)
	d := time.Until(w.idle)
	w.commands++
	w.mu.Unlock()
	w.sleep(context.Background(), d)
}

// serveMore has the next commands wait for what a script does.
func (w *World) serveMore() {
	if w.Service > 0 {
		w.mu.Lock()
		w.idle = latest(time.Now(), w.idle).Add(w.Service / 64)
		w.mu.Unlock()
	}
}

// load is what callers cost at a moment.
type load struct {
	at         int64
	places     int // in the queue at the server
	commands   int // that it was sent so far
	goroutines int // of the library
}

// measure notes what callers cost, until ctx ends.
func (w *World) measure(ctx context.Context) {
	if w.Crowd == 0 {
		return
	}
	name, before := w.nth(0), runtime.NumGoroutine()
	for w.sleep(ctx, max(w.trip(), 10*time.Millisecond)) {
		l := load{at: w.Now(), goroutines: runtime.NumGoroutine() - before - w.callers()}
		queue, _ := w.server.List(keys.For(name).Queue)
		permits, _ := w.server.ZMembers(keys.ForPermits(name).Queue)
		writers, _ := w.server.ZMembers(keys.ForReadWrite(name).Writers)
		l.places = len(queue) + len(permits) + len(writers)
		for _, n := range w.networks() {
			l.goroutines -= 3 * len(n.open())
		}
		w.mu.Lock()
		l.commands = w.commands
		w.loads = append(w.loads, l)
		w.mu.Unlock()
	}
}
