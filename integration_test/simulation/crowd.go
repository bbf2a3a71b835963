package simulation

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
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

// window is for how long a free lock that is wanted may be granted to nobody. A waiter that was told nothing looks
// within a second. A lock that is granted to a caller who leaves in that moment costs a trip to give it back, and a
// crowd may do that many times in a row.
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
