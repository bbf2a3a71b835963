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
	Cut       // all connections of a client break
	Partition // nothing of a client arrives for a time, and then it does
	Slow      // messages take many times longer
	Restart   // the server is gone for a time, keeps its data and forgets its scripts
	Flush     // the server forgets its scripts
	Crash     // a client is gone for good
	Close     // a client is closed while its actors work
	kinds
)

var faultNames = [kinds]string{
	"lost requests", "lost replies", "delayed requests", "delayed replies", "cuts", "partitions", "slow spells", "restarts",
	"script flushes", "crashes", "closes",
}

func (f Fault) String() string { return faultNames[f] }

type faultCounts [kinds]atomic.Int64

// disturb lets faults come and go until ctx ends, one window after the other.
func (w *World) disturb(ctx context.Context) {
	rng := newSource(w.Seed, 'f')
	for w.sleep(ctx, rng.random(w.FaultGap)) {
		victims := w.victims(rng)
		length := rng.random(w.FaultLength)
		from := w.Now()
		w.inject(ctx, rng, victims, length)
		w.calm(victims)
		w.note(from, w.Now())
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

// inject makes one fault, and returns when its time is over.
func (w *World) inject(ctx context.Context, rng source, victims []*network, length time.Duration) {
	apply := func(f Fault, p profile) {
		w.faults[f].Add(1)
		for _, n := range victims {
			n.disturb(p)
		}
		w.sleep(ctx, length)
	}
	lossy := profile{delay: 3 * w.ReadTimeout}
	switch rng.IntN(9) {
	case 0: // each message may be lost, whichever way it goes
		p := rng.Float64() * 0.5
		lossy.loseRequest, lossy.loseReply = p, p
	case 1:
		lossy.loseReply = 1
		length = min(length, 4*w.ReadTimeout)
	case 2:
		lossy.loseReply = rng.Float64()
	case 3: // late, most of them after the client has given them up
		p := rng.Float64()
		lossy.delayRequest, lossy.delayReply = p, p/2
	case 4:
		w.faults[Partition].Add(1)
		for _, n := range victims {
			n.silence(length)
		}
		w.sleep(ctx, length)
		return
	case 5:
		for range 1 + rng.IntN(5) {
			w.faults[Cut].Add(1)
			for _, n := range victims {
				n.cut()
			}
			w.sleep(ctx, rng.random(length/5))
		}
		return
	case 6:
		apply(Slow, profile{slow: 1 + 30*rng.Float64()})
		return
	case 7:
		w.faults[Restart].Add(1)
		w.restart(ctx, rng.random(min(length, 10*time.Second)))
		return
	case 8:
		w.faults[Flush].Add(1)
		w.flush()
		return
	}
	for _, n := range victims {
		n.disturb(lossy)
	}
	w.sleep(ctx, length)
}

// calm ends what was injected.
func (w *World) calm(victims []*network) {
	for _, n := range victims {
		n.disturb(profile{})
		n.silence(0)
	}
}

// note records that there was a fault.
func (w *World) note(from, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.windows = append(w.windows, history.Window{From: from, To: to})
}
