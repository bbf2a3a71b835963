package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The floors of the other kinds: what the commands alone cost. They promise nothing to who dies or
// is cut off.

// floorStay is how long their keys stay.
const floorStay = time.Minute

// floorReadWrite is a read-write lock of this process, with a round trip to the server for each
// lock and each unlock. It shows what machine and network alone make a writer wait.
type floorReadWrite struct{ rdb *redis.Client }

// processLocks are the locks of floorReadWrite by name: one for all clients of this process.
var processLocks sync.Map

func openFloorReadWrite(j job) (client, error) {
	return floorReadWrite{redis.NewClient(&redis.Options{Addr: j.Addr})}, nil
}

func (c floorReadWrite) locker(_ context.Context, name string) (locker, error) {
	m := processLock(name)
	return c.taking(m.Lock, m.Unlock), nil
}

// reader is [readable].
func (c floorReadWrite) reader(_ context.Context, name string) (locker, error) {
	m := processLock(name)
	return c.taking(m.RLock, m.RUnlock), nil
}

func processLock(name string) *sync.RWMutex {
	m, _ := processLocks.LoadOrStore(name, new(sync.RWMutex))
	return m.(*sync.RWMutex)
}

func (c floorReadWrite) taking(lock, unlock func()) locker {
	return func(ctx context.Context) (func() error, uint64, error) {
		lock()
		if err := c.rdb.Ping(ctx).Err(); err != nil {
			unlock()
			return nil, 0, err
		}
		return func() error {
			err := c.rdb.Ping(context.Background()).Err()
			unlock()
			return err
		}, 0, nil
	}
}

func (c floorReadWrite) close() error { return c.rdb.Close() }

// floorPermits is a number of permits that are out, tried every 1 ms. They have no leases, and
// nobody is woken.
type floorPermits struct {
	rdb     *redis.Client
	permits string
}

var takePermit = redis.NewScript(`if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then return 0 end
	return redis.call('INCR', KEYS[1])`)

func openFloorPermits(j job) (client, error) {
	return floorPermits{redis.NewClient(&redis.Options{Addr: j.Addr}), strconv.Itoa(j.Permits)}, nil
}

func (c floorPermits) locker(_ context.Context, name string) (locker, error) {
	return func(ctx context.Context) (func() error, uint64, error) {
		for {
			n, err := takePermit.Run(ctx, c.rdb, []string{name}, c.permits).Int()
			if err != nil {
				return nil, 0, err
			}
			if n > 0 {
				return func() error { return c.rdb.Decr(context.Background(), name).Err() }, 0, nil
			}
			if pause(ctx, pollEvery); ctx.Err() != nil {
				return nil, 0, context.Cause(ctx)
			}
		}
	}, nil
}

func (c floorPermits) close() error { return c.rdb.Close() }

// floorLatch is a counter and one message: one subscription per client, and nobody looks whether a
// message was lost.
type floorLatch struct {
	rdb *redis.Client

	mu    sync.Mutex
	gates map[string]*floorGate // by name; guarded by mu
}

// floorGate is where all of a client wait for one latch.
type floorGate struct {
	sub   *redis.PubSub
	began sync.Once
	open  chan struct{} // closed at zero
	err   error         // why it is closed; set before
}

func openFloorLatch(j job) (client, error) {
	return &floorLatch{rdb: redis.NewClient(&redis.Options{Addr: j.Addr}), gates: map[string]*floorGate{}}, nil
}

func (*floorLatch) locker(context.Context, string) (locker, error) { return nil, errNoLock }

func (c *floorLatch) set(ctx context.Context, name string, count int) error {
	return c.rdb.Set(ctx, name, count, floorStay).Err()
}

func (c *floorLatch) countDown(ctx context.Context, name string) error {
	left, err := c.rdb.Decr(ctx, name).Result()
	if err == nil && left == 0 {
		err = c.rdb.Publish(ctx, name, "0").Err()
	}
	return err
}

func (c *floorLatch) wait(ctx context.Context, name string) error {
	c.mu.Lock()
	g := c.gates[name]
	if g == nil {
		g = &floorGate{open: make(chan struct{})}
		c.gates[name] = g
	}
	c.mu.Unlock()
	g.began.Do(func() {
		g.sub = c.rdb.Subscribe(ctx, name)
		if _, g.err = g.sub.Receive(ctx); g.err != nil { // confirmed
			close(g.open)
			return
		}
		go func() { // ends with the message or the client
			_, g.err = g.sub.ReceiveMessage(context.Background())
			close(g.open)
		}()
	})
	select {
	case <-g.open:
		return g.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *floorLatch) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, g := range c.gates {
		if g.sub != nil {
			err = errors.Join(err, g.sub.Close())
		}
	}
	return errors.Join(err, c.rdb.Close())
}
