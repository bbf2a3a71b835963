package simulation

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// Settings are what one run is like. [Draw] makes them of a seed.
type Settings struct {
	Seed    uint64
	Kind    history.Family // of the locks; of plain and fair ones, the first
	Fair    bool           // of those: fairlock, else rlock
	Length  time.Duration  // of the part in which clients work
	Lease   time.Duration  // of the clients; some holds have a shorter one
	Clients int            // at one time
	Actors  int            // goroutines of each client
	Names   int            // locks at one time; new ones every Lease or so
	Alike   bool           // nearly all holds have the same lease, or it would not be handed off
	Many    int            // locks that one owner of every third client holds now and then, all at once; 0: none does
	Permits int            // of each semaphore
	Staying int            // one lock in so many stays taken for a while, whenever it is unlocked; 0: none
	Keeping int            // one lock in so many is kept by its client after the unlock; 0: none
	Home    bool           // each client wants one of the locks most of the time, and the others seldom
	Quantum time.Duration  // what happens happens at multiples of it, so that much happens at one moment; 0: not so

	Think, Hold, Wait time.Duration // see workload.Config
	Latency           time.Duration // of a message, on the average
	Apart             bool          // clients are at different distances from the server
	Life              time.Duration // of a client, on the average

	FaultGap, FaultLength time.Duration // on the average
	Only                  []Fault       // of those of the network; empty: any
	Skew                  float64       // by how much the server's clock is faster

	// Naps is the pause between two times that all clients sleep while the server goes on, on the average; 0: they do not. What
	// notices that belongs to the process, so no other world may run meanwhile.
	Naps time.Duration

	// between visits of one that puts things under the names of locks that are none, on the average; 0: none comes
	Strangers time.Duration

	Dead int // places that processes leave in a fair queue which die while they wait, all at once; 0: none do

	Crowd   int           // callers of each client who come in bursts and give up soon; 0: none
	Burst   time.Duration // for how long they come
	Service time.Duration // that the server takes for each command, one after the other

	Log       time.Duration // that a client's log takes for a record, on the average
	LogPanics bool          // now and then

	RetryBudget, ReadTimeout, DialTimeout time.Duration
	DialerRetries                         int
	Contexts                              bool // go-redis ends a command with its context
	Endless                               bool // go-redis waits for ever for an answer, and the library for RetryBudget
}

// distances are how far clients may be, one way.
var distances = [...]time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond}

// slowest is how long a message is under way on the average, to or from the client that is the farthest away.
func (s *Settings) slowest() time.Duration {
	if s.Apart {
		return s.queueing() + s.Latency + distances[len(distances)-1]
	}
	return s.queueing() + s.Latency
}

// atHome has each client have locks to itself for most of the time.
func (s *Settings) atHome(actors int) {
	s.Home, s.Alike, s.Names, s.Actors = true, true, 3, actors
	s.Hold, s.Think = min(s.Hold, s.Lease/8), min(s.Think, s.Lease/4)
}

// Draw chooses settings. A run is a few hundred leases long: faults meet as many operations whether leases are long or short.
func Draw(seed uint64) Settings { return drawOf(seed, kindOf(seed)) }

// drawOf chooses settings of a world of one kind.
func drawOf(seed uint64, kind history.Family) Settings {
	rng := newSource(seed, 's')
	fair, longest := kind == history.Locks && newSource(seed, 'k').IntN(3) == 0, 2*time.Hour
	if kind != history.Locks || fair {
		longest = 2 * time.Minute // who waits sends a script a second, and in hours of that nothing else happens
	}
	lease := rng.between(500*time.Millisecond, longest)
	timeout := min(rng.between(100*time.Millisecond, 3*time.Second), lease/5)
	s := Settings{
		Seed:     seed,
		Contexts: newSource(seed, 't').IntN(3) == 0,
		Kind:     kind,
		Fair:     fair,
		Lease:    lease.Round(time.Millisecond),
		Length:   12 * lease,
		Clients:  2 + rng.IntN(3),
		Actors:   1 + rng.IntN(3),
		Names:    1 + rng.IntN(3),
		Life:     8 * lease,

		Think: rng.between(lease/4, 4*lease), Hold: rng.between(lease/20, lease), Wait: rng.between(lease/10, 2*lease),
		Latency:  min(rng.between(50*time.Microsecond, 200*time.Millisecond), timeout/20), // else all times out always
		FaultGap: rng.between(lease/2, 8*lease), FaultLength: rng.between(lease/10, 2*lease),
		Skew: 0.0095 * (2*rng.Float64() - 1),

		RetryBudget:   rng.between(100*time.Millisecond, 10*time.Second),
		ReadTimeout:   timeout,
		DialTimeout:   min(5*time.Second, lease/5),
		DialerRetries: 1 + 4*rng.IntN(2),
	}
	if s.Endless = newSource(seed, 'e').IntN(8) == 0; s.Endless {
		s.RetryBudget = s.ReadTimeout
	}
	if log := newSource(seed, 'l'); log.IntN(2) == 0 {
		s.Log, s.LogPanics = log.between(time.Millisecond, 2*lease), log.IntN(2) == 0
	}
	if stay := newSource(seed, 'h'); stay.IntN(2) == 0 {
		s.Staying = 4 + stay.IntN(28)
	}
	if visits := newSource(seed, 'v'); visits.IntN(4) == 0 {
		s.Strangers = visits.between(lease/2, 4*lease)
	}
	if many := newSource(seed, 'm'); many.IntN(16) == 0 {
		s.Many = int(many.between(10, 150))
	}
	if dead := newSource(seed, 'w'); dead.IntN(4) == 0 {
		s.Dead = 600 + dead.IntN(3000)
	}
	s.Apart = newSource(seed, 'a').IntN(2) == 0
	if rng.IntN(4) == 0 {
		s.Quantum = max(s.Latency/4, time.Microsecond)
	}
	if kind != history.Locks {
		s.other(seed)
		return s
	}
	if !fair && rng.IntN(2) == 0 { // a crowd in each of few clients: the lock is handed off there
		s.Clients, s.Names, s.Actors = 1+rng.IntN(2), 1, 3+rng.IntN(4)
		s.Hold, s.Think, s.Alike = min(s.Hold, lease/8), min(s.Think, lease/2), true
	}
	if keep := newSource(seed, 'i'); !fair && keep.IntN(2) == 0 {
		s.Keeping = 1 + keep.IntN(3)
		if keep.IntN(2) == 0 {
			s.atHome(1 + keep.IntN(2))
		}
	}
	return s
}

// Fault is a kind of fault.
type Fault int

// The faults. The first ones happen to messages, the others to connections, clients and the server.
const (
	LostRequest Fault = iota
	LostReply
	DelayedRequest
	DelayedReply
	HeldRequest // for up to a lease, with its connection, while the others work
	Cut         // all connections of a client break
	Partition   // nothing of a client arrives for a time, and then it does
	Slow        // messages take many times longer
	Restart     // the server is gone for a time, keeps its data and forgets its scripts
	Flush       // the server forgets its scripts
	Crash       // a client is gone for good
	Close       // a client is closed while its actors work
	Nap         // all clients sleep, and the server goes on
	kinds
)

var faultNames = [kinds]string{
	"lost requests", "lost replies", "delayed requests", "delayed replies", "held requests", "cuts", "partitions",
	"slow spells", "restarts",
	"script flushes", "crashes", "closes", "naps",
}

func (f Fault) String() string { return faultNames[f] }

type faultCounts [kinds]atomic.Int64

// disturb lets faults come and go until the storm ends, one window after the other, each to its end.
func (w *World) disturb(storm context.Context) {
	rng := newSource(w.Seed, 'f')
	for w.sleep(storm, rng.random(w.FaultGap)) {
		ctx := context.Background()
		victims := w.victims(rng)
		length := min(rng.random(w.FaultLength), 3*w.Lease)
		from := w.Now()
		if rng.IntN(5) == 0 {
			w.disturbServer(ctx, rng, length)
			victims = nil
		} else {
			w.disturbNetwork(ctx, rng, victims, length)
		}
		for _, n := range victims {
			n.disturb(profile{})
			n.silence(0)
		}
		w.note(from, w.Now(), victims)
	}
}

// victims are all clients or one of them.
func (w *World) victims(rng source) []*network {
	all := w.networks()
	if len(all) == 0 || rng.IntN(3) == 0 {
		return all
	}
	return all[rng.IntN(len(all)):][:1]
}

// disturbServer makes a fault of the server, and returns when its time is over.
func (w *World) disturbServer(ctx context.Context, rng source, length time.Duration) {
	if rng.IntN(3) == 0 {
		w.faults[Flush].Add(1)
		w.flush()
		return
	}
	w.faults[Restart].Add(1)
	w.restart(ctx, rng.random(min(length, 10*time.Second)))
}

// anyFault are the faults of the network, the more important ones more often.
var anyFault = []Fault{LostRequest, LostReply, LostReply, DelayedRequest, HeldRequest, Slow, Partition, Cut}

// disturbNetwork makes a fault of the victims' network, and returns when its time is over.
func (w *World) disturbNetwork(ctx context.Context, rng source, victims []*network, length time.Duration) {
	from := w.Only
	if len(from) == 0 {
		from = anyFault
	}
	p := profile{delay: 3 * w.ReadTimeout}
	switch from[rng.IntN(len(from))] {
	case LostRequest: // or the reply, whichever way it goes
		p.loseRequest = rng.Float64() / 2
		p.loseReply = p.loseRequest
	case LostReply:
		p.loseReply = rng.Float64()
		if rng.IntN(2) == 0 { // all of them, for a short time
			p.loseReply, length = 1, min(length, 4*w.ReadTimeout)
		}
	case DelayedRequest: // most of them after the client has given them up; and replies
		p.delayRequest = rng.Float64()
		p.delayReply = p.delayRequest / 2
	case HeldRequest:
		p.holdRequest = rng.Float64() / 2
	case Slow:
		w.faults[Slow].Add(1)
		p = profile{slow: 1 + 30*rng.Float64()}
	case Partition:
		w.faults[Partition].Add(1)
		for _, n := range victims {
			n.silence(length)
		}
	default:
		for range 1 + rng.IntN(5) {
			w.faults[Cut].Add(1)
			for _, n := range victims {
				n.cut()
			}
			w.sleep(ctx, rng.random(length/5))
		}
		return
	}
	for _, n := range victims {
		n.disturb(p)
	}
	w.sleep(ctx, length)
}

// note records that there was a fault. One of a single client excuses nobody else.
func (w *World) note(from, to int64, victims []*network) {
	w.mu.Lock()
	defer w.mu.Unlock()
	window := history.Window{From: from, To: to}
	if len(victims) != 1 {
		w.windows = append(w.windows, window)
		return
	}
	n := int(victims[0].client) //nolint:gosec // a small number
	w.local[n] = append(w.local[n], window)
}
