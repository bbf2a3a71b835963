package simulation

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

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

// disturb lets faults come and go until the storm ends, one window after the other, each to its
// end.
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
