package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestClassicPubSub: all kinds wait and wake by classic channels in a cluster of servers that know
// sharded ones, if the clients are told to. The lease is so long that its end wakes nobody. The
// control is the default, by which they are on sharded channels.
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
				eventually(p.ctx, t, "all listen", func() bool { return len(channels(top.Nodes(), used, tag)) >= len(members) })
				require.Empty(t, channels(top.Nodes(), other, tag))
				p.lives(members)
			}
			for _, c := range []*holdfast.Client{p.one, p.two} { // the next ones count channels
				require.NoError(t, c.Close(p.ctx))
			}
			eventually(p.ctx, t, "nobody listens", func() bool {
				return len(channels(top.Nodes(), "SHARDCHANNELS", "old")) == 0 && len(channels(top.Nodes(), "CHANNELS", "old")) == 0
			})
		}
	})
}

// TestClassicIsNotKept: where it is not known who listens, nothing is kept.
func TestClassicIsNotKept(t *testing.T) {
	topology.EachLocal(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		c := newClient(t, top.Connect(t), &holdfast.Options{ClassicPubSub: true})
		m := rlock.New(c, "kept", holdfast.Keep(time.Hour))
		for range 20 {
			h := mustLock(t, m)
			require.NoError(t, h.Unlock(t.Context()))
			state, err := m.State(t.Context())
			require.NoError(t, err)
			require.Empty(t, state.Owner)
		}
	})
}

// knowsSharded reports whether the servers have sharded pub/sub.
func knowsSharded(top topology.Topology) bool {
	_, err := top.Nodes()[0].Try("PUBSUB", "SHARDCHANNELS")
	return err == nil
}
