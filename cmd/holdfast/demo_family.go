package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// demoPermits is how many permits the semaphore has.
const demoPermits = 3

// What an order calls the locks of the family. In "crowd" the sides of several are opposite orders
// of the same two.
const (
	toRead      = "read"
	toWrite     = "write"
	permits     = "permits"
	leadership  = "leadership"
	both        = "both"
	bothReverse = "both, the other way round"
)

// family is the kinds of lock beside the plain and the fair one, each with a name of its own,
// because kinds share the key of a name.
type family struct {
	rw       *rwlock.RWMutex
	permits  *semaphore.Semaphore
	latch    *latch.Latch
	election *election.Election
	x, y     *rlock.Mutex // of which both are wanted
}

// steadyLease is that of locks whose holders stay alive: so long that none is lost while a busy
// machine keeps its process waiting.
const steadyLease = 20 * time.Second

func newFamily(client *holdfast.Client, name string) family {
	steady := holdfast.Lease(steadyLease)
	return family{
		rw:       rwlock.New(client, name+":rw", steady),
		permits:  semaphore.New(client, name+":permits", demoPermits, steady),
		latch:    latch.New(client, name+":latch", holdfast.Lease(leftoverTTL)),
		election: election.New(client, name+":election", steady),
		x:        rlock.New(client, name+":x", steady),
		y:        rlock.New(client, name+":y", steady),
	}
}

// keys are all that the family may leave in Redis, but those of readers, which end with their leases,
// and of a latch's calls.
func (f family) keys() []string {
	rw, sem, fair := keys.ForReadWrite(f.rw.Name()), keys.ForPermits(f.permits.Name()), keys.For(f.election.Name())
	said, _ := keys.Election(f.election.Name())
	all := []string{
		rw.Name, rw.Token, rw.Writers, sem.Name, sem.Ends, sem.Token, sem.Queue, sem.Places, sem.Wants, sem.Counts,
		f.latch.Name(), keys.ForLatch(f.latch.Name()).Counts,
		fair.Name, fair.Token, fair.Queue, fair.Deadlines, said,
	}
	for _, m := range []*rlock.Mutex{f.x, f.y} {
		plain := keys.For(m.Name())
		all = append(all, plain.Name, plain.Token, plain.Channel)
	}
	return all
}

// locker is the lock that an order calls so. Permits and leaderships are taken otherwise.
func (f family) locker(called string) holdfast.Locker {
	switch called {
	case toRead:
		return f.rw.RLocker()
	case toWrite:
		return f.rw
	case both:
		return multilock.New(f.x, f.y)
	case bothReverse:
		return multilock.New(f.y, f.x)
	}
	return f.permits
}

// kin is a worker's part in the family: what it holds of it.
type kin struct {
	family
	owner context.Context // of what it reads and writes: one owner, so it may do both
	holds map[string]*holdfast.Hold
	awake atomic.Int64 // how many of those who waited for the latch
}

// take takes a lock of the family and keeps it until "give".
func (w *worker) take(o order, r *result) (err error) {
	ctx, opts := w.kin.owner, []holdfast.Option(nil)
	if o.Stranger {
		ctx = context.Background()
	}
	if o.Once {
		opts = append(opts, holdfast.Wait(0))
	}
	if o.Lease > 0 {
		opts = append(opts, holdfast.Lease(o.Lease))
	}
	var h *holdfast.Hold
	switch o.Lock {
	case leadership:
		h, err = w.kin.election.Campaign(ctx, o.Value, opts...)
	case permits:
		h, err = w.kin.permits.Acquire(ctx, o.N, opts...)
	default:
		h, err = w.kin.locker(o.Lock).Lock(ctx, opts...)
	}
	if err != nil {
		return err
	}
	w.kin.holds[o.Lock] = h
	r.Owner, r.Token, r.Count = h.Owner(), h.Token(), h.Count()
	return nil
}

func (w *worker) give(o order) error {
	h := w.kin.holds[o.Lock]
	if h == nil {
		return errors.New("nothing to give back")
	}
	delete(w.kin.holds, o.Lock)
	return h.Unlock(context.Background())
}

// crowd has goroutines take a lock again and again. Each counts those who are inside, in Redis and
// not in this process; the answer is how often the lock was granted, and how many were inside at
// most.
func (w *worker) crowd(o order, r *result) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var grants, most atomic.Int64
	var group sync.WaitGroup
	for range o.N {
		group.Go(func() {
			for range o.Rounds {
				err := holdfast.Do(ctx, w.kin.locker(o.Lock), func(ctx context.Context) error {
					n, err := w.enter(ctx, o.Lock)
					for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
					}
					return err
				})
				if err != nil {
					cancel(err)
					return
				}
				grants.Add(1)
			}
		})
	}
	group.Wait()
	r.Count, r.Most = int(grants.Load()), int(most.Load())
	return context.Cause(ctx)
}

// enter counts itself in and out again, and returns how many were inside.
func (w *worker) enter(ctx context.Context, lock string) (int64, error) {
	key := insideKey(w.store, lock)
	var inside *redis.IntCmd
	_, err := w.rdbs[0].Pipelined(ctx, func(p redis.Pipeliner) error {
		inside = p.Incr(ctx, key)
		p.PExpire(ctx, key, leftoverTTL)
		return nil
	})
	return inside.Val(), errors.Join(err, w.rdbs[0].Decr(context.WithoutCancel(ctx), key).Err())
}

// insideKey is where those are counted who are inside. Both ways to take two locks are one place.
func insideKey(store, lock string) string {
	if lock == bothReverse {
		lock = both
	}
	return store + ":inside:" + lock
}

// await has goroutines wait for the latch, and tells the demo when all of them are awake.
func (w *worker) await(o order) error {
	if err := w.kin.latch.Wait(context.Background(), holdfast.Wait(0)); !errors.Is(err, holdfast.ErrNotAcquired) {
		return fmt.Errorf("the latch is not closed: %w", err)
	}
	w.kin.awake.Store(0)
	for range o.N {
		w.watches.Go(func() {
			if err := w.kin.latch.Wait(context.Background()); err != nil {
				return // the demo finds out by the absence of the last word
			}
			if n := int(w.kin.awake.Add(1)); n == o.N {
				_ = w.tell(result{Op: "opened", Ended: time.Now(), Count: n})
			}
		})
	}
	return nil
}
