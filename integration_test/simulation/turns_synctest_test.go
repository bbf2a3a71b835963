package simulation

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/rlock"
)

// contest is about one lock, which goroutines of near clients use all the time. Another client is farther away.
type contest struct {
	near  int           // clients
	away  time.Duration // how much farther away the other one is, one way
	guest bool          // it is one of Redisson's
	turns int           // how often the other one is to have the lock
	most  int64         // how often the near ones may have it meanwhile
}

// TestTurns: who is farther away has its turn among those who are near. How many grants they have meanwhile is the same each
// time: time passes only while all wait. Without the defence they have nearly all.
func TestTurns(t *testing.T) {
	const little, far = 500 * time.Microsecond, 20 * time.Millisecond
	for _, c := range []struct {
		name string
		off  *defence.Switch
		contest
	}{
		{"others are looked for", &defence.Look, contest{near: 1, away: little, turns: 5, most: 100}},
		{"others are let go first", &defence.YieldTurn, contest{near: 1, away: little, turns: 5, most: 100}},
		{"clients take turns", &defence.Turns, contest{near: 3, away: little, turns: 5, most: 300}},
		{"head starts", &defence.HeadStart, contest{near: 1, away: far, turns: 5, most: 700}},
		{"all keep to head starts", &defence.HeadStart, contest{near: 3, away: far, turns: 5, most: 700}},
		{"one grant or two beside Redisson", &defence.RedissonTurns, contest{near: 1, away: little, guest: true, turns: 40, most: 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := c.run(t)
			defer c.off.Without(t)()
			if c.off == &defence.Look { // the server is also asked when the tokens are used up
				defer defence.Reserved.Without(t)()
			}
			without := c.run(t)
			t.Logf("the near ones had it %d times, and %d times without the defence", with, without)
			require.Less(t, with, c.most)
			require.GreaterOrEqual(t, without, c.most, "control")
		})
	}
}

// run returns how often the near ones had the lock.
func (c contest) run(t *testing.T) int64 {
	var had atomic.Int64
	had.Store(-1000) // they have begun when it is counted
	play(t, c.near+1, func(s *scene) {
		var over atomic.Bool
		var group sync.WaitGroup
		for _, one := range s.clients[:c.near] {
			for range 4 {
				group.Go(func() {
					for !over.Load() && had.Load() < c.most {
						s.hold(one)
						had.Add(1)
					}
				})
			}
		}
		s.networks[c.near].far = c.away
		s.past(50 * time.Millisecond) // until they are all at it
		turn := func() { s.hold(s.clients[c.near]) }
		if c.guest {
			turn = s.redisson(s.rdbs[c.near])
		}
		had.Store(0)
		for range c.turns {
			turn()
		}
		over.Store(true)
		group.Wait()
	})
	return had.Load()
}

// hold has a client hold the lock once.
func (s *scene) hold(c *holdfast.Client) {
	h, err := rlock.New(c, "a").Lock(s.t.Context())
	if assert.NoError(s.t, err) {
		s.past(time.Millisecond)
		assert.NoError(s.t, h.Unlock(s.t.Context()))
	}
}

// redisson has a thread of Redisson's hold the lock once: it asks when it hears of a release.
func (s *scene) redisson(rdb *redis.Client) (turn func()) {
	const channel = "redisson_lock__channel:{a}"
	ctx := s.t.Context()
	ear := rdb.Subscribe(ctx, channel)
	_, err := ear.Receive(ctx)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = ear.Close() })
	do := func(script string) any {
		reply, err := rdb.Eval(ctx, script, []string{"a", channel}, "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17").Result()
		require.NoError(s.t, err)
		return reply
	}
	return func() {
		for do(`if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 1) return redis.call('PEXPIRE', KEYS[1], 30000)`) == int64(0) {
			_, err := ear.ReceiveMessage(ctx)
			require.NoError(s.t, err)
		}
		s.past(time.Millisecond)
		do(`redis.call('DEL', KEYS[1]) return redis.call('PUBLISH', KEYS[2], '0')`)
	}
}

// scene is a world in which a test says what happens: nothing in it happens by chance.
type scene struct {
	*World
	t        *testing.T
	networks []*network
	rdbs     []*redis.Client
	clients  []*holdfast.Client
}

// play has a test say what happens to so many clients.
func play(t *testing.T, clients int, act func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{World: bare(Settings{Seed: 1, Actors: 4, Latency: 100 * time.Microsecond}), t: t}
		for number := range clients {
			n := newNetwork(s.World, number)
			rdb := s.connect(n)
			c, err := holdfast.New(rdb, &holdfast.Options{Label: holdfast.NoLabel})
			require.NoError(t, err)
			s.networks, s.rdbs, s.clients = append(s.networks, n), append(s.rdbs, rdb), append(s.clients, c)
		}
		act(s)
		for i, c := range s.clients {
			require.NoError(t, c.Close(context.Background()))
			require.NoError(t, s.rdbs[i].Close())
			s.networks[i].cut()
		}
		s.server.Close()
	})
}

// past has time go by.
func (s *scene) past(d time.Duration) { s.sleep(s.t.Context(), d) }

// TestPlacesArePutOff: a waiter for a fair lock keeps its place while the lock is held. Without the defence it loses it,.
func TestPlacesArePutOff(t *testing.T) {
	serves := func() (err error) {
		play(t, 2, func(s *scene) {
			h, err1 := fairlock.New(s.clients[0], "a").Lock(s.t.Context())
			require.NoError(s.t, err1)
			over := make(chan struct{})
			go func() {
				defer close(over)
				var h *holdfast.Hold
				if h, err = fairlock.New(s.clients[1], "a").Lock(s.t.Context(), holdfast.Wait(time.Minute)); err == nil {
					err = h.Unlock(s.t.Context())
				}
			}()
			s.past(2 * place)
			require.NoError(s.t, h.Unlock(s.t.Context()))
			<-over
		})
		return err
	}
	require.NoError(t, serves())
	defer defence.Refresh.Without(t)()
	require.ErrorIs(t, serves(), holdfast.ErrNotAcquired, "control")
}

// TestServerClock: all of a server's time moves with the bubble's clock, at its rate: TIME in a script, TTLs, and keys' ends.
func TestServerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bare(Settings{Skew: 0.005, Latency: time.Millisecond})
		defer w.server.Close()
		n := newNetwork(w, 0)
		rdb := w.connect(n)
		ctx := context.Background()
		look := func() []int64 {
			list, err := rdb.Eval(ctx, `return {tonumber(redis.call('TIME')[1]), redis.call('PTTL', KEYS[1])}`,
				[]string{"key"}).Int64Slice()
			require.NoError(t, err)
			return list
		}
		require.NoError(t, rdb.Eval(ctx, `return redis.call('SET', KEYS[1], 'x', 'PX', 3600000)`, []string{"key"}).Err())
		before := look()
		time.Sleep(1000 * time.Second)
		after := look()
		require.InDelta(t, 1005, after[0]-before[0], 1, "TIME, half a per cent fast")
		require.InDelta(t, 1005000, before[1]-after[1], 100, "PTTL")
		time.Sleep(2581 * time.Second) // 2593 s of the server's, and 2595 s are left of an hour
		require.Positive(t, look()[1], "still there")
		time.Sleep(2 * time.Second)
		require.Equal(t, int64(-2), look()[1], "gone")
		require.ErrorIs(t, rdb.Get(ctx, "key").Err(), redis.Nil)
		require.NoError(t, rdb.Close())
		n.cut()
	})
}

// bare is a world with a server and nobody in it.
func bare(s Settings) *World {
	s.ReadTimeout, s.DialTimeout, s.DialerRetries = time.Second, time.Second, 1
	w := &World{Settings: s}
	w.start, w.server = time.Now(), miniredis.NewMiniRedis()
	w.server.ClockTTL(true)
	w.flush()
	w.server.Server().SetPreHook(w.skew)
	return w
}
