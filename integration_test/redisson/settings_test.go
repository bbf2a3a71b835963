package redisson

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// TestSettings: what a fleet of Redisson's may have set differently, and the option of ours that aligns with it: all kinds
// exclude, wait and wake both ways. Leases are longer than anybody waits. In the long run on the other versions too, of which
// the oldest knows no sharded channels. Controls are TestClassicChannels, and here a client without the prefix.
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

// latchInTwoSlots: Redisson's latches with a hash tag fail in a cluster: the channel, a key of its scripts, is in another slot.
func latchInTwoSlots(s *story) {
	r := s.thread(0).Do(s.T, Ask{Op: "trySetCount", Kind: "latch", Name: s.given(), N: 1})
	require.ErrorContains(s, r.Err(), "slot")
}

// side asks for one of the two sides of a read-write lock.
func (s *story) side(t *Thread, side, op string) Reply {
	return t.Do(s.T, Ask{Op: op, Kind: side, Name: s.name})
}

// holders is how many hold it.
func (s *story) holders() int {
	return len(kindtest.State(s, rwlock.New(s.ours[1], s.name)).Holders)
}

// readers: readers of both sides are inside together, writers of both alone; each wakes the other.
func readers(s *story) {
	j, other, m := s.thread(0), s.thread(1), rwlock.New(s.ours[0], s.name)
	require.NoError(s, s.side(j, "read", "lock").Err())
	mine := s.must(m.RLock(s.ctx))
	require.NoError(s, s.side(other, "read", "lock").Err())
	require.Equal(s, 3, s.holders())
	kindtest.Refused(s.ctx, s, m.TryLock)
	require.False(s, s.side(other, "write", "tryLock").Yes())

	writer := s.wait(s.mutex(1))
	require.NoError(s, s.side(j, "read", "unlock").Err())
	s.mustUnlock(mine)
	require.Equal(s, 1, s.holders())
	require.NoError(s, s.side(other, "read", "unlock").Err())
	h := s.got(writer)
	require.False(s, s.side(j, "read", "tryLock").Yes())
	require.False(s, s.side(j, "write", "tryLock").Yes())
	kindtest.Refused(s.ctx, s, m.TryRLock)

	var reads []*Pending
	before := s.settled()
	for i, t := range []*Thread{j, other} {
		reads = append(reads, t.Start(Ask{Op: "lock", Kind: "read", Name: s.name}))
		s.waits(reads[i], before+int64(i))
	}
	s.mustUnlock(h)
	for _, p := range reads {
		require.NoError(s, p.Reply(s.T).Err(), "both at once")
	}
	require.Equal(s, 2, s.holders())

	before = s.settled()
	p := s.briefJava.Thread(s.T).Start(Ask{Op: "lock", Kind: "write", Name: s.name})
	s.waits(p, before)
	mine = kindtest.Take(s.ctx, s, m.RLock) // Redisson's writers have no place that keeps readers out
	for _, t := range []*Thread{j, other} {
		require.NoError(s, s.side(t, "read", "unlock").Err())
	}
	require.False(s, p.Answered())
	s.mustUnlock(mine)
	require.NoError(s, p.Reply(s.T).Err())
	c := s.later(m.RLock)
	require.NoError(s, p.thread.Do(s.T, Ask{Op: "unlock", Kind: "write", Name: s.name}).Err())
	s.mustUnlock(s.got(c))
	s.until("nothing is left", func() bool { return s.rdb.Exists(s.ctx, s.name).Val() == 0 })
}

// downgrade: a writer of either side that goes on to read lets readers of the other in.
func downgrade(s *story) {
	j, m := s.thread(0), rwlock.New(s.ours[0], s.name)
	own := holdfast.WithOwner(s.ctx)
	h := s.must(m.Lock(own))
	reads := s.must(m.RLock(own))
	p := s.javaWaits(j, "lock") // to write
	reader := s.thread(1)
	require.False(s, s.side(reader, "read", "tryLock").Yes())
	s.mustUnlock(h)
	require.NoError(s, s.side(reader, "read", "lock").Err())
	require.Equal(s, 2, s.holders())
	require.False(s, p.Answered())
	s.mustUnlock(reads)
	require.NoError(s, s.side(reader, "read", "unlock").Err())
	require.NoError(s, p.Reply(s.T).Err())

	require.NoError(s, s.side(j, "read", "lock").Err(), "it writes, so it may read")
	kindtest.Refused(s.ctx, s, m.TryRLock)
	require.NoError(s, s.side(j, "write", "unlock").Err())
	reads = s.must(m.RLock(s.ctx, holdfast.Wait(5*time.Second)))
	require.Equal(s, 2, s.holders())
	require.NoError(s, s.side(j, "read", "unlock").Err())
	s.mustUnlock(reads)
	s.nothingLeft()
}
