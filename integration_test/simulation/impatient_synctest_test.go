package simulation

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
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

// TestImpatience: callers who leave do not stop those behind them, not for a tenth of a second. Time passes only while all
// wait, so it is no matter how fast the machine is. Without the defence there is hardly a grant.
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
		{"fairlock, one client", &defence.InTime, impatience{fair, 1, 500}},
		{"fairlock, four clients", &defence.InTime, impatience{fair, 4, 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.clients > 1 || c.least < 500 { // one row is for all levels
				level.ForAll(t)
			}
			with, each := c.run(t)
			defer c.off.Without(t)()
			without, _ := c.run(t)
			t.Logf("%d grants in a second, by tenths %d, and %d without the defence", with, each, without)
			require.GreaterOrEqual(t, with, c.least)
			require.NotContains(t, each, int64(0), "a tenth of a second without a grant")
			require.Less(t, without, with/4, "control")
		})
	}
}

// run returns how often somebody had the lock in one second, and in each tenth of it.
func (c impatience) run(t *testing.T) (grants int64, each []int64) {
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
		for range 10 {
			s.past(time.Second / 10)
			each = append(each, had.Load()-before-grants)
			grants = had.Load() - before
		}
		over.Store(true)
		group.Wait()
	})
	return grants, each
}

// queues are the kinds whose waiters have places at the server.
var queues = []struct {
	kind   string
	make   func(c *holdfast.Client) holdfast.Locker
	places string       // the key with the ends of the places
	all    []redis.Hook // a script that gives places to several, all for the longest time
}{
	{"fairlock", func(c *holdfast.Client) holdfast.Locker { return fairlock.New(c, "a") }, keys.For("a").Deadlines,
		edits(lua.FairJoin, "now + use[owner])", "now + silence)")},
	{"semaphore", func(c *holdfast.Client) holdfast.Locker { return semaphore.New(c, "a", 1) }, keys.ForPermits("a").Places,
		edits(lua.SemJoin, "enqueue(owner, 1, use[owner])", "enqueue(owner, 1, silence)")},
}

// TestPlacesEndWithTheirCallers: a place counts as long as its caller stays, no longer, though the client's polls put it off.
func TestPlacesEndWithTheirCallers(t *testing.T) {
	for _, c := range queues {
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

// TestPlacesAskedForTogether: callers of one client who come at the same moment ask for places by one script, and each place ends
// when its caller leaves. Control: a script that gives all the longest time.
func TestPlacesAskedForTogether(t *testing.T) {
	for _, c := range queues {
		t.Run(c.kind, func(t *testing.T) {
			latest := func(hooks ...redis.Hook) (d time.Duration) {
				play(t, 1, func(s *scene) {
					for _, hook := range hooks {
						s.rdbs[0].AddHook(hook)
					}
					d = s.latestOfMany(c.make(s.clients[0]), c.places)
				})
				return d
			}
			require.InDelta(t, 0, latest().Seconds(), 0.01)
			require.Greater(t, latest(c.all...), 5*time.Second, "control")
		})
	}
}

// latestOfMany is how much later than its caller leaves a place ends, at most, of sixteen callers who come at the same moment.
func (s *scene) latestOfMany(l holdfast.Locker, places string) time.Duration {
	const callers = 16
	h, err := l.Lock(s.t.Context())
	require.NoError(s.t, err)
	begun, left := time.Now(), make(chan error)
	leaves := func(i int) time.Time { return begun.Add(place * time.Duration(i+2) / (2 * callers)) }
	for i := range callers {
		go func() {
			_, err := l.Lock(s.t.Context(), holdfast.Wait(time.Until(leaves(i))))
			left <- err
		}()
	}
	s.past(100 * time.Millisecond)
	ends, err := s.rdbs[0].ZRangeWithScores(s.t.Context(), places, 0, -1).Result()
	require.NoError(s.t, err)
	ends = slices.DeleteFunc(ends, func(z redis.Z) bool { return z.Score < 0 }) // the holder's
	require.Len(s.t, ends, callers)
	latest := time.Duration(math.MinInt64)
	for i, z := range ends { // in the order in which they leave
		latest = max(latest, time.UnixMilli(int64(z.Score)).Sub(leaves(i)))
	}
	for range callers {
		require.ErrorIs(s.t, <-left, holdfast.ErrNotAcquired)
	}
	require.NoError(s.t, h.Unlock(s.t.Context()))
	return latest
}

// asked counts the scripts that ask for a lock.
func asked(n *atomic.Int64) redis.Hook {
	return redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		for _, cmd := range cmds {
			if len(cmd.Args()) > 1 && wants(cmd) {
				n.Add(1)
			}
		}
		return send()
	})
}

// TestNothingIsSentForWhoHasLeft: the server is not asked for callers who leave while their questions wait for others'.
func TestNothingIsSentForWhoHasLeft(t *testing.T) {
	sent := func() int64 {
		var n atomic.Int64
		play(t, 1, func(s *scene) {
			var group sync.WaitGroup
			come := func(l holdfast.Locker, wait time.Duration) {
				group.Go(func() {
					_, err := l.Lock(s.t.Context(), holdfast.Wait(wait))
					assert.True(t, errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable), err)
				})
				s.past(10 * time.Microsecond)
			}
			var locks [3]holdfast.Locker
			var holds [3]*holdfast.Hold
			for i, name := range []string{"a", "b", "c"} {
				locks[i] = fairlock.New(s.clients[0], name)
				var err error
				holds[i], err = locks[i].Lock(s.t.Context())
				require.NoError(s.t, err)
				come(locks[i], time.Minute) // those behind it ask for places at once, all together after 2 ms
			}
			s.past(time.Second)
			s.networks[0].far = 100 * time.Millisecond
			s.rdbs[0].AddHook(asked(&n))
			come(locks[0], time.Second)
			come(locks[1], time.Second)
			for range 8 {
				come(locks[2], 3*time.Millisecond) // 4 ms after those two, others are sent beside them
			}
			group.Wait()
			for _, h := range holds {
				require.NoError(s.t, h.Unlock(s.t.Context()))
			}
		})
		return n.Load()
	}
	require.Equal(t, int64(2), sent())
	defer defence.Gone.Without(t)()
	require.Equal(t, int64(3), sent(), "control")
}

// TestColdCrowd: callers with little time, whose client has had no answer yet, do not send one pipeline after the other while the
// first is under way. They would ask for a place each time, and only the first of these would count when the answers come.
func TestColdCrowd(t *testing.T) {
	var sent atomic.Int64
	play(t, 2, func(s *scene) {
		h, err := fairlock.New(s.clients[1], "a").Lock(s.t.Context())
		require.NoError(s.t, err)
		s.networks[0].far = 20 * time.Millisecond
		s.rdbs[0].AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return len(cmd.Args()) > 1 && wants(cmd) }) {
				sent.Add(1)
			}
			return send()
		}))
		var over atomic.Bool
		var group sync.WaitGroup
		l := fairlock.New(s.clients[0], "a")
		for range 64 {
			group.Go(func() {
				for !over.Load() {
					_, err := l.Lock(s.t.Context(), holdfast.Wait(5*time.Millisecond))
					assert.True(t, errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable), err)
				}
			})
		}
		s.past(500 * time.Millisecond)
		over.Store(true)
		group.Wait()
		require.NoError(s.t, h.Unlock(s.t.Context()))
	})
	t.Logf("%d pipelines", sent.Load())
	require.LessOrEqual(t, sent.Load(), int64(50), "two at a time, of 40 ms each; one every 2 ms would be five times as many")
}
