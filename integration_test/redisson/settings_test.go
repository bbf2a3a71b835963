package redisson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
)

// TestSettings: what a fleet of Redisson's may have set differently, and the option of ours that
// aligns with it: all kinds exclude, wait and wake both ways. Leases are longer than anybody waits. In
// the long run on the other versions too, of which the oldest knows no sharded channels.
// Controls are TestClassicChannels, and here a client without the prefix.
func TestSettings(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name       string
		topologies topology.Kind
		theirs     Settings
		ours       holdfast.Options
	}{
		{"classic", topology.Cluster, Settings{Sharded: "OFF"}, holdfast.Options{ClassicPubSub: true}},
		{"prefix", topology.Single | topology.Cluster, Settings{Prefix: "team:"}, holdfast.Options{Prefix: "team:"}},
		{"both", topology.Cluster, Settings{Prefix: "{team}:", Sharded: "OFF"},
			holdfast.Options{Prefix: "{team}:", ClassicPubSub: true}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			each := topology.EachOutermost
			if testing.Short() || !row.ours.ClassicPubSub { // a prefix is the clients' business
				each = topology.EachLocal
			}
			each(t, row.topologies, func(t *testing.T, top topology.Topology) {
				f := newFleetWith(t, top, row.theirs, row.ours)
				tell := func(name string, k kind, run func(*story)) {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						f.tell(t, k, row.ours.Prefix+"settings:"+name, run)
					})
				}
				for _, k := range kinds {
					tell(k.theirs, k, exclusion)
				}
				tell("queue", kinds[2], queued)
				tell("permits", kinds[0], permits)
				if strings.Contains(row.ours.Prefix, "{") {
					tell("latch", kinds[0], latchInTwoSlots)
				} else {
					tell("latch", kinds[0], latches)
				}
				if row.theirs.Sharded == "OFF" {
					tell("channels", kinds[0], classic)
				}
				tell("control", kinds[0], unaligned)
			})
		})
	}
}

// classic: nobody listens to a sharded channel, though the servers have some.
func classic(s *story) {
	j := s.thread(0)
	h := s.must(s.mutex(0).Lock(s.ctx))
	p := s.javaWaits(j, "lock")
	require.Equal(s, int64(1), s.subscribed("NUMSUB"))
	require.Zero(s, s.subscribed("SHARDNUMSUB"))
	s.mustUnlock(h)
	require.NoError(s, p.Reply(s.T).Err())
	c := s.wait(s.mutex(1))
	require.Equal(s, int64(1), s.subscribed("NUMSUB"))
	require.Zero(s, s.subscribed("SHARDNUMSUB"))
	require.NoError(s, s.ask(j, "unlock").Err())
	s.mustUnlock(s.got(c))
}

// unaligned: one of ours whose prefix is not that of Redisson's has "the lock" at the same time.
func unaligned(s *story) {
	j := s.thread(0)
	s.javaLocks(j, "lock")
	h := s.must(s.make(s.client(s.T, long, holdfast.Options{Prefix: "another:"}), s.given()).TryLock(s.ctx))
	s.mustBe(j.Owner, 1)
	s.mustUnlock(h)
	require.NoError(s, s.ask(j, "unlock").Err())
}

// latchInTwoSlots: Redisson's own latches do not work in a cluster if their names have a hash tag: the
// channel, a key of its scripts, is in another slot.
func latchInTwoSlots(s *story) {
	r := s.thread(0).Do(s.T, Ask{Op: "trySetCount", Kind: "latch", Name: s.given(), N: 1})
	require.ErrorContains(s, r.Err(), "slot")
}
