package integration_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// overTLS returns a client of the server's TLS port with that configuration, nil for none.
func overTLS(t *testing.T, srv *redistest.Server, conf *tls.Config) *redis.Client {
	return redistest.NewClient(t, srv.TLSAddr(), func(o *redis.Options) {
		o.TLSConfig = conf
		o.DialTimeout, o.ReadTimeout = 2*time.Second, 2*time.Second // plain text to a TLS port is answered by silence
	})
}

// needsTLS skips the test, loudly, if the program was built without TLS: it refuses the directive or its value, and the start.
func needsTLS(t *testing.T, p redistest.Program) {
	out, _ := exec.Command(p.Path, "--tls-port", "none").CombinedOutput()
	if strings.Contains(string(out), "Bad directive") {
		redistest.Unavailable(t, p.Path+" was built without TLS")
	}
}

// TestStoryOverTLS: a lock's whole life, with wake-ups, over TLS with client certificates. The next test shows it needs them.
func TestStoryOverTLS(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		needsTLS(t, p)
		certs := redistest.NewCerts(t)
		srv := redistest.Start(t, redistest.Exec(p.Path), redistest.TLS(certs))
		story(t, func() redis.UniversalClient { return overTLS(t, srv, certs.Client()) }, "orders:42")
	})
}

// TestRefusedByTLS: who is not let in is told why, within the retry budget and not at the end of the context.
func TestRefusedByTLS(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		needsTLS(t, p)
		t.Parallel()
		certs, strangers := redistest.NewCerts(t), redistest.NewCerts(t)
		srv := redistest.Start(t, redistest.Exec(p.Path), redistest.TLS(certs))
		bare := certs.Client()
		bare.Certificates = nil
		foreign := strangers.Client()
		foreign.RootCAs = certs.Client().RootCAs
		for name, c := range map[string]struct {
			conf *tls.Config
			says string
		}{
			"no certificate":                     {bare, "certificate required"},
			"certificate of another authority":   {foreign, "unknown certificate authority"},
			"server that is not trusted":         {strangers.Client(), "certificate signed by unknown authority"},
			"plain text to a port that is TLS's": {nil, ""},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				client := newClient(t, overTLS(t, srv, c.conf), &holdfast.Options{RetryBudget: 100 * time.Millisecond})
				m := rlock.New(client, "orders:42")
				for op, try := range map[string]func() error{
					"lock":  func() error { _, err := m.Lock(ctx); return err },
					"state": func() error { _, err := m.State(ctx); return err },
				} {
					err := try()
					// The server refuses a certificate after the handshake; the end of the connection may overtake its reason.
					for ctx.Err() == nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
						err = try()
					}
					require.Error(t, err)
					require.NoError(t, ctx.Err(), "%s waited for its context", op)
					require.ErrorContains(t, err, "rlock: "+op+` "orders:42": `)
					require.ErrorContains(t, err, c.says)
					t.Logf("%v", err)
				}
			})
		}
		require.Zero(t, srv.Client(t).DBSize(t.Context()).Val())
	})
}

// TestClientOfOneNode: a client of one server gets a cluster's node. Names of other nodes fail at once, and the error advises.
func TestClientOfOneNode(t *testing.T) {
	level.ForAll(t)
	node := redistest.StartCluster(t, 2, 0).Nodes[0]
	c := newClient(t, node.Client(t), &holdfast.Options{RetryBudget: time.Hour}) // at once, or not in this test
	var failed error
	for i := 0; failed == nil; i++ {
		failed = kindtest.Pair(t.Context(), rlock.New(c, strconv.Itoa(i)))
	}
	require.ErrorContains(t, failed, "use redis.NewClusterClient")
	require.ErrorContains(t, failed, "MOVED")
}

// TestClientOfAReplica: the error says what to do.
func TestClientOfAReplica(t *testing.T) {
	level.ForAll(t)
	replica := redistest.StartReplicated(t, 1).Replicas()[0]
	c := newClient(t, replica.Client(t), &holdfast.Options{RetryBudget: 50 * time.Millisecond})
	_, err := rlock.New(c, "a").Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "this server is a replica now; if it stays one, connect to its primary")
}

// TestClassicPubSub: all kinds wait and wake by classic channels in a cluster that has sharded ones, if told to. Leases are too
// long to wake anybody. The control is the default, by sharded channels.
func TestClassicPubSub(t *testing.T) {
	topology.Each(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		knows := knowsSharded(top)
		for _, classic := range []bool{true, false} {
			opts := &holdfast.Options{ClassicPubSub: classic, Lease: time.Hour}
			p := newPair(t, top.Connect(t), top.Connect(t), top.Nodes, opts)
			for _, tag := range []string{"old", "{old}"} {
				members := p.family(tag)
				used, other := "SHARDCHANNELS", "CHANNELS"
				if classic || !knows {
					used, other = other, used
				}
				kindtest.Eventually(t, "all listen", func() bool { return len(channels(top.Nodes(), used, tag)) >= len(members) })
				require.Empty(t, channels(top.Nodes(), other, tag))
				p.lives(members)
			}
			for _, c := range []*holdfast.Client{p.one, p.two} { // the next ones count channels
				require.NoError(t, c.Close(p.ctx))
			}
			kindtest.Eventually(t, "nobody listens", func() bool {
				return len(channels(top.Nodes(), "SHARDCHANNELS", "old")) == 0 && len(channels(top.Nodes(), "CHANNELS", "old")) == 0
			})
		}
	})
}

// TestClassicIsNotKept: where it is not known who listens, nothing is kept.
func TestClassicIsNotKept(t *testing.T) {
	topology.EachLocal(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		c := newClient(t, top.Connect(t), &holdfast.Options{ClassicPubSub: true})
		m := rlock.New(c, "kept", rlock.Keep(time.Hour))
		for range 20 {
			kindtest.Unlock(t, mustLock(t, m))
			state := kindtest.State(t, m)
			require.Empty(t, state.Owner)
		}
	})
}

// knowsSharded reports whether the servers have sharded pub/sub.
func knowsSharded(top topology.Topology) bool {
	_, err := top.Nodes()[0].Try("PUBSUB", "SHARDCHANNELS")
	return err == nil
}

// TestWaitersAreAtTheMaster: while all kinds are waited for, the master of their shard and its replica change places. The new
// master counts all who listen, and the old one, which accepts subscriptions, has none. So all who wait are woken, though no
// lease ends. (The control of the defence is one of package pubsub: there the map of slots is known to be out of date.)
func TestWaitersAreAtTheMaster(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	c := redistest.StartCluster(t, 2, 1)
	if c.Nodes[0].Major() < 7 {
		t.Skip("classic channels may be at any node")
	}
	nodes := func() (all []topology.Node) {
		for _, s := range c.Nodes {
			all = append(all, s)
		}
		return all
	}
	p := newPair(t, c.Client(t), c.Client(t), nodes, &holdfast.Options{Lease: time.Hour})
	const tag = "{all}"
	members := p.family(tag)
	at := func(s *redistest.Server) int { return len(channels([]topology.Node{s}, "SHARDCHANNELS", tag)) }
	old := c.Master(t, tag)
	kindtest.Eventually(t, "all listen", func() bool { return at(old) >= len(members) })
	promoted := c.Switch(t, tag)
	kindtest.Eventually(t, "they listen at the new master", func() bool { return at(promoted) >= len(members) && at(old) == 0 })
	p.lives(members)
}
