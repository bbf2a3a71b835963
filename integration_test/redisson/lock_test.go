package redisson

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
)

// TestLocks: what a lock of any kind goes through in a fleet of both, on every topology, and what only some have (see more).
func TestLocks(t *testing.T) {
	t.Parallel()
	stories := []struct {
		name string
		run  func(s *story)
	}{
		{"exclusion", exclusion},
		{"reentry", reentry},
		{"leases", leases},
		{"watchdogs", watchdogs},
		{"force", force},
	}
	topology.EachOutermost(t, topology.Single|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		f := newFleet(t, top)
		for _, k := range kinds {
			for _, st := range stories {
				t.Run(k.theirs+"/"+st.name, func(t *testing.T) {
					t.Parallel()
					f.tell(t, k, "locks:"+k.theirs+":"+st.name, st.run)
				})
			}
		}
		others := more()
		if top.Kind() != topology.Cluster { // where a name has one master
			others = append(others, moreStory{"quorum", kinds[0], quorum})
		}
		for i, st := range others {
			t.Run(st.name, func(t *testing.T) {
				t.Parallel()
				f.tell(t, st.kind, "more:"+strconv.Itoa(i), st.run)
			})
		}
	})
}

// exclusion: the holder keeps out all others, of either side; they wait, and the other side's unlock wakes them.
func exclusion(s *story) {
	j, other, m := s.thread(0), s.thread(1), s.mutex(0)
	s.javaLocks(j, "lock")
	require.ErrorContains(s, kindtest.Refused(s.ctx, s, m.TryLock), "held by "+j.Owner)
	waiter := s.wait(m)
	require.False(s, s.ask(other, "tryLock").Yes(), "nor another of its own side")
	require.NoError(s, s.ask(j, "unlock").Err())
	h := s.got(waiter)
	s.mustBe(h.Owner(), 1)

	r := s.ask(other, "tryLock")
	require.NoError(s, r.Err())
	require.False(s, r.Yes())
	p := s.javaWaits(other, "lock")
	s.mustUnlock(h)
	require.NoError(s, p.Reply(s.T).Err())
	s.mustBe(other.Owner, 1)
	require.True(s, s.ask(other, "isHeld").Yes())
	require.NoError(s, s.ask(other, "unlock").Err())
	s.nothingLeft()
}

// reentry: an owner of either side enters again, and the lock is free when it has left as often.
func reentry(s *story) {
	j, m := s.thread(0), s.mutex(0)
	s.javaLocks(j, "lock")
	require.True(s, s.ask(j, "tryLock").Yes())
	require.EqualValues(s, 2, s.ask(j, "holdCount").Int())
	s.mustBe(j.Owner, 2)
	require.NoError(s, s.ask(j, "unlock").Err())
	kindtest.Refused(s.ctx, s, m.TryLock)
	require.NoError(s, s.ask(j, "unlock").Err())

	h := s.must(m.TryLock(s.ctx))
	inner := s.must(m.Lock(h.Context()))
	require.Equal(s, h.Token(), inner.Token())
	s.mustBe(h.Owner(), 2)
	s.mustUnlock(inner)
	require.False(s, s.ask(j, "tryLock").Yes())
	r := j.Do(s.T, Ask{Op: "tryLockFor", Kind: s.theirs, Name: s.name, Wait: millis(50 * time.Millisecond)})
	require.NoError(s, r.Err())
	require.False(s, r.Yes())
	s.mustUnlock(h)
	require.True(s, s.ask(j, "tryLock").Yes())
	s.mustBe(j.Owner, 1)
	require.NoError(s, s.ask(j, "unlock").Err())
	s.nothingLeft()
}

// leases: a lease that nobody renews ends, and the other side is granted the lock then, though nobody says so.
func leases(s *story) {
	const lease = short
	j, m := s.thread(0), s.mutex(0)
	require.NoError(s, j.Do(s.T, Ask{Op: "lock", Kind: s.theirs, Name: s.name, Lease: millis(lease)}).Err())
	s.mustBe(j.Owner, 1)
	h := s.got(s.wait(m))
	s.mustBe(h.Owner(), 1)
	require.False(s, s.ask(j, "isHeld").Yes())
	s.mustNotHold(j)
	s.mustBe(h.Owner(), 1)
	s.mustUnlock(h)

	h = s.must(m.TryLock(s.ctx, holdfast.Lease(lease), holdfast.NoRenewal()))
	p := s.javaWaits(j, "lock")
	require.NoError(s, p.Reply(s.T).Err())
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrLost, "before the other was granted it")
	s.mustBe(j.Owner, 1)
	require.ErrorIs(s, h.Unlock(s.ctx), holdfast.ErrLost)
	s.mustBe(j.Owner, 1)
	require.NoError(s, s.ask(j, "unlock").Err())
	s.nothingLeft()
}

// watchdogs: both sides renew what they hold, for several times the lease, while the other tries to get it.
func watchdogs(s *story) {
	j, m := s.briefJava.Thread(s.T), s.make(s.briefOurs, s.name)
	s.javaLocks(j, "lock")
	s.renewals(func() {
		kindtest.Refused(s.ctx, s, m.TryLock)
	})
	require.True(s, s.ask(j, "isHeld").Yes())
	require.NoError(s, s.ask(j, "unlock").Err())

	h := s.must(m.TryLock(s.ctx))
	s.renewals(func() { require.False(s, s.ask(j, "tryLock").Yes()) })
	require.NoError(s, h.Context().Err())
	s.mustUnlock(h)
	s.javaLocks(j, "lock")
	require.NoError(s, s.ask(j, "unlock").Err())
	s.nothingLeft()
}

// renewals tries again and again until the lease has been renewed four times, which takes longer than it is.
func (s *story) renewals(try func()) {
	last, seen := time.Duration(0), 0
	pace := time.NewTicker(20 * time.Millisecond) // a renewal is seen for the rest of its third of the lease
	defer pace.Stop()
	s.until("renewed four times", func() bool {
		<-pace.C
		try()
		left, err := s.rdb.PTTL(s.ctx, s.name).Result()
		require.NoError(s, err)
		require.LessOrEqual(s, left, short)
		if left > last && last > 0 {
			seen++
		}
		last = left
		return seen >= 4
	})
}

// force: either side frees what the other holds, and wakes who waits; who held it is told.
func force(s *story) {
	j, waiting, m := s.briefJava.Thread(s.T), s.thread(0), s.make(s.briefOurs, s.name)
	s.javaLocks(j, "lock")
	c := s.wait(m)
	kindtest.Forced(s, s.mutex(0))
	h := s.got(c)
	s.mustNotHold(j)
	s.mustBe(h.Owner(), 1)

	p := s.javaWaits(waiting, "lock")
	require.True(s, s.ask(j, "forceUnlock").Yes())
	require.NoError(s, p.Reply(s.T).Err())
	s.mustBe(waiting.Owner, 1)
	<-h.Context().Done()
	require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrLost)
	require.ErrorIs(s, h.Unlock(s.ctx), holdfast.ErrLost)
	require.NoError(s, s.ask(waiting, "unlock").Err())
	require.False(s, s.ask(j, "forceUnlock").Yes(), "nothing is held")
	s.nothingStays()
}

// line puts waiters into a fair lock's queue by the text: G is ours, J Redisson's, of the two clients in turn. It returns the
// queue, and a function that waits for all, who unlock at once, and returns the order of grants.
func (s *story) line(first int, text string) (want []string, granted func() []string) {
	var mu sync.Mutex
	var order []string
	var group sync.WaitGroup // of these alone
	write := func(owner string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, owner)
	}
	for i, side := range text {
		before := s.queue()
		i += first
		place := make(chan string, 1)
		run := s.visit(i%2, func() { write(<-place) }) // not the hold's owner, which in a run is the first one's
		if side == 'J' {
			run = s.javaVisit(s.thread(i%2), write)
		}
		group.Go(run)
		s.group.Go(group.Wait)
		owner := ""
		s.until("it has a place", func() bool { // others may leave theirs meanwhile
			now := s.queue()
			if len(now) > 0 && !slices.Contains(before, now[len(now)-1]) {
				owner = now[len(now)-1]
			}
			return owner != ""
		})
		if side == 'J' { // it asks again when it listens, and hears of a hand-over only then
			s.until("it listens", func() bool {
				return s.listeners(s.ctx, s.channels()+":"+owner) > 0 || !slices.Contains(s.queue(), owner)
			})
		}
		want = append(want, owner)
		place <- owner
	}
	return want, func() []string {
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(Patience):
			mu.Lock()
			defer mu.Unlock()
			require.Fail(s, "not all were served", "%v of %v: %s", order, want, s.dump())
		}
		return slices.Clone(order)
	}
}

// visit returns a function in which one of ours gets the lock, and gives it back at once.
func (s *story) visit(client int, granted func()) func() {
	m := s.mutex(client)
	return func() {
		h, err := m.Lock(s.ctx)
		if err == nil {
			granted()
			err = h.Unlock(s.ctx)
		}
		if err != nil && s.ctx.Err() == nil {
			s.Error(err)
		}
	}
}

// javaVisit is visit for a thread of Redisson's.
func (s *story) javaVisit(j *Thread, granted func(owner string)) func() {
	return func() {
		err := s.call(j, "lock")
		if err == nil {
			granted(j.Owner)
			err = s.call(j, "unlock")
		}
		if err != nil && s.ctx.Err() == nil {
			s.Error(err)
		}
	}
}
