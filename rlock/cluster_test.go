package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestClusterNodeHangs: one of three masters does not answer, and keeps nobody from the others.
func TestClusterNodeHangs(t *testing.T) {
	c := hangingCluster{redistest.StartCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))}
	t.Run("close", func(t *testing.T) {
		require.Zero(t, c.leftElsewhere(t))
		defer defence.Lanes.Without(t)()
		require.NotZero(t, c.leftElsewhere(t), "control")
	})
	t.Run("renewals", func(t *testing.T) {
		level.ForAll(t)
		require.Zero(t, c.lostElsewhere(t))
		defer defence.Lanes.Without(t)()
		require.Equal(t, 2, c.lostElsewhere(t), "control")
	})
	t.Run("acquisitions", c.acquisitions)
	t.Run("unlock", c.unlocks)
}

// unlocks: an Unlock at a hanging master returns when its budget is spent, without ReadTimeout too, and goes on in background.
func (c hangingCluster) unlocks(t *testing.T) {
	client := newClient(t, c.client(t, -1), &holdfast.Options{RetryBudget: 2 * time.Second})
	l := rlock.New(client, c.tags(t)[0])
	outer := lock(t, l)
	inner := take(outer.Context(), t, l.Lock)
	c.Nodes[0].Pause()
	ended := make(chan error, 2)
	go func() {
		ended <- inner.Unlock(t.Context())
		ended <- outer.Unlock(t.Context())
	}()
	for range 2 {
		require.ErrorIs(t, kindtest.Receive(t, "an Unlock returns", ended), holdfast.ErrUnavailable)
	}
	c.Nodes[0].Resume()
	eventually(t, "free", func() bool { return free(t, c.client(t, time.Minute), l.Name()) })
}

// hangingCluster is one of which the first master hangs.
type hangingCluster struct{ *redistest.Cluster }

// client is one that waits so long for each answer.
func (c hangingCluster) client(t *testing.T, patience time.Duration) *redis.ClusterClient {
	return c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = patience })
}

// tags are parts of names for which each master is the one that has them.
func (c hangingCluster) tags(t *testing.T) (tags [3]string) {
	for i := 0; tags[0] == "" || tags[1] == "" || tags[2] == ""; i++ {
		tag := fmt.Sprintf("{%s:%d}", uniqueName(t), i)
		tags[slices.Index(c.Nodes, c.Master(t, tag))] = tag
	}
	return tags
}

// lostElsewhere is how many of two holds, one on each other master, were lost in the time for that. No answer is given up.
func (c hangingCluster) lostElsewhere(t *testing.T) (lost int) {
	const lease = 4 * time.Second
	client := newClient(t, c.client(t, 5*time.Minute), &holdfast.Options{Lease: lease})
	var holds [3]*holdfast.Hold
	for i, name := range c.tags(t) {
		holds[i] = lock(t, rlock.New(client, name))
	}
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	require.ErrorIs(t, awaitEnd(t, holds[0]), holdfast.ErrLost)
	limit := time.Now().Add(2 * lease)
	for _, h := range holds[1:] {
		eventually(t, "renewed again and again, or lost",
			func() bool { return h.Context().Err() != nil || h.Deadline().After(limit) })
		if h.Context().Err() != nil {
			lost++
		}
	}
	return lost
}

// leftElsewhere is how many locks a client that is closed leaves on the others.
func (c hangingCluster) leftElsewhere(t *testing.T) (left int64) {
	client := newClient(t, c.client(t, 2*time.Second), nil)
	tags := c.tags(t)
	for i := range 250 { // in all more than one batch
		for _, tag := range tags {
			_ = lock(t, rlock.New(client, fmt.Sprint(tag, i)))
		}
	}
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	require.ErrorIs(t, client.Close(t.Context()), holdfast.ErrUnavailable, "it says that locks are left")
	for _, node := range c.Nodes[1:] {
		left += int64(len(node.Command(t, "KEYS", "{"+t.Name()+"*").([]any)))
	}
	return left
}

// acquisitions: as many as a pool has connections, and more, wait for the one that hangs. Of the client only the map of slots
// is known: nothing else is asked of a server, which might be the one that hangs.
func (c hangingCluster) acquisitions(t *testing.T) {
	rdb := c.client(t, 5*time.Minute)
	client := newClient(t, rdb, nil)
	tags := c.tags(t)
	require.NoError(t, kindtest.Err(rdb.MasterForKey(t.Context(), tags[0])))
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	var waiting sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	defer waiting.Wait()
	defer leave()
	for i := range 5 * rdb.Options().PoolSize {
		waiting.Go(func() { _, _ = rlock.New(client, fmt.Sprint(tags[0], i)).Lock(ctx) })
	}
	for i := range 20 {
		for _, tag := range tags[1:] {
			unlock(t, lock(t, rlock.New(client, fmt.Sprint(tag, i)), holdfast.Wait(patience)))
		}
	}
	for _, node := range c.Nodes[1:] {
		require.Zero(t, node.CommandCalls(t)["command"], "any server may be asked for that, also one that hangs")
	}
}

// TestSentinelWithRouting: go-redis makes a ClusterClient for servers that are no cluster. It wakes
// the waiters of clients without routing, and is woken by them; also after a failover.
func TestSentinelWithRouting(t *testing.T) {
	level.ForAll(t)
	s := redistest.StartSentinel(t)
	options := func(change func(*redis.UniversalOptions)) *redis.UniversalOptions {
		o := &redis.UniversalOptions{Addrs: s.Addrs(), MasterName: redistest.SentinelMaster, DialerRetries: 1}
		change(o)
		return o
	}
	shapes := map[string]redis.UniversalClient{"plain": s.Client(t)}
	for name, change := range map[string]func(*redis.UniversalOptions){
		"randomly":   func(o *redis.UniversalOptions) { o.RouteRandomly = true },
		"by latency": func(o *redis.UniversalOptions) { o.RouteByLatency = true },
	} {
		routed := redis.NewFailoverClusterClient(options(change).Failover())
		defer routed.Close()
		shapes[name] = routed
	}
	holders, waiters := make(map[string]*holdfast.Client), make(map[string]*holdfast.Client)
	for name, rdb := range shapes {
		holders[name], waiters[name] = newClient(t, rdb, &holdfast.Options{Lease: time.Hour}), newClient(t, rdb, nil)
	}
	inTurn := func() {
		for from, holder := range holders {
			for to, waiter := range waiters {
				require.True(t, handsOver(t, s.Primary(t), holder, waiter, patience), "from %s to %s", from, to)
			}
		}
	}
	inTurn()
	if s.Nodes[0].Major() >= 7 {
		misled := redis.NewFailoverClusterClient(options(func(*redis.UniversalOptions) {}).Failover())
		defer misled.Close()
		misled.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error { // as in a cluster
			for i, arg := range cmds[0].Args() {
				if arg == "PUBLISH" {
					cmds[0].Args()[i] = "SPUBLISH"
				}
			}
			return send()
		}))
		control := newClient(t, misled, &holdfast.Options{Lease: time.Hour})
		require.False(t, handsOver(t, s.Primary(t), control, waiters["plain"], time.Second),
			"control: published where nobody listens")
	}
	s.AwaitReplica(t.Context(), t)
	s.Failover(t)
	// Until a client has found the new primary the old one may grant it locks, which vanish when that becomes a replica.
	primary := s.Primary(t).Client(t)
	for _, clients := range []map[string]*holdfast.Client{holders, waiters} {
		for name, c := range clients {
			eventually(t, name+" has found the new primary", func() bool { return grantedAt(t, primary, c) })
		}
	}
	inTurn()
}

// grantedAt reports whether a client's locks are granted by this server.
func grantedAt(t *testing.T, server *redis.Client, c *holdfast.Client) bool {
	name := uniqueName(t)
	h, err := rlock.New(c, name).Lock(t.Context())
	if err != nil {
		return false
	}
	there := server.Exists(t.Context(), name).Val() == 1
	return h.Unlock(t.Context()) == nil && there
}

// handsOver reports whether a waiter, refused when it came and when it listened, gets the lock in a time after its release.
func handsOver(t *testing.T, primary *redistest.Server, holder, waiter *holdfast.Client, within time.Duration) bool {
	name := uniqueName(t)
	h := lock(t, rlock.New(holder, name))
	attempts := func() int64 { return primary.CommandCalls(t)["evalsha"] }
	before := attempts()
	next := begin(t.Context(), t, rlock.New(waiter, name).Lock, holdfast.Wait(2*within))
	eventually(t, "it waits", func() bool { return attempts() >= before+2 })
	unlock(t, h)
	theirs, err := next.Result()
	if err == nil {
		unlock(t, theirs)
	}
	return err == nil
}

// TestWokenAfterFailover: an old primary that lives on, and never hears that it is one no longer,
// keeps its subscribers. Whoever waits hears all the same of a release at the new one, in clients
// of every shape. The leases are long, so that nothing else wakes anybody.
func TestWokenAfterFailover(t *testing.T) {
	redistest.EachProgram(t, func(t *testing.T, p redistest.Program) {
		wokenAfterFailover(t, redistest.StartSentinel(t, redistest.Exec(p.Path)))
	})
}

func wokenAfterFailover(t *testing.T, s *redistest.Sentinel) {
	old := s.Primary(t)
	// Sentinel cannot make it a replica, nor end its connections: both are one transaction.
	old.Command(t, "ACL", "SETUSER", "default", "-replicaof", "-slaveof")
	holder := newClient(t, s.Client(t), &holdfast.Options{Lease: time.Hour})
	// Without retries it ends soon: it goes on to ask the Sentinels when it is closed.
	random := redis.NewFailoverClusterClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelMaster, SentinelAddrs: s.Addrs(), MaxRetries: -1, DialerRetries: 1,
		RouteRandomly: true,
	})
	t.Cleanup(func() { _ = random.Close() })
	sleepers := func() []*sleeper {
		return []*sleeper{asleep(t, old, holder, s.Client(t)), asleep(t, old, holder, random)}
	}
	restore := defence.Follow.Without(t)
	undefended := sleepers()
	restore()
	defended := sleepers()

	s.AwaitReplica(t.Context(), t)
	promoted := s.Failover(t)
	admin := newClient(t, promoted.Client(t), nil)
	for _, w := range slices.Concat(undefended, defended) {
		kindtest.Forced(t, rlock.New(admin, w.name)) // the new primary has the lock
	}
	for _, w := range defended {
		unlock(t, w.Hold())
	}
	require.Contains(t, old.Command(t, "ROLE"), "master", "the old primary was left alone")
	for _, w := range undefended {
		require.False(t, w.Over(), "control")
		require.True(t, listens(t, old, w.channel()), "control: it listens at the old primary")
		require.True(t, free(t, promoted.Client(t), w.name), "control: the lock is free")
	}
}

// sleeper waits for a lock.
type sleeper struct {
	*kindtest.Pending
	name string
}

func (s *sleeper) channel() string { return "redisson_lock__channel:{" + s.name + "}" }

func listens(t *testing.T, server *redistest.Server, channel string) bool {
	return kindtest.Listeners(t.Context(), server.Client(t), channel) == 1
}

// asleep makes a client on rdb that waits for a lock, and returns when nothing but a message wakes it. It leaves with the test.
func asleep(t *testing.T, primary *redistest.Server, holder *holdfast.Client, rdb redis.UniversalClient) *sleeper {
	s := &sleeper{name: uniqueName(t)}
	_ = lock(t, rlock.New(holder, s.name))
	attempts := func() int64 { return primary.CommandCalls(t)["evalsha"] }
	before := attempts()
	waiter := newClient(t, rdb, nil)
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(func() { leave(); _, _ = s.Result() })
	s.Pending = begin(ctx, t, rlock.New(waiter, s.name).Lock)
	eventually(t, "it was told the time, refused, and refused again when it listened", func() bool {
		return attempts() >= before+3 && listens(t, primary, s.channel())
	})
	return s
}
