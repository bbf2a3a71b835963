package simulation

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// impatience is about one lock, which callers want all the time who all wait for as long: a few round trips. So one of
// them leaves each millisecond, and the one who has waited longest has the least time left.
type impatience struct {
	make    func(c *holdfast.Client) holdfast.Locker
	clients int
	least   int64 // grants in a second
}

// TestImpatience: callers who leave do not stop those behind them. Time passes only while all wait, so it is no matter how
// fast the machine is. Without the defence there is no grant at all.
func TestImpatience(t *testing.T) {
	plain := func(c *holdfast.Client) holdfast.Locker { return rlock.New(c, "a") }
	writers := func(c *holdfast.Client) holdfast.Locker { return rwlock.New(c, "a") }
	fair := func(c *holdfast.Client) holdfast.Locker { return fairlock.New(c, "a") }
	for _, c := range []struct {
		name string
		off  *defence.Switch
		impatience
	}{
		{"rlock, four clients", &defence.Outlast, impatience{plain, 4, 200}},
		{"rwlock, one client", &defence.Outlast, impatience{writers, 1, 30}},
		{"fairlock, one client", &defence.InTime, impatience{fair, 1, 20}},
		{"fairlock, four clients", &defence.InTime, impatience{fair, 4, 60}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.clients > 1 {
				level.ForAll(t)
			}
			with := c.run(t)
			defer c.off.Without(t)()
			without := c.run(t)
			t.Logf("%d grants in a second, and %d without the defence", with, without)
			require.GreaterOrEqual(t, with, c.least)
			require.Less(t, without, c.least/4, "control")
		})
	}
}

// run returns how often somebody had the lock in one second.
func (c impatience) run(t *testing.T) (grants int64) {
	const callers, oneWay, patience = 64, 5 * time.Millisecond, 60 * time.Millisecond
	play(t, c.clients, func(s *scene) {
		var had atomic.Int64
		var over atomic.Bool
		var group sync.WaitGroup
		for _, n := range s.networks {
			n.far = oneWay
		}
		for i := range callers {
			l := c.make(s.clients[i%c.clients])
			group.Go(func() {
				for s.past(patience * time.Duration(i) / callers); !over.Load(); {
					h, err := l.Lock(s.t.Context(), holdfast.Wait(patience))
					if err != nil {
						assert.True(t, errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable), err)
						continue
					}
					had.Add(1)
					s.past(time.Millisecond)
					assert.NoError(t, h.Unlock(s.t.Context()))
				}
			})
		}
		s.past(time.Second) // until they are all at it
		before := had.Load()
		s.past(time.Second)
		grants = had.Load() - before
		over.Store(true)
		group.Wait()
	})
	return grants
}

// TestPlacesEndWithTheirCallers: a place never counts for longer than its caller stays, though the polls of its client put
// it off meanwhile, and still counts when the caller leaves.
func TestPlacesEndWithTheirCallers(t *testing.T) {
	for _, c := range []struct {
		kind   string
		make   func(c *holdfast.Client) holdfast.Locker
		places string
	}{
		{"fairlock", func(c *holdfast.Client) holdfast.Locker { return fairlock.New(c, "a") }, keys.For("a").Deadlines},
		{"semaphore", func(c *holdfast.Client) holdfast.Locker { return semaphore.New(c, "a", 1) }, keys.ForPermits("a").Places},
	} {
		for _, stay := range []time.Duration{place / 2, 2 * place} {
			t.Run(c.kind+"/"+stay.String(), func(t *testing.T) {
				latest := func() (d time.Duration) {
					play(t, 1, func(s *scene) { d = s.latestPlace(c.make(s.clients[0]), c.places, stay) })
					return d
				}
				require.InDelta(t, 0, latest().Seconds(), 0.01)
				defer defence.InTime.Without(t)()
				require.Greater(t, latest(), 5*time.Second, "control")
			})
		}
	}
}

// latestPlace is how much later than its caller leaves a place ends, at most, while somebody else has the lock.
func (s *scene) latestPlace(l holdfast.Locker, places string, stay time.Duration) time.Duration {
	h, err := l.Lock(s.t.Context())
	require.NoError(s.t, err)
	leaves, left := time.Now().Add(stay), make(chan error)
	go func() {
		_, err := l.Lock(s.t.Context(), holdfast.Wait(stay))
		left <- err
	}()
	latest := time.Duration(math.MinInt64)
	for time.Until(leaves) > time.Second {
		s.past(time.Second)
		last, err := s.rdbs[0].ZRangeWithScores(s.t.Context(), places, -1, -1).Result()
		require.NoError(s.t, err)
		require.Len(s.t, last, 1)
		latest = max(latest, time.UnixMilli(int64(last[0].Score)).Sub(leaves))
	}
	require.ErrorIs(s.t, <-left, holdfast.ErrNotAcquired)
	require.NoError(s.t, h.Unlock(s.t.Context()))
	return latest
}
