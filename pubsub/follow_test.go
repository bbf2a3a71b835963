package pubsub

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestFollowCosts: behind Sentinel a client with somebody who waits sends a command a second, for
// however many waiters. One for whom nobody waits, though its subscription lingers, sends nothing;
// nor does one that is not behind Sentinel.
func TestFollowCosts(t *testing.T) {
	level.ForAll(t)
	s := redistest.StartSentinel(t)
	hub := func(rdb *redis.Client) (*Hub, *atomic.Int64) {
		var sent atomic.Int64 // commands, by the pool
		rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			if cmds[0].Name() != "hello" { // of a new connection
				sent.Add(1)
			}
			return send()
		}))
		return newHub(t, rdb, Options{Linger: time.Hour}), &sent
	}
	plain, none := hub(s.Primary(t).Client(t))
	idle, nothing := hub(s.Client(t))
	joined(t, plain, "name")
	joined(t, idle, "name").Close()
	nothing.Store(0) // a look may have been in time
	eventually(t, "nobody looks", func() bool {
		idle.mu.Lock()
		defer idle.mu.Unlock()
		return !idle.links[idle.home].looking
	})
	nothing.Store(0)
	begin := time.Now()
	waits, some := hub(s.Client(t)) // it looks a second after it listens, and then every second
	for range 100 {
		joined(t, waits, "name")
	}
	joined(t, waits, "other")
	eventually(t, "it looks three times", func() bool {
		n, most := some.Load(), int64(time.Since(begin)/lookGap)
		require.LessOrEqual(t, n, most)
		return n == 3
	})
	require.Zero(t, none.Load())
	require.Zero(t, nothing.Load())
	require.Equal(t, 1, waits.Stats().Connections)
}

// TestMayMove: which clients are looked after.
func TestMayMove(t *testing.T) {
	addrs := []string{"127.0.0.1:1"}
	sentinel := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs}
	random := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs, RouteRandomly: true}
	for _, c := range []struct {
		rdb redis.UniversalClient
		is  bool
	}{
		{redis.NewClient(&redis.Options{Addr: addrs[0]}), false},
		{redis.NewFailoverClient(sentinel), true},
		{redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}), false},
		{redis.NewFailoverClusterClient(random), true},
		{redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addrs[0]}}), false},
	} {
		require.Equal(t, c.is, moves(c.rdb), "%T", c.rdb)
		require.NoError(t, c.rdb.Close())
	}
}

// TestRole: a server says its role in both protocols.
func TestRole(t *testing.T) {
	srv := redistest.Start(t)
	for _, protocol := range []int{2, 3} {
		rdb := srv.Client(t, func(o *redis.Options) { o.Protocol = protocol })
		reply, err := rdb.Do(t.Context(), "hello", protocol).Result()
		require.NoError(t, err)
		require.Equal(t, "master", roleIn(reply))
	}
	require.Nil(t, roleIn("no map"))
}

// TestElsewhere: only a connection that is newer than ours says where the server is by now.
func TestElsewhere(t *testing.T) {
	d := &dials{}
	d.once.Do(func() {}) // there is no client
	to, failure := "old:1", error(nil)
	dial := d.DialHook(func(context.Context, string, string) (net.Conn, error) { return addressed{to: to}, failure })
	open := func(ctx context.Context) { _, _ = dial(ctx, "tcp", "FailoverClient") }
	var ours string
	before := time.Now()
	open(d.note(t.Context(), nil, &ours))
	require.Equal(t, "old:1", ours)
	require.False(t, d.elsewhere(ours, before), "no other")
	open(t.Context())
	require.False(t, d.elsewhere(ours, before), "the same server")
	to, failure = "new:1", errors.New("refused")
	open(t.Context())
	require.False(t, d.elsewhere(ours, before), "it did not come to be")
	failure = nil
	open(t.Context())
	require.True(t, d.elsewhere(ours, before))
	require.False(t, d.elsewhere("", before), "nothing is known of ours")
	require.False(t, d.elsewhere("newest:1", time.Now()), "ours is newer")
}

// addressed is a connection with a remote address and nothing else.
type addressed struct {
	net.Conn
	to string
}

func (a addressed) RemoteAddr() net.Addr { return a }
func (addressed) Network() string        { return "tcp" }
func (a addressed) String() string       { return a.to }

// TestAlternatingAddresses: a server that seems to move all the time costs a connection a minute in
// the end. One that moves after a long time is followed at once.
func TestAlternatingAddresses(t *testing.T) {
	var f follower
	now := time.Now()
	var at []time.Duration
	for after := time.Duration(0); after < time.Hour; after += time.Second {
		if f.may(now.Add(after)) {
			at = append(at, after/time.Second)
		}
	}
	require.Equal(t, []time.Duration{0, 3, 9, 21, 45, 93, 153, 213}, at[:8])
	require.Len(t, at, 5+(3600-45)/60)
	later := now.Add(time.Hour + 10*maxFollowGap)
	require.True(t, f.may(later))
	require.False(t, f.may(later.Add(followGap-1)))
	require.True(t, f.may(later.Add(followGap)))
}
