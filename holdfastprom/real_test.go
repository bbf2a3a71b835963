package holdfastprom_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// total adds up all series of a metric whose labels include some.
func total(t *testing.T, r *prometheus.Registry, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			missing := len(labels) / 2
			for _, l := range m.GetLabel() {
				for i := 0; i < len(labels); i += 2 {
					if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
						missing--
					}
				}
			}
			if f.GetName() == name && missing == 0 {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// storm is what callers saw of locks on a real server.
type storm struct {
	clients              []*holdfast.Client
	granted, refused, up atomic.Int64
}

// once takes a lock in one of many ways, perhaps re-enters, and gives back what it got, or leaves it to
// the end of the client.
func (s *storm) once(rng *rand.Rand) {
	ctx := context.Background()
	if rng.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	c, name := s.clients[rng.IntN(len(s.clients))], "storm:"+string(rune('a'+rng.IntN(3)))
	l := []holdfast.Locker{rlock.New(c, "r"+name), fairlock.New(c, "f"+name), rwlock.New(c, "w"+name).RLocker(),
		rwlock.New(c, "w"+name), semaphore.New(c, "s"+name, 2)}[rng.IntN(5)]
	lock := l.Lock
	if rng.IntN(3) == 0 {
		lock = l.TryLock
	}
	hold, err := lock(ctx, holdfast.Wait(time.Duration(rng.IntN(50))*time.Millisecond))
	if err != nil {
		s.refused.Add(1)
		return
	}
	s.granted.Add(1)
	if inner, err := l.TryLock(hold.Context()); err == nil {
		s.granted.Add(1)
		_ = inner.Unlock(ctx)
	} else {
		s.refused.Add(1)
	}
	if rng.IntN(50) == 0 {
		s.up.Add(1)
		return
	}
	_ = hold.Unlock(ctx)
}

// TestCountsAreExact: after a storm over several kinds, with cancelled calls, re-entries, locks that are
// deleted and holds that only Close ends, each call was counted once and nothing is held or waited for.
func TestCountsAreExact(t *testing.T) {
	server := redistest.Start(t)
	metrics := holdfastprom.New(nil)
	registry := register(t, metrics)
	s := &storm{}
	for range 2 {
		c, err := holdfast.New(server.Client(t), &holdfast.Options{Observer: metrics.Observer()})
		require.NoError(t, err)
		s.clients = append(s.clients, c)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 60 {
				s.once(rng)
				if g == 0 && i%20 == 0 {
					server.Command(t, "FLUSHALL")
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, s.granted.Load())
	require.Positive(t, s.refused.Load())
	require.Zero(t, total(t, registry, "holdfast_lock_waiting"))
	require.LessOrEqual(t, total(t, registry, "holdfast_lock_held"), float64(s.up.Load()))
	for _, c := range s.clients {
		require.NoError(t, c.Close(context.Background()))
	}
	require.Zero(t, total(t, registry, "holdfast_lock_held"))
	require.Zero(t, total(t, registry, "holdfast_lock_waiting"))
	require.Zero(t, total(t, registry, "holdfast_lock_oldest_hold_age_seconds"))
	require.Zero(t, total(t, registry, "holdfast_events_dropped_total"))
	require.Equal(t, float64(s.granted.Load()), total(t, registry, "holdfast_lock_wait_duration_seconds", "granted", "true"))
	require.Equal(t, float64(s.refused.Load()), total(t, registry, "holdfast_lock_wait_duration_seconds", "granted", "false"))
	require.Equal(t, float64(s.granted.Load()), total(t, registry, "holdfast_lock_hold_duration_seconds"))
	require.Equal(t, float64(s.granted.Load()+s.refused.Load()), total(t, registry, "holdfast_lock_acquisitions_total"))
	require.Positive(t, total(t, registry, "holdfast_script_duration_seconds", "script", "acquire"))
}

// TestAnOutage: calls, scripts, renewals and the subscription of a waiter say that Redis is gone, and the
// hold is lost by the clock.
func TestAnOutage(t *testing.T) {
	server := redistest.Start(t)
	metrics := holdfastprom.New(nil)
	registry := register(t, metrics)
	var clients []*holdfast.Client
	for range 2 {
		c, err := holdfast.New(server.Client(t), &holdfast.Options{Lease: 3 * time.Second, RetryBudget: 10 * time.Millisecond,
			Observer: metrics.Observer()})
		require.NoError(t, err)
		redistest.CloseAtEnd(t, c)
		clients = append(clients, c)
	}
	ctx := context.Background()
	hold, err := rlock.New(clients[0], "a").Lock(ctx)
	require.NoError(t, err)
	waiter := make(chan error, 1)
	go func() {
		_, err := rlock.New(clients[1], "a").Lock(ctx)
		waiter <- err
	}()
	require.Eventually(t, func() bool {
		return server.Command(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}").([]any)[1] == int64(1)
	}, 30*time.Second, 5*time.Millisecond)
	server.Kill()
	<-hold.Context().Done()
	require.ErrorIs(t, <-waiter, holdfast.ErrUnavailable)
	_, err = rlock.New(clients[0], "b").TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.Eventually(t, func() bool {
		return total(t, registry, "holdfast_lock_losses_total", "reason", "silent") == 1 &&
			total(t, registry, "holdfast_subscription_losses_total") >= 1
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, 2.0, total(t, registry, "holdfast_lock_acquisitions_total", "outcome", "unavailable"))
	require.Positive(t, total(t, registry, "holdfast_script_errors_total", "reason", "unanswered"))
	require.Positive(t, total(t, registry, "holdfast_lock_renewals_total", "outcome", "failed"))
	require.Zero(t, total(t, registry, "holdfast_lock_held"))
	server.Restart() // so that go-redis's goroutine that looks for it ends before leaks are looked for
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "pool.(*ConnPool).tryDial")
	}, 30*time.Second, 10*time.Millisecond)
}
