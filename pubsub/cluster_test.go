package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// clusterTest is a cluster of two shards with a replica each, shared by the subtests because it takes 2 s to start.
type clusterTest struct {
	*redistest.Cluster
	sharded bool // the servers know SSUBSCRIBE
}

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 2, 1)
	c := clusterTest{Cluster: cluster, sharded: cluster.Nodes[0].Major() >= 7}
	t.Run("slot moved", func(t *testing.T) { c.slotMoved(t, true) })
	t.Run("slot moved, control", func(t *testing.T) { c.slotMoved(t, false) })
	t.Run("replica", func(t *testing.T) { c.atReplica(t, true) })
	t.Run("replica, control", func(t *testing.T) { c.atReplica(t, false) })
	t.Run("links", func(t *testing.T) { level.ForAll(t); c.links(t) })
	t.Run("moved while connecting", func(t *testing.T) { level.ForAll(t); c.movedUnknown(t) })
	t.Run("master taken over", func(t *testing.T) { level.ForAll(t); c.failover(t, c.names(t, "failover")[0], false) })
	// the shard that still has its replica
	t.Run("master stopped", func(t *testing.T) { level.ForAll(t); c.failover(t, c.names(t, "stopped")[1], true) })
}

// client is one whose own reload interval is too long to help.
func (c clusterTest) client(t *testing.T) *redis.ClusterClient {
	return c.Client(t, func(o *redis.ClusterOptions) {
		o.ClusterStateReloadInterval = time.Hour
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = time.Second, time.Second, time.Second
	})
}

func (c clusterTest) master(t *testing.T, key string) *redis.Client {
	return c.Master(t, key).Client(t)
}

// publish returns how many heard it, of those that the node can know.
func (c clusterTest) publish(t *testing.T, channel string) int64 {
	m := c.master(t, channel)
	if !c.sharded {
		require.NoError(t, m.Publish(t.Context(), channel, "0").Err())
		return 1
	}
	n, err := m.SPublish(t.Context(), channel, "0").Result()
	require.NoError(t, err)
	return n
}

// names returns the channels of one lock per shard.
func (c clusterTest) names(t *testing.T, prefix string) [2]string {
	var names [2]string
	for i := 0; names[0] == "" || names[1] == ""; i++ {
		name := fmt.Sprintf("channel:{%s%d}", prefix, i)
		if c.Master(t, name).Addr() == c.Master(t, "channel:{anchor}").Addr() {
			names[0] = name
		} else {
			names[1] = name
		}
	}
	return names
}

func (c clusterTest) hears(t *testing.T, s *Subscription) {
	for hasToken(s) {
	}
	require.EqualValues(t, 1, c.publish(t, s.topic.channel))
	woken(t, s)
}

// One connection per server, however many channels; one for all where the servers know no sharded channels.
func (c clusterTest) links(t *testing.T) {
	h := newHub(t, c.client(t), Options{Linger: 20 * time.Millisecond})
	subs := make([]*Subscription, 200)
	for i := range subs {
		subs[i] = h.Subscribe(fmt.Sprintf("channel:{links%d}", i))
	}
	for _, s := range subs {
		awaitConfirmed(t, h, s.topic.channel)
		woken(t, s)
	}
	want := 2
	if !c.sharded {
		want = 1
	}
	eventually(t, "one connection per server", func() bool { return h.Stats().Connections == want })
	for _, s := range subs {
		c.hears(t, s)
		s.Close()
	}
	eventually(t, "nothing left", func() bool { return h.Stats() == Stats{} })
}

// slotMoved moves the slot of one channel to the other shard. Unless sunsubscribe is answered, the channel stays silent.
func (c clusterTest) slotMoved(t *testing.T, defended bool) {
	if !c.sharded {
		t.Skip("classic channels have no slot")
	}
	if !defended {
		t.Cleanup(defence.Resubscribe.Without(t))
	}
	h := newHub(t, c.client(t), Options{})
	names := c.names(t, fmt.Sprint("moved", defended))
	s := joined(t, h, names[0])
	stays := joined(t, h, c.names(t, "stays")[0]) // the same server, another slot: same connection
	c.move(t, names[0], names[1])
	c.hears(t, stays) // what the server said before that has been read

	if !defended {
		require.Equal(t, confirmed, stateOf(h, names[0]))
		require.Zero(t, c.publish(t, names[0]), "the control still hears")
		require.False(t, hasToken(s))
		return
	}
	woken(t, s)
	eventually(t, "subscribed at the new owner", func() bool { return c.publish(t, names[0]) == 1 })
	c.hears(t, s)
	c.hears(t, stays)
}

// atReplica: the client's map of slots names a master that is a replica by now, and accepts the subscription.
func (c clusterTest) atReplica(t *testing.T, defended bool) {
	if !c.sharded {
		t.Skip("a classic channel may be at any node")
	}
	if !defended {
		t.Cleanup(defence.AtMaster.Without(t))
	}
	rdb, name := c.client(t), c.names(t, fmt.Sprint("replica", defended))[0]
	_, err := rdb.MasterForKey(t.Context(), name) // loads the state
	require.NoError(t, err)
	c.Switch(t, name)
	h := newHub(t, rdb, Options{})
	s := joined(t, h, name)
	if !defended {
		require.Equal(t, confirmed, stateOf(h, name))
		require.Zero(t, c.counted(t, name), "the control is at the master")
		return
	}
	eventually(t, "it is at the master", func() bool { return c.counted(t, name) == 1 })
	c.hears(t, s)
}

// counted is how many listen on a channel, for its master.
func (c clusterTest) counted(t *testing.T, channel string) int64 {
	n, err := c.master(t, channel).PubSubShardNumSub(t.Context(), channel).Result()
	require.NoError(t, err)
	return n[channel]
}

// movedUnknown: the client's state of the cluster is out of date before it subscribes.
func (c clusterTest) movedUnknown(t *testing.T) {
	rdb := c.client(t)
	names := c.names(t, "stale")
	_, err := rdb.MasterForKey(t.Context(), names[0]) // loads the state
	require.NoError(t, err)
	c.move(t, names[0], names[1])
	h := newHub(t, rdb, Options{})
	c.hears(t, joined(t, h, names[0]))
}

// move gives the slot of key to the master of to. It must be empty.
func (c clusterTest) move(t *testing.T, key, to string) {
	oldOwner, owner := c.master(t, key), c.master(t, to)
	slot, err := owner.ClusterKeySlot(t.Context(), key).Result()
	require.NoError(t, err)
	id, err := owner.Do(t.Context(), "cluster", "myid").Text()
	require.NoError(t, err)
	nodes := make([]*redis.Client, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = n.Client(t)
	}
	// The newest epoch wins where nodes disagree, and a gossip of the old state may undo a half of the move.
	require.NoError(t, owner.Do(t.Context(), "cluster", "bumpepoch").Err())
	eventually(t, "everybody knows the new owner", func() bool {
		for _, n := range nodes {
			slots, err := n.ClusterSlots(t.Context()).Result() //nolint:staticcheck // Redis 6 has no CLUSTER SHARDS
			if err != nil || ownerOf(slots, int(slot)) != id {
				// fails next time, too, if it does
				_ = owner.Do(t.Context(), "cluster", "setslot", slot, "node", id).Err()
				_ = oldOwner.Do(t.Context(), "cluster", "setslot", slot, "node", id).Err()
				return false
			}
		}
		return true
	})
}

func ownerOf(slots []redis.ClusterSlot, slot int) string {
	for _, s := range slots {
		if s.Start <= slot && slot <= s.End {
			return s.Nodes[0].ID
		}
	}
	return ""
}

// failover has a replica take the place of a channel's master. One that is stopped is the hardest: it accepts
// connections and says nothing, and go-redis reloads nothing by itself.
func (c clusterTest) failover(t *testing.T, channel string, stopped bool) {
	h := newHub(t, c.client(t), Options{Ping: map[bool]time.Duration{true: 100 * time.Millisecond}[stopped]})
	s := joined(t, h, channel)
	if stopped {
		c.AwaitReplicas(t.Context(), t, channel)
		old := c.Master(t, channel)
		old.Pause()
		defer old.Resume()
	}
	master := c.Failover(t, channel)
	if c.sharded { // a classic subscription may be on a node that is not concerned
		woken(t, s)
	}
	c.eventuallyHears(t, master, s)
}

// eventuallyHears publishes at the new master until more has been heard than loss and confirmation explain.
func (c clusterTest) eventuallyHears(t *testing.T, master *redistest.Server, s *Subscription) {
	rdb := master.Client(t)
	tokens := 0
	eventually(t, "heard at the new master", func() bool {
		var err error
		if c.sharded {
			err = rdb.SPublish(t.Context(), s.topic.channel, "0").Err()
		} else {
			err = rdb.Publish(t.Context(), s.topic.channel, "0").Err()
		}
		if err == nil && hasToken(s) {
			tokens++
		}
		return tokens == 10
	})
	require.NoError(t, s.Err())
}

// A ring publishes to the shard of the channel, so that is where it must be subscribed.
func TestRing(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	defer func() { require.NoError(t, ring.Close()) }()
	h := newHub(t, ring, Options{})
	for i := range 20 {
		s := joined(t, h, fmt.Sprintf("channel:{%d}", i))
		shard, err := ring.GetShardClientForKey(s.topic.channel)
		require.NoError(t, err)
		publish(t, shard, s.topic.channel, 1)
		woken(t, s)
	}
	require.Equal(t, 2, h.Stats().Connections)
	require.NoError(t, h.Close(t.Context()))
}

// TestFollowCosts: behind Sentinel a client with somebody who waits sends a command a second, for however many waiters. One for
// whom nobody waits, though its subscription lingers, sends nothing; nor does one that is not behind Sentinel.
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

// TestAlternatingAddresses: a server that keeps moving costs a connection a minute. One that moves rarely is followed at once.
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
