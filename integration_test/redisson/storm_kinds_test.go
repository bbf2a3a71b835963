package redisson

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// runner is an actor of a storm, of either side.
type runner interface{ Run(ctx context.Context) }

// theirs is an actor of Redisson's.
type theirs interface{ run(ctx context.Context) }

// The names of a storm, by the kind of lock. Of these there are fewer, because they share.
var (
	lockNames   = []string{"plain:a", "plain:b", "plain:c", "fair:a", "fair:b", "fair:c"}
	rwNames     = []string{"rw:a", "rw:b"}
	permitNames = []string{"permits:a", "permits:b"}
	latchNames  = []string{"latch:a", "latch:b"}
)

// fairNames are those of the locks with a queue that Redisson's threads have places in.
var fairNames = lockNames[3:]

func anyOf(names []string) func(rng *rand.Rand) string {
	return func(rng *rand.Rand) string { return names[rng.IntN(len(names))] }
}

// kinds are the actors of one of our clients for the other kinds, two of each.
func (st *storm) kinds(c *holdfast.Client, rec *history.Recorder, client int, source func(int) *rand.Rand) (all []runner) {
	cfg := st.workload(c)
	cfg.Think += cfg.Think / 2
	// Redisson's readers put the end of the lock to the end of their own lease, so none is longer.
	cfg.Leases, cfg.Extends = nil, nil
	cfg.Permits, cfg.Sets = stormPermits, []int{stormPermits - 1, stormPermits, stormPermits, stormPermits + 1}
	for range 2 {
		for _, k := range []struct {
			kind  history.Family
			names []string
		}{{history.ReadWrite, rwNames}, {history.Permits, permitNames}, {history.Latches, latchNames}} {
			cfg.Name = anyOf(k.names)
			n := threads + len(all) + 1
			all = append(all, workload.NewOf(k.kind, c, cfg, rec, client, n, source(n)))
		}
	}
	return all
}

// javaKinds are the same of a client of Redisson's. make makes an actor with a thread of its own.
func javaKinds(start func(name func(*rand.Rand) string) actor) (all []theirs) {
	for range 2 {
		one, two := start(anyOf(rwNames)), start(anyOf(permitNames))
		all = append(all, &one, &javaTaker{two})
	}
	return append(all, &javaCounter{start(anyOf(latchNames))})
}

// set makes what has to be there before Redisson uses it: the number of permits, and a token for readers.
func (st *storm) set(t *testing.T, c *holdfast.Client, j *Thread) {
	for _, name := range permitNames {
		r := j.Do(t, Ask{Op: "trySetPermits", Kind: "permits", Name: name, N: stormPermits})
		require.True(t, r.Yes())
	}
	for _, name := range rwNames {
		kindtest.Unlock(t, kindtest.Lock(t, rwlock.New(c, name)))
	}
}

// census asks how many permits are free when all are back; a leaver of ours gives back in the background what it was handed.
func (st *storm) census(t *testing.T, c *holdfast.Client) {
	rec := st.recorder()
	for _, name := range permitNames {
		redistest.Within(Patience, func() bool {
			s, err := semaphore.New(c, name, stormPermits).State(t.Context())
			return err != nil || s.Free == s.Permits
		})
		workload.Census(t.Context(), rec, semaphore.New(c, name, stormPermits), history.Op{Client: oursFirst, Last: true})
	}
}

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

// javaCounter is a thread of Redisson's that uses latches. It deletes none (that leaves Java's waiters asleep, L1), and waits
// for a while at a time, as they miss a brief opening. Its count-downs do not say what is left.
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
