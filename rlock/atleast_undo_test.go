package rlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// stayed are ways in which a lock that stayed for its time comes to be taken for longer. Each gets
// the lock, with a long lease, and unlocks it.
var stayed = []struct {
	name string
	d    time.Duration
	do   func(t *testing.T, p *proxied, opts ...holdfast.Option)
}{
	{"unlocked in an outage", 500 * time.Millisecond, unlockedInOutage},
	{"unlocked in an outage, later", time.Millisecond, unlockedInOutage},
	{"a late acquisition", 50 * time.Millisecond, acquiredLate},
}

func unlockedInOutage(t *testing.T, p *proxied, opts ...holdfast.Option) {
	t.Helper()
	h, err := p.mutex.Lock(t.Context(), opts...)
	require.NoError(t, err)
	p.proxy.Stop()
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrUnavailable)
	require.False(t, free(t, p.direct, "a"))
	p.proxy.Start()
}

// acquiredLate has the network keep the first attempt to get the lock until the time is over.
func acquiredLate(t *testing.T, p *proxied, opts ...holdfast.Option) {
	t.Helper()
	kept := p.proxy.KeepRequest(script(lua.Acquire), 1, time.Hour)
	go func() {
		<-kept.Fired()
		p.proxy.CutAll()
	}()
	h, err := p.mutex.Lock(t.Context(), opts...)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	eventually(t, "its time is over", func() bool { return free(t, p.direct, "a") })
	p.proxy.Deliver()
}

// newStayed is a lock whose requests may be under way for a while.
func newStayed(t *testing.T) *proxied {
	t.Helper()
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 2 * time.Second })
	c := newClient(t, rdb, &holdfast.Options{Lease: time.Hour, RetryBudget: time.Second})
	p := &proxied{srv, proxy, srv.Client(t), c, rlock.New(c, "a")}
	warm(t, p)
	return p
}

// TestHoldAtLeastGivenBack: when its time is over a lock is given back that would stay for the rest
// of its lease. Not before.
func TestHoldAtLeastGivenBack(t *testing.T) {
	for _, s := range stayed {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, start := newStayed(t), time.Now()
			s.do(t, p, holdfast.HoldAtLeast(s.d))
			eventually(t, "given back", func() bool { return free(t, p.direct, "a") })
			require.GreaterOrEqual(t, time.Since(start), s.d)
		})
	}
}

// The control: nobody else ends it.
func TestHoldAtLeastGivenBackControl(t *testing.T) {
	t.Cleanup(defence.Undo.Without(t))
	for _, s := range stayed {
		t.Run(s.name, func(t *testing.T) {
			p := newStayed(t)
			s.do(t, p, holdfast.HoldAtLeast(s.d))
			require.NoError(t, p.client.Close(t.Context())) // joins the background: nothing more will come
			require.Greater(t, p.direct.PTTL(t.Context(), "a").Val(), time.Hour-time.Minute)
		})
	}
}

// TestHoldAtLeastClosedInOutage: a client that is closed does not wait for the time to be over, nor
// give the lock back before.
func TestHoldAtLeastClosedInOutage(t *testing.T) {
	p := newStayed(t)
	unlockedInOutage(t, p, holdfast.HoldAtLeast(time.Minute))
	start := time.Now()
	require.NoError(t, p.client.Close(t.Context()))
	require.Less(t, time.Since(start), time.Minute)
	require.False(t, free(t, p.direct, "a"))
}
