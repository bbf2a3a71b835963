package multilock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestWaitHoldsInSilence: a server falls silent for good, and go-redis waits for it for ever. Wait bounds
// the whole call all the same: the questions, and the giving back of what the others have granted.
func TestWaitHoldsInSilence(t *testing.T) {
	for name, silent := range map[string]int{"the first": 0, "the last": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clients [3]*holdfast.Client
			var proxies [3]*faultproxy.Proxy
			var direct [3]*redis.Client
			for i, srv := range redistest.StartMasters(t, 3) {
				direct[i], proxies[i] = srv.Client(t), faultproxy.New(t, srv.Addr())
				rdb := redistest.NewClient(t, proxies[i].Addr(), func(o *redis.Options) { o.ReadTimeout = -1 })
				clients[i] = newClient(t, rdb, &holdfast.Options{RetryBudget: time.Hour})
			}
			var members []holdfast.Locker
			for i, c := range clients { // each has several, which are asked for together
				members = append(members, rlock.New(c, letters[i]+"1"), rlock.New(c, letters[i]+"2"))
			}
			all := multilock.New(members...)
			unlock(t, lock(t.Context(), t, all))
			proxies[silent].Silence(true)
			defer func() { // and its connections end, which nobody else does
				proxies[silent].Silence(false)
				proxies[silent].Stop()
				proxies[silent].Start()
			}()
			waiting := begin(t.Context(), t, all.Lock, holdfast.Wait(300*time.Millisecond))
			require.ErrorIs(t, waiting.Err(), holdfast.ErrUnavailable)
			for i, rdb := range direct {
				if i != silent {
					require.Empty(t, append(taken(t, rdb, letters[i]+"1"), taken(t, rdb, letters[i]+"2")...))
				}
			}
		})
	}
}
