package simulation

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
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
		{"fairlock, one client", &defence.InTime, impatience{fair, 1, 200}},
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
