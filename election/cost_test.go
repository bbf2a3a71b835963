package election_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestIdleCandidates: a hundred candidates who wait cost a server no more scripts than a hundred
// waiters of a fair lock, and those who observe cost nothing.
func TestIdleCandidates(t *testing.T) {
	scripts := func(lock func(c *holdfast.Client) func(ctx context.Context) (*holdfast.Hold, error)) int64 {
		srv := redistest.Start(t)
		rdb := srv.Client(t)
		clients := make([]*holdfast.Client, 10)
		for i := range clients {
			// Nobody renews meanwhile.
			clients[i] = newClient(t, srv.Client(t, func(o *redis.Options) { o.PoolSize = 2 }), &holdfast.Options{Lease: time.Hour})
		}
		h, err := lock(clients[0])(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range 100 {
			waiting.Go(func() {
				if h, err := lock(clients[i%len(clients)])(ctx); err == nil {
					_ = h.Unlock(ctx)
				}
			})
		}
		eventually(t, "all wait", func() bool { return len(queued(t, rdb, "idle")) == 100 })
		srv.ResetStats(t)
		start := rdb.Time(t.Context()).Val()
		eventually(t, "time passes", func() bool { return rdb.Time(t.Context()).Val().Sub(start) > 6*time.Second })
		calls := srv.CommandCalls(t)
		cancel()
		waiting.Wait()
		unlock(t, h)
		return calls["evalsha"] + calls["eval"]
	}
	fairly := scripts(func(c *holdfast.Client) func(ctx context.Context) (*holdfast.Hold, error) {
		m := fairlock.New(c, "idle")
		return func(ctx context.Context) (*holdfast.Hold, error) { return m.Lock(ctx) }
	})
	var observing sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	candidates := scripts(func(c *holdfast.Client) func(ctx context.Context) (*holdfast.Hold, error) {
		e := election.New(c, "idle")
		observing.Go(func() {
			for _, err := range e.Observe(ctx) {
				if err != nil {
					return
				}
			}
		})
		return func(ctx context.Context) (*holdfast.Hold, error) { return e.Campaign(ctx, "value") }
	})
	cancel()
	observing.Wait()
	t.Logf("scripts in six seconds: %d of candidates, %d of waiters", candidates, fairly)
	// Ten clients poll once a second at most, and keep ten places each. Polls that are due at the
	// first or the last moment may fall in or not.
	require.LessOrEqual(t, candidates, fairly+2*10)
	require.LessOrEqual(t, candidates, int64(10*8))
}
