package redisson

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestDefectsOfRedisson shows what Redisson does wrong in a fleet, named as in docs/redisson.md, and what ours change about it.
func TestDefectsOfRedisson(t *testing.T) {
	t.Parallel()
	stories := []struct {
		name string
		kind kind
		run  func(s *story)
	}{
		{"W1: a writer that has read is not renewed any more", kinds[3], notRenewed},
		{"W2: a read cuts the lease to write", kinds[3], cut},
		{"W3: who stops to write and goes on reading tells nobody", kinds[3], untold},
		{"W4: who has looked, and does not sleep yet, misses the message", kinds[3], missed},
		{"W5: readers pass writers that wait", kinds[3], passed},
		{"W6: each write of the same owner adds a lease", kinds[3], added},
		{"F1: waiters behind a dead one ask without a pause", kinds[2], busy},
		{"F2: waiters whose deadline passes lose their turn", kinds[2], brokenOrder},
		{"F3: who is interrupted keeps its place", kinds[2], interrupted},
		{"F5: who has lost a lock that is free is not told", kinds[2], freeAnyway},
		{"S1: who takes permits passes those who wait", kinds[0], passedBy},
		{"L1: who waits for a latch that is deleted sleeps on", kinds[0], sleptOn},
		{"P1: who gives up as it is handed the lock keeps it for a claim", kinds[2], gaveUp},
	}
	topology.EachLocal(t, topology.Single, func(t *testing.T, top topology.Topology) {
		f := newFleet(t, top)
		for _, st := range stories {
			t.Run(st.name, func(t *testing.T) {
				t.Parallel()
				name, _, _ := strings.Cut(st.name, ":")
				f.tell(t, st.kind, "defects:"+name, st.run)
			})
		}
	})
}

// freeAnyway: a thread that lost its fair lock unlocks it without an error while it is free. While it is held, it is told.
func freeAnyway(s *story) {
	j, m := s.thread(0), s.mutex(0)
	lose := func() {
		s.javaLocks(j, "lock")
		kindtest.Forced(s, m)
	}
	lose()
	require.NoError(s, s.ask(j, "unlock").Err())
	lose()
	h := s.must(m.TryLock(s.ctx))
	s.mustNotHold(j)
	s.mustUnlock(h)
}

// notRenewed: Redisson's writer reads and stops reading; its watchdog forgets the write lock. Another gets it in silence.
func notRenewed(s *story) {
	j := s.briefJava.Thread(s.T)
	s.javaLocks(j, "lock")
	require.NoError(s, s.side(j, "read", "lock").Err())
	require.NoError(s, s.side(j, "read", "unlock").Err())
	h := s.must(s.mutex(0).Lock(s.ctx))
	s.mustNotHold(j)
	s.mustUnlock(h)

	h = s.must(s.make(s.briefOurs, s.name).Lock(s.ctx))
	reads := s.must(rwlock.New(s.briefOurs, s.name).RLock(h.Context()))
	s.mustUnlock(reads)
	s.renewals(func() { require.False(s, s.ask(j, "tryLock").Yes()) })
	s.mustUnlock(h)
}

// cut: of two reads of Redisson's writer one is given back, and the lease to write is that of the other.
func cut(s *story) {
	j := s.thread(0)
	lock := func(side string, lease time.Duration) {
		r := j.Do(s.T, Ask{Op: "lock", Kind: side, Name: s.name, Lease: millis(lease)})
		require.NoError(s, r.Err())
	}
	lock("write", long)
	lock("read", short)
	lock("read", short)
	require.Greater(s, s.rdb.PTTL(s.ctx, s.name).Val(), long/2)
	require.NoError(s, s.side(j, "read", "unlock").Err())
	require.LessOrEqual(s, s.rdb.PTTL(s.ctx, s.name).Val(), short)
	h := kindtest.Take(s.ctx, s, s.mutex(0).Lock) // long before the end of the lease that was asked for
	s.mustNotHold(j)
	s.mustUnlock(h)
}

// untold: a writer of Redisson's goes on reading. Its reader that waits sleeps on though it might
// read, one of ours that waits looks by itself, and one that comes now is let in.
func untold(s *story) {
	j, sleeper, late := s.thread(0), s.thread(1), s.thread(1)
	s.javaLocks(j, "lock")
	require.NoError(s, s.side(j, "read", "lock").Err())
	before := s.settled()
	p := sleeper.Start(Ask{Op: "lock", Kind: "read", Name: s.name})
	s.waits(p, before)
	ours := s.later(rwlock.New(s.ours[1], s.name).RLock)
	s.until("ours waits", func() bool { return s.waiting() == before+2 })
	require.NoError(s, s.side(j, "write", "unlock").Err())
	s.mustUnlock(s.got(ours))
	require.NoError(s, s.side(late, "read", "lock").Err())
	r := s.must(rwlock.New(s.ours[0], s.name).RLock(s.ctx))
	require.Equal(s, 3, s.holders())
	require.False(s, p.Answered())
	s.mustUnlock(r)
	require.NoError(s, s.side(late, "read", "unlock").Err())
	require.NoError(s, s.side(j, "read", "unlock").Err(), "which is told")
	require.NoError(s, p.Reply(s.T).Err())
	require.NoError(s, s.side(sleeper, "read", "unlock").Err())
}

// missed: a writer's unlock wakes one of Redisson's two readers. The other, whose last answer comes later, sleeps on in vain.
func missed(s *story) {
	p := faultproxy.New(s.T, topology.Addrs(s.top)[0])
	java := s.java[0].w.Connect(s.T, s.top,
		Settings{Addrs: []string{p.Addr()}, Watchdog: millis(long), Timeout: millis(2 * Patience)})
	h := s.must(s.mutex(0).Lock(s.ctx))
	read := Ask{Op: "lock", Kind: "read", Name: s.name}
	before := s.settled()
	sleeper := java.Thread(s.T).Start(read)
	s.waits(sleeper, before)
	slow := java.Thread(s.T)
	asks := faultproxy.All(faultproxy.Command("EVAL", "EVALSHA"), faultproxy.Arg(3, s.name))
	held := p.On(asks, 2, faultproxy.HoldReply) // the first tells it to listen
	late := slow.Start(read)
	select {
	case <-held.Fired():
	case <-s.ctx.Done():
		s.Fatal("it does not look")
	}
	s.mustUnlock(h)
	require.NoError(s, sleeper.Reply(s.T).Err())
	held.Release()
	s.until("it sleeps", func() bool { return late.Answered() || late.Sleeps(s.T) })
	require.False(s, late.Answered())
	r := kindtest.Take(s.ctx, s, rwlock.New(s.ours[1], s.name).RLock) // readers are let in
	require.Equal(s, 2, s.holders(), "and it is none of them")
	s.mustUnlock(r)
	require.False(s, late.Answered())
	require.NoError(s, s.side(sleeper.thread, "read", "unlock").Err(), "which is told")
	require.NoError(s, late.Reply(s.T).Err())
	require.NoError(s, s.side(slow, "read", "unlock").Err())
}

// passed: a writer of Redisson's waits, and readers of both sides come in. A writer of ours keeps ours out, and not Redisson's.
func passed(s *story) {
	j, late, m := s.thread(0), s.thread(1), rwlock.New(s.ours[0], s.name)
	require.NoError(s, s.side(j, "read", "lock").Err())
	c := s.wait(s.mutex(1))
	kindtest.Refused(s.ctx, s, m.TryRLock)
	require.True(s, s.side(late, "read", "tryLock").Yes())
	for _, t := range []*Thread{j, late} {
		require.NoError(s, s.side(t, "read", "unlock").Err())
	}
	s.mustUnlock(s.got(c))
}

// added: Redisson's writer enters again, and its leases are added.
func added(s *story) {
	j := s.thread(0)
	lock := func() {
		require.NoError(s, j.Do(s.T, Ask{Op: "lock", Kind: "write", Name: s.name, Lease: millis(time.Minute)}).Err())
	}
	lock()
	require.LessOrEqual(s, s.rdb.PTTL(s.ctx, s.name).Val(), time.Minute)
	lock()
	require.Greater(s, s.rdb.PTTL(s.ctx, s.name).Val(), 90*time.Second)
	require.True(s, s.ask(j, "forceUnlock").Yes())
}

// busy: a waiter of Redisson's is interrupted and keeps its place. Nobody has the lock then, and
// the one behind it asks again and again. A waiter of ours, behind both, ends that.
func busy(s *story) {
	j, gone := s.thread(0), s.thread(1)
	brief := s.briefJava.Thread(s.T) // sleeps no longer than the lease that it reads
	require.NoError(s, j.Do(s.T, Ask{Op: "lock", Kind: "fair", Name: s.name, Lease: millis(short)}).Err())
	s.interrupt(gone)
	p := s.javaWaits(brief, "lock")
	require.NoError(s, s.ask(j, "unlock").Err())
	asked := int64(0)
	s.until("nobody has it, and it is asked for a hundred times", func() bool {
		before := s.scripts()
		free := s.rdb.Exists(s.ctx, s.name).Val() == 0
		if after := s.scripts(); free && !p.Answered() {
			asked += after - before
		}
		return asked > 100 // with a pause of seconds, as everywhere else, it would be ten
	})
	c := s.later(s.mutex(0).Lock)
	require.NoError(s, p.Reply(s.T).Err())
	require.NoError(s, s.ask(brief, "unlock").Err())
	s.mustUnlock(s.got(c))
}

// scripts is how many scripts the server has run.
func (s *story) scripts() (n int64) {
	for _, line := range strings.Split(s.rdb.Info(s.ctx, "commandstats").Val(), "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			digits, _, _ := strings.Cut(rest, ",")
			for _, d := range digits {
				n = 10*n + int64(d-'0')
			}
		}
	}
	return n
}

// interrupt has a thread wait, and interrupts it.
func (s *story) interrupt(t *Thread) {
	p := s.javaWaits(t, "lockInterruptibly")
	s.until("it sleeps, and is woken", func() bool {
		t.Interrupt(s.T)
		return p.Answered()
	})
	require.Error(s, p.Reply(s.T).Err())
	require.Contains(s, s.queue(), t.Owner)
}

func (s *story) queue() []string {
	return s.rdb.LRange(s.ctx, "redisson_lock_queue:"+tagged(s.name), 0, -1).Val()
}

// interrupted: the place of a thread that was interrupted costs others a claim where ours unlock.
func interrupted(s *story) {
	h := s.must(s.mutex(0).Lock(s.ctx))
	gone := s.thread(1)
	s.interrupt(gone)
	want, got := s.line(0, "JG")
	s.mustUnlock(h)
	require.Equal(s, "0", s.rdb.HGet(s.ctx, s.name, gone.Owner).Val(), "it is handed the lock")
	require.Equal(s, want, got())
}

// brokenOrder: fairLockWaitTimeout is short, and the lock is held for longer than the lease and
// that. Redisson's waiters purge each other, though all of them live, and stand at the end again.
// Each exception is the deadline's: who was overtaken is one of Redisson's, it stood before the
// other, its deadline had passed, and it stands behind it now. Our places stay in their order.
func brokenOrder(s *story) {
	hasty := s.java[0].w.Connect(s.T, s.top, Settings{Watchdog: millis(short), FairWait: millis(500 * time.Millisecond)})
	h := s.must(s.make(s.briefOurs, s.name).Lock(s.ctx))
	var arrival, ours []string
	deadlines := map[string]float64{}
	waits := map[string]*Pending{}
	threads := map[string]*Thread{}
	var got []*kindtest.Pending
	for i, side := range "JGJGJ" {
		n := len(arrival)
		if side == 'J' {
			j := hasty.Thread(s.T)
			waits[j.Owner], threads[j.Owner] = s.start(j, "lock"), j
		} else {
			got = append(got, s.later(s.mutex(i/2).Lock))
		}
		s.until("it has a place", func() bool { return len(s.queue()) > n || len(s.moved(arrival)) > 0 })
		if queue := s.queue(); len(queue) > n {
			arrival = append(arrival, queue[len(queue)-1])
		}
		last := arrival[len(arrival)-1]
		if side == 'G' {
			ours = append(ours, last)
		}
		deadlines[last] = s.rdb.ZScore(s.ctx, "redisson_lock_timeout:"+tagged(s.name), last).Val()
	}
	var moved []string
	s.until("somebody stands elsewhere", func() bool { moved = s.moved(arrival); return len(moved) > 0 })
	now := float64(s.rdb.Time(s.ctx).Val().UnixMilli())
	for _, owner := range moved {
		require.Contains(s, waits, owner, "it is Redisson's")
		require.Less(s, deadlines[owner], now, "and its deadline had passed")
		require.False(s, waits[owner].Answered(), "and it lives, and waits")
	}
	s.mustUnlock(h)
	for owner, p := range waits {
		s.group.Go(func() {
			<-p.Done
			if _, err := threads[owner].Call(s.ctx, Ask{Op: "unlock", Kind: "fair", Name: s.name}); err != nil {
				s.Error(err)
			}
		})
	}
	for i, want := range ours { // in their order, whatever Redisson's do among them
		h := s.got(got[i])
		require.Equal(s, want, h.Owner())
		s.mustUnlock(h)
	}
	s.group.Wait()
}

// moved are those who came before another and stand behind it.
func (s *story) moved(arrival []string) (all []string) {
	queue := s.queue()
	for i, owner := range arrival {
		at := slices.Index(queue, owner)
		if at >= 0 && slices.ContainsFunc(arrival[i+1:], func(other string) bool {
			o := slices.Index(queue, other)
			return o >= 0 && o < at
		}) {
			all = append(all, owner)
		}
	}
	return all
}

// gaveUp: the time of a waiter of Redisson's is over in the moment in which ours hand it the lock.
// It does not know, and has it for a claim, as a dead one would.
func gaveUp(s *story) {
	h := s.must(s.mutex(0).Lock(s.ctx))
	w := Start(s.T)
	j := w.Connect(s.T, s.top, Settings{Watchdog: millis(long)}).Thread(s.T)
	p := j.Start(Ask{Op: "tryLockFor", Kind: "fair", Name: s.name, Wait: millis(2 * time.Second)})
	s.until("Redisson's waits", func() bool { return s.waiting() == 1 })
	w.Pause(s.T) // so that its time is over when it looks
	c := s.wait(s.mutex(1))
	s.mustUnlock(h)
	require.Equal(s, "0", s.rdb.HGet(s.ctx, s.name, j.Owner).Val())
	h = s.got(c)
	w.Resume(s.T)
	require.False(s, p.Reply(s.T).Yes())
	s.mustBe(h.Owner(), 1)
	s.mustUnlock(h)
	s.nothingLeft()
}

// TestClassicChannels: Redisson's clients on classic channels do not hear ours on sharded ones, nor ours them: leases end
// waits.
func TestClassicChannels(t *testing.T) {
	t.Parallel()
	topology.EachLocal(t, topology.Cluster, func(t *testing.T, top topology.Topology) {
		f := newFleet(t, top)
		f.tell(t, kinds[0], "classic", func(s *story) {
			j := s.java[0].w.Connect(s.T, s.top, Settings{Sharded: "OFF", Watchdog: millis(short)}).Thread(s.T)
			brief := s.make(s.briefOurs, s.name)
			h := s.must(brief.Lock(s.ctx))
			p := s.start(j, "lock")
			s.until("it listens to a classic channel", func() bool { return s.subscribed("NUMSUB") == 1 })
			require.Zero(s, s.subscribed("SHARDNUMSUB"))
			s.mustUnlock(h)
			require.NoError(s, p.Reply(s.T).Err(), "by the end of the lease")
			s.mustBe(j.Owner, 1)
			c := s.wait(brief)
			require.Equal(s, int64(1), s.subscribed("SHARDNUMSUB"))
			require.Zero(s, s.subscribed("NUMSUB"))
			require.NoError(s, s.ask(j, "unlock").Err())
			s.mustUnlock(s.got(c))
		})
	})
}

// subscribed is how many listen to the lock's channel in one of the two ways.
func (s *story) subscribed(which string) (n int64) {
	for _, node := range s.top.Nodes() {
		if reply, err := node.Try("PUBSUB", which, s.channels()); err == nil {
			n += reply.([]any)[1].(int64)
		}
	}
	return n
}

// passedBy: one of ours waits for two permits, of which one is free. A later one of Redisson's takes it, and none of ours does.
func passedBy(s *story) {
	j, late := s.thread(0), s.thread(1)
	require.True(s, s.permits(j, Ask{Op: "trySetPermits", N: 2}).Yes())
	first := s.permits(j, Ask{Op: "acquire", N: 1}).Texts()
	require.Len(s, first, 1)
	sem := semaphore.New(s.ours[0], s.name, 2)
	c := s.acquires(sem, 2)
	s.queued(sem)
	kindtest.Refused(s.ctx, s, semaphore.New(s.ours[1], s.name, 2).TryLock)
	second := s.permits(late, Ask{Op: "tryAcquire", N: 1}).Texts()
	require.Len(s, second, 1)
	require.True(s, s.permits(j, Ask{Op: "release", IDs: first}).Yes())
	require.True(s, s.permits(late, Ask{Op: "release", IDs: second}).Yes())
	h := s.got(c)
	require.Equal(s, 2, h.Count())
	s.mustUnlock(h)
}

// sleptOn: both sides wait for a latch that Redisson deletes. Ours waits no longer, and Redisson's sleeps
// until it is set and counted down anew. Deleted by ours, it wakes both.
func sleptOn(s *story) {
	j, waiting, l := s.thread(0), s.thread(1), latch.New(s.ours[0], s.name)
	wait := func() (*Pending, <-chan error) {
		require.True(s, s.latch(j, "trySetCount", 1).Yes())
		return s.bothWait(waiting, l)
	}
	p, c := wait()
	require.True(s, s.latch(j, "delete", 0).Yes())
	require.NoError(s, <-c)
	require.Zero(s, s.latch(j, "count", 0).Int())
	require.False(s, p.Answered())
	require.True(s, s.latch(j, "trySetCount", 1).Yes())
	require.NoError(s, s.latch(j, "countDown", 0).Err())
	require.True(s, p.Reply(s.T).Yes())

	p, c = wait()
	there, err := l.Delete(s.ctx)
	require.NoError(s, err)
	require.True(s, there)
	require.NoError(s, <-c)
	require.True(s, p.Reply(s.T).Yes())
}
