package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestClassicPubSub: all kinds wait and wake by classic channels in a cluster of servers that know
// sharded ones, if the clients are told to. The lease is so long that its end wakes nobody. The
// control is the default, by which they are on sharded channels.
func TestClassicPubSub(t *testing.T) {
	topology.Each(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		knows := knowsSharded(top)
		for _, classic := range []bool{true, false} {
			p := newPair(t, top, &holdfast.Options{ClassicPubSub: classic, Lease: time.Hour})
			for _, tag := range []string{"old", "{old}"} {
				members := p.family(tag)
				for _, k := range kinds {
					members = append(members, p.plain(top, k, tag+":"+k.name))
				}
				members = append(members, p.permits(tag+":permits"))
				sharded, plain := channels(top, "SHARDCHANNELS", tag), channels(top, "CHANNELS", tag)
				if classic || !knows {
					require.Empty(t, sharded)
					require.GreaterOrEqual(t, len(plain), len(members), "%v", plain)
				} else {
					require.Empty(t, plain)
					require.GreaterOrEqual(t, len(sharded), len(members), "%v", sharded)
				}
				for _, m := range members {
					require.NoError(t, m.meddle(), m.name)
				}
				p.finish(members)
			}
			for _, c := range []*holdfast.Client{p.one, p.two} { // the next ones count channels
				require.NoError(t, c.Close(p.ctx))
			}
			eventually(p.ctx, t, "nobody listens", func() bool {
				return len(channels(top, "SHARDCHANNELS", "old")) == 0 && len(channels(top, "CHANNELS", "old")) == 0
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

// plain: the first one has a lock, and the second one listens for its release.
func (p *pair) plain(top topology.Topology, k kind, name string) member {
	p.Helper()
	h, err := k.make(p.one, name).Lock(p.ctx)
	m := p.held(name, h, err, func() bool {
		return len(channels(top, "CHANNELS", name))+len(channels(top, "SHARDCHANNELS", name)) > 0
	})
	return p.waiting(m, func() error { return p.gets(k.make(p.two, name).Lock(p.ctx)) })
}

// permits: the first one has the permit that the second one wants.
func (p *pair) permits(name string) member {
	p.Helper()
	mine := semaphore.New(p.one, name, 1)
	h, err := mine.Lock(p.ctx)
	m := p.held(name, h, err, func() bool {
		s, err := mine.State(p.ctx)
		return err == nil && s.Waiters == 1
	})
	return p.waiting(m, func() error { return p.gets(semaphore.New(p.two, name, 1).Lock(p.ctx)) })
}

// channels are those with a part of a name in them that somebody listens to at one of the servers.
func channels(top topology.Topology, which, part string) (all []string) {
	for _, node := range top.Nodes() {
		reply, err := node.Try("PUBSUB", which)
		list, _ := reply.([]any)
		for _, one := range list {
			if name, _ := one.(string); err == nil && strings.Contains(name, part) {
				all = append(all, name)
			}
		}
	}
	return all
}

// knowsSharded reports whether the servers have sharded pub/sub.
func knowsSharded(top topology.Topology) bool {
	_, err := top.Nodes()[0].Try("PUBSUB", "SHARDCHANNELS")
	return err == nil
}
