package redisson

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// stormPermits is how many permits the semaphores of a storm have at first.
const stormPermits = 4

// javaTaker is a thread of Redisson's that uses semaphores: it takes some permits, or tries to, holds
// them and gives them back, and sets their number now and then.
//
// Redisson does not renew permits. So those of one that is to be killed have short leases, some of the
// others' have longer ones, until the end of which they may be trusted, and the rest have none: they
// are held until they are given back. It gives no tokens, and its takers do not queue (S1).
type javaTaker struct{ actor }

func (a *javaTaker) run(ctx context.Context) { a.again(ctx, a.round) }

// round takes and gives back once. It is false if the worker has ended.
func (a *javaTaker) round() bool {
	name := a.name(a.rng)
	if a.rng.IntN(16) == 0 {
		return a.set(name)
	}
	op, ask := a.wish(name)
	call := a.rec.Begin(op)
	sent := a.now()
	r, ok := a.do(ask)
	if !ok {
		return false
	}
	ids := r.Texts()
	g := &grant{of: op}
	g.of.Owner, g.of.Lease, g.of.Depth, g.of.Total = a.thread.Owner, 0, len(ids), 0
	if op.Plain {
		g.deadline = sent + op.Lease/100*99
	}
	call.End(func(o *history.Op) {
		if attempted(o, r, len(ids) > 0) {
			o.Owner, o.Depth, o.Deadline = a.thread.Owner, len(ids), g.deadline
		}
	})
	if len(ids) == 0 {
		return true
	}
	a.pause(4 * time.Millisecond)
	return a.giveBack(g, true, Ask{Op: "release", Kind: "permits", IDs: ids})
}

// wish is an attempt of a random kind.
func (a *javaTaker) wish(name string) (op history.Op, ask Ask) {
	a.grants++
	op = history.Op{Client: a.client, Actor: a.number, Of: history.Permits, Name: name, Kind: history.Lock, Guest: true,
		Grant: a.grants, Total: 1}
	if a.rng.IntN(2) == 0 {
		op.Total += a.rng.IntN(stormPermits - 1)
	}
	ask = Ask{Op: "acquire", Kind: "permits", Name: name, N: op.Total}
	switch a.rng.IntN(4) {
	case 0:
		op.Kind, ask.Op = history.Try, "tryAcquire"
	case 1:
		ask.Op, ask.Wait = "tryAcquire", millis(20+a.rng.IntN(40))*millis(time.Millisecond)
	}
	if a.mortal || a.rng.IntN(3) == 0 {
		op.Plain, op.Lease = true, int64(a.lease)
		ask.Lease = millis(a.lease)
	}
	return op, ask
}

// set sets how many permits there are.
func (a *javaTaker) set(name string) bool {
	n := stormPermits - 1 + a.rng.IntN(3)
	return a.does(history.Op{Client: a.client, Actor: a.number, Of: history.Permits, Name: name, Kind: history.Set, Total: n},
		Ask{Op: "setPermits", Kind: "permits", N: n}, func(*history.Op, Reply) {})
}

// javaCounter is a thread of Redisson's that uses latches. It takes none away, because that leaves
// those asleep who wait in Java (L1), and waits for a while at a time, because a latch that is set anew
// at once is not seen by them to have been open. What is left its count-downs do not say.
type javaCounter struct{ actor }

func (a *javaCounter) run(ctx context.Context) { a.again(ctx, a.round) }

func (a *javaCounter) round() bool {
	op := history.Op{Client: a.client, Actor: a.number, Of: history.Latches, Name: a.name(a.rng)}
	ask := Ask{Kind: "latch"}
	switch chance := a.rng.IntN(16); {
	case chance < 2:
		op.Kind, op.Depth, ask.Op = history.Set, 1+a.rng.IntN(4), "trySetCount"
		ask.N = op.Depth
	case chance < 8:
		op.Kind, op.Depth, ask.Op = history.CountDown, -1, "countDown"
	case chance < 10:
		op.Kind, ask.Op = history.Look, "count"
	default:
		op.Kind, ask.Op, ask.Wait = history.Wait, "await", millis(patient)
		if a.rng.IntN(3) == 0 {
			ask.Wait = millis(20+a.rng.IntN(40)) * millis(time.Millisecond)
		}
	}
	return a.does(op, ask, func(o *history.Op, r Reply) {
		switch no := o.Result == history.OK && !r.Yes(); {
		case tooLate(r):
			o.Result = history.Left
		case o.Kind == history.Look:
			o.Depth = int(r.Int())
		case o.Kind == history.Set && no:
			o.Result = history.Denied
		case o.Kind == history.Wait && no:
			o.Result = history.Left
		}
	})
}
