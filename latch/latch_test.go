package latch_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
	tells      = kindtest.Tells
)

// lab is a name on the package's server.
type lab struct {
	testing.TB
	rdb  *redis.Client
	name string
}

func newLab(t testing.TB) *lab {
	return &lab{t, redistest.Shared(t).Client(t), uniqueName(t)}
}

// process is the latch for a client of its own.
func (l *lab) process(opts ...holdfast.Option) *latch.Latch {
	return latch.New(newClient(l.TB, redistest.Shared(l.TB).Client(l.TB), nil), l.name, opts...)
}

func (l *lab) channel() string { return "redisson_countdownlatch__channel__{" + l.name + "}" }

// listening is how many clients listen.
func (l *lab) listening() int64 { return kindtest.Listeners(context.Background(), l.rdb, l.channel()) }

// set sets a latch that is not set.
func set(t testing.TB, l *latch.Latch, count int) {
	ok, err := l.Set(context.Background(), count)
	require.NoError(t, err)
	require.True(t, ok)
}

// count counts down and demands what is left.
func count(t testing.TB, l *latch.Latch, left int) {
	n, err := l.CountDown(context.Background())
	require.NoError(t, err)
	require.Equal(t, left, n)
}

// waiting has somebody wait.
func waiting(ctx context.Context, l *latch.Latch, opts ...holdfast.Option) <-chan error {
	c := make(chan error, 1)
	go func() { c <- l.Wait(ctx, opts...) }()
	return c
}

// open demands that somebody who waited was let in.
func open(t testing.TB, c <-chan error) {
	require.NoError(t, kindtest.Receive(t, "it is let in", c))
}

// A latch is set once, counted down by anybody, and open for all when nothing is left.
func TestLatch(t *testing.T) {
	l := newLab(t)
	here, there := l.process(), l.process()
	require.NoError(t, here.Wait(t.Context()), "it was never set")
	count(t, there, 0)
	set(t, here, 3)
	again, err := there.Set(t.Context(), 5)
	require.NoError(t, err)
	require.False(t, again, "it is set already")
	n, err := there.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.InDelta(t, 24*time.Hour, l.rdb.PTTL(t.Context(), l.name).Val(), float64(time.Minute))

	var all []<-chan error
	for range 5 {
		all = append(all, waiting(t.Context(), here), waiting(t.Context(), there))
	}
	eventually(t, "both clients listen", func() bool { return l.listening() == 2 })
	count(t, here, 2)
	count(t, there, 1)
	for _, c := range all {
		require.Empty(t, c)
	}
	count(t, here, 0)
	for _, c := range all {
		open(t, c)
	}
	require.Zero(t, l.rdb.Exists(t.Context(), l.name).Val())
	count(t, here, 0)

	set(t, there, 1) // anew
	next := waiting(t.Context(), here)
	require.ErrorIs(t, here.Wait(t.Context(), holdfast.Wait(0)), holdfast.ErrNotAcquired)
	count(t, there, 0)
	open(t, next)
}

// Delete opens a latch, and so does its end.
func TestOpenedOtherwise(t *testing.T) {
	for name, end := range map[string]func(l *lab){
		"deleted": func(l *lab) {
			deleted, err := l.process().Delete(context.Background())
			require.NoError(l, err)
			require.True(l, deleted)
		},
		"ended":              func(l *lab) { require.NoError(l, l.rdb.PExpire(context.Background(), l.name, time.Millisecond).Err()) },
		"counted by another": func(l *lab) { redisson(l, "0") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			m := l.process(holdfast.Lease(2 * time.Second))
			set(t, m, 1)
			c := waiting(t.Context(), m)
			eventually(t, "it listens", func() bool { return l.listening() == 1 })
			end(l)
			open(t, c)
			deleted, err := m.Delete(t.Context())
			require.NoError(t, err)
			require.False(t, deleted)
		})
	}
}

// redisson does what its countDown was seen to do when it opens a latch.
func redisson(l *lab, message string) {
	ctx := context.Background()
	if l.rdb.Decr(ctx, l.name).Val() <= 0 {
		require.NoError(l, l.rdb.Del(ctx, l.name).Err())
	}
	require.NoError(l, l.rdb.Publish(ctx, l.channel(), message).Err())
}

// On one key with Redisson: its latches have no end, and get none; its waiters are told.
func TestSharedWithRedisson(t *testing.T) {
	l := newLab(t)
	m := l.process()
	sub := redistest.Subscribed(t, l.rdb, l.channel())
	hears := func(want string) {
		msg, err := sub.ReceiveMessage(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, msg.Payload)
	}
	require.NoError(t, l.rdb.Set(t.Context(), l.name, 2, 0).Err())
	require.NoError(t, l.rdb.Publish(t.Context(), l.channel(), "1").Err())
	hears("1")
	c := waiting(t.Context(), m)
	count(t, m, 1)
	require.Equal(t, time.Duration(-1), l.rdb.PTTL(t.Context(), l.name).Val(), "it has no end")
	count(t, m, 0)
	hears("0")
	open(t, c)
	set(t, m, 1)
	hears("1")
	require.NoError(t, kindtest.Err(m.Delete(t.Context())))
	hears("0") // where Redisson's delete sends a 1, and its waiters sleep on
}

// Wait, and what it says when it is over.
func TestWaitEnds(t *testing.T) {
	l := newLab(t)
	m := l.process()
	set(t, m, 7)
	before := l.rdb.PTTL(t.Context(), l.name).Val()
	err := m.Wait(t.Context(), holdfast.Wait(500*time.Millisecond))
	tells(t, err, holdfast.ErrNotAcquired, "7 to count")
	ctx, cancel := context.WithCancel(t.Context())
	c := waiting(ctx, m)
	eventually(t, "it listens", func() bool { return l.listening() == 1 })
	cancel()
	require.ErrorIs(t, <-c, context.Canceled)
	require.LessOrEqual(t, l.rdb.PTTL(t.Context(), l.name).Val(), before, "Wait is no word")
	require.ErrorIs(t, m.Wait(ctx), context.Canceled)
}

// When nobody waits any more, nothing of those who did is left: no goroutine, and no subscription.
func TestNobodyIsLeft(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, m *latch.Latch, c <-chan error, leave func()){
		"it opens": func(t *testing.T, m *latch.Latch, c <-chan error, _ func()) {
			count(t, m, 0)
			open(t, c)
		},
		"the last one leaves": func(t *testing.T, _ *latch.Latch, c <-chan error, leave func()) {
			leave()
			require.ErrorIs(t, kindtest.Receive(t, "it leaves", c), context.Canceled)
		},
	} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t)
			m := latch.New(newClient(t, l.rdb, &holdfast.Options{Linger: time.Millisecond}), l.name)
			set(t, m, 1)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			c := waiting(ctx, m)
			eventually(t, "it listens", func() bool { return l.listening() == 1 })
			end(t, m, c, leave)
			eventually(t, "nobody listens", func() bool { return l.listening() == 0 }) // sooner than the next look would be
		})
	}
}

// A client that is closed lets nobody wait on.
func TestClose(t *testing.T) {
	l := newLab(t)
	c := newClient(t, redistest.Shared(t).Client(t), nil)
	m := latch.New(c, l.name)
	set(t, m, 1)
	waits := waiting(t.Context(), m)
	eventually(t, "it listens", func() bool { return l.listening() == 1 })
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, <-waits, holdfast.ErrClosed)
	require.ErrorIs(t, kindtest.Err(m.CountDown(t.Context())), holdfast.ErrClosed)
}

// TestOptionsOfHolds: a latch has no holder, so options about holds are refused; Wait and Lease are where they mean nothing.
func TestOptionsOfHolds(t *testing.T) {
	l := newLab(t)
	m := l.process()
	for name, options := range map[string][]holdfast.Option{
		"NoRenewal":      {holdfast.NoRenewal()},
		"NoHandoff":      {holdfast.NoHandoff()},
		"Keep":           {rlock.Keep(time.Second), rlock.Keep(0), rlock.Keep(-1)},
		"HoldAtLeast":    {holdfast.HoldAtLeast(time.Second), holdfast.HoldAtLeast(1), holdfast.HoldAtLeast(0)},
		"ReleaseOnError": {holdfast.ReleaseOnError()},
		"Replicas":       {holdfast.Replicas(1, time.Second), holdfast.Replicas(0, 0)},
		"ReplicasOnDisk": {holdfast.ReplicasOnDisk(1, time.Second)},
		"MasterTimeout":  {redlock.MasterTimeout(time.Second), redlock.MasterTimeout(0)},
		"TrustRestarts":  {redlock.TrustRestarts()},
		"RespectStrings": {rlock.RespectStrings()},
	} {
		for _, option := range options {
			_, err := l.process(option).Set(t.Context(), 1)
			for _, err := range []error{err, m.Wait(t.Context(), option)} {
				require.ErrorIs(t, err, holdfast.ErrInvalid)
				require.ErrorContains(t, err, name+" is for a lock that somebody holds, and nobody holds a latch; leave the option out")
			}
		}
	}
	_, err := l.process(holdfast.Wait(time.Second)).Set(t.Context(), 1)
	tells(t, err, holdfast.ErrInvalid, "Wait is not for New; give it to the method Wait of the latch")
	err = m.Wait(t.Context(), holdfast.Lease(time.Minute))
	tells(t, err, holdfast.ErrInvalid, "Lease is not for Wait; give it to New of the latch")
	m = l.process(holdfast.Lease(time.Minute))
	set(t, m, 1)
	require.ErrorIs(t, m.Wait(t.Context(), holdfast.Wait(0)), holdfast.ErrNotAcquired)
}

// Bad input is refused with what to do.
func TestInput(t *testing.T) {
	l := newLab(t)
	m := l.process()
	for _, n := range []int{0, -1, math.MaxInt64} {
		tells(t, kindtest.Err(m.Set(t.Context(), n)), holdfast.ErrInvalid, "set a latch to a number from 1")
	}
	long := latch.New(newClient(t, l.rdb, nil), strings.Repeat("x", 1025))
	_, err := long.Set(t.Context(), 1)
	for _, err := range []error{err, long.Wait(t.Context())} {
		tells(t, err, holdfast.ErrInvalid, "name has 1025 bytes; use at most 1024")
	}
	_, err = long.CountDown(t.Context()) // of one that an earlier version set
	require.NoError(t, err)
	require.ErrorContains(t, m.Wait(t.Context(), nil), "option 1 is nil")
	require.ErrorContains(t, m.Wait(t.Context(), holdfast.Wait(-1)), "Wait is -1ns")
	require.ErrorIs(t, latch.New(nil, "x").Wait(t.Context()), holdfast.ErrInvalid)
	require.ErrorIs(t, latch.New(newClient(t, l.rdb, nil), "").Wait(t.Context()), holdfast.ErrInvalid)
	require.ErrorContains(t, kindtest.Err(l.process(holdfast.Lease(0)).Count(t.Context())), "Lease is 0s")
	var none *latch.Latch
	require.ErrorContains(t, kindtest.Err(none.CountDown(t.Context())), "latch.New")
	require.ErrorIs(t, m.Wait(nil), holdfast.ErrInvalid) //nolint:staticcheck // that is the test
	require.NoError(t, l.rdb.Set(t.Context(), l.name, "red", time.Minute).Err())
	require.ErrorContains(t, kindtest.Err(m.CountDown(t.Context())), "does not hold a count")
	require.ErrorContains(t, m.Wait(t.Context()), "does not hold a count")
	require.ErrorContains(t, kindtest.Err(m.Delete(t.Context())), "does not hold a count")
	require.NoError(t, l.rdb.Del(t.Context(), l.name).Err())
	require.NoError(t, l.rdb.HSet(t.Context(), l.name, "a", "b").Err())
	_, err = m.Set(t.Context(), 1)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, "the key "+l.name+" is not a latch; a lock, an election or another program may have this name, as \"holdfast inspect\" says; choose another name; if it is a latch, holdfast_latch:{"+l.name+"} has the wrong type")
}

// However many wait in a client, it hears one message and looks once for all.
func TestOneLookForAll(t *testing.T) {
	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	m := latch.New(c, "many")
	set(t, m, 1)
	const many = 250
	var g sync.WaitGroup
	var inside atomic.Int32
	for range many {
		g.Go(func() {
			assert.NoError(t, m.Wait(t.Context()))
			inside.Add(1)
		})
	}
	rdb := srv.Client(t)
	eventually(t, "it listens, and nobody comes any more", func() bool {
		before := srv.CommandCalls(t)["evalsha"]
		return kindtest.Goroutines("latch.(*Latch).wait(") == many && srv.CommandCalls(t)["evalsha"] == before &&
			kindtest.Listeners(t.Context(), rdb, "redisson_countdownlatch__channel__{many}") == 1
	})
	require.Zero(t, inside.Load())
	srv.ResetStats(t)
	count(t, m, 0)
	g.Wait()
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"]+calls["eval"], int64(4), "the count-down, and a look or two")
	require.Equal(t, int64(1), calls["publish"])
}

// TestLatchOrSemaphore: a name is one of them until that one has gone. The other is refused and changes nothing.
func TestLatchOrSemaphore(t *testing.T) {
	l := newLab(t)
	c := newClient(t, redistest.Shared(t).Client(t), nil)
	m, s := latch.New(c, l.name), semaphore.New(c, l.name, 3)
	refused := func(as string, calls map[string]func(context.Context) error) {
		before := l.rdb.Get(t.Context(), l.name).Val()
		for what, call := range calls {
			err := call(t.Context())
			require.ErrorContains(t, err, "is a "+as, what)
			require.ErrorContains(t, err, "choose another name", what)
			require.NotErrorIs(t, err, holdfast.ErrNotAcquired, what)
		}
		require.Equal(t, before, l.rdb.Get(t.Context(), l.name).Val())
	}
	ofLatch := map[string]func(context.Context) error{
		"set":    func(ctx context.Context) error { _, err := m.Set(ctx, 2); return err },
		"count":  func(ctx context.Context) error { _, err := m.CountDown(ctx); return err },
		"look":   func(ctx context.Context) error { _, err := m.Count(ctx); return err },
		"wait":   func(ctx context.Context) error { return m.Wait(ctx) },
		"delete": func(ctx context.Context) error { _, err := m.Delete(ctx); return err },
	}
	ofSemaphore := map[string]func(context.Context) error{
		"try":   func(ctx context.Context) error { _, err := s.TryAcquire(ctx, 1); return err },
		"lock":  func(ctx context.Context) error { _, err := s.Lock(ctx); return err },
		"set":   func(ctx context.Context) error { return s.SetPermits(ctx, 9) },
		"state": func(ctx context.Context) error { _, err := s.State(ctx); return err },
	}
	set(t, m, 2)
	refused("latch", ofSemaphore)
	count(t, m, 1)
	refused("latch", ofSemaphore)
	count(t, m, 0)
	h, err := s.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	refused("semaphore", ofLatch)
	require.NoError(t, h.Unlock(t.Context()))
	refused("semaphore", ofLatch)
	require.NoError(t, l.rdb.Del(t.Context(), l.name, "{"+l.name+"}:timeout").Err())
	set(t, m, 1)
	refused("latch", ofSemaphore)
	count(t, m, 0)
}
