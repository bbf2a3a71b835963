package engine

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// idleLease is the holder of a lock that the client keeps while nobody holds it. The next Lock of this
// client takes the lock from it without asking the server.
//
// Who is refused calls the client, and the lock is given back at once. (Such calls are the blocking
// callbacks of lock managers, as in VMS, GFS2 and Chubby.) A call can be lost. So the lock is kept
// only while these hold:
//
//   - The server has said, since the calls began to arrive, that nobody listens for a release. Who
//     waits listens first and asks then, so whoever comes later is refused and calls.
//   - The calls have arrived without a break since then.
//   - The lock was not idle for longer than the option allows, nor was the server asked longer ago.
//     This is for those who wait and cannot call, as Redisson's clients, and for calls that are lost
//     all the same.
type idleLease struct {
	base  *Lock
	t     *ServerLease
	calls interface{ Close() }
	gone  chan struct{} // closed when the lock has been given back, or lost
	once  sync.Once     // for closing it

	// The rest is guarded by the server lease's mutex.

	hears bool   // calls arrive
	gaps  uint64 // how often some may have been missed
	asked uint64 // gaps when the server was asked who listens; not valid before sure
	sure  bool   // it was asked while calls arrived, and nobody did
	used  bool   // somebody has taken the lock from here, or it was never kept
	kept  bool   // it has been kept once

	lease     time.Duration // of the last holder, as is
	confirmed remote.Replicas
	until     time.Time // when it has been idle for too long
	timer     *time.Timer
	fires     time.Time // when the timer does; zero if it does not
}

var _ keeper = (*idleLease)(nil)

// prepareKeeping has the calls heard from now on, if the new grant's lock may be kept.
func (g *grant) prepareKeeping() {
	g.base.Client.keeps.Store(true)
	be, t := g.base.backend.(CallListener), g.serverLease
	k := &idleLease{base: g.base, t: t, gone: make(chan struct{})}
	k.calls = be.ListenForCalls(k)               // without the mutex: Look may be called before it returns
	idleLeases(g.base.Client).add(g.base.Key, k) // before the end of the server lease can stop it
	t.mu.Lock()
	over := t.over || t.holder != g
	t.keeper = k
	t.mu.Unlock()
	if over || !g.isLive() {
		k.stop()
	}
}

// Message is [pubsub.Listener]: somebody was refused.
func (k *idleLease) Message(string) { k.heard(false) }

// Look is [pubsub.Listener]: calls may have been missed, or arrive from now on.
func (k *idleLease) Look(confirmed bool) {
	k.t.mu.Lock()
	k.hears = confirmed
	k.gaps++
	k.t.mu.Unlock()
	k.heard(true)
}

// heard has the lock given back if nobody holds it, else its holder told. It is called with the mutex
// of the hub held, so it only begins that.
func (k *idleLease) heard(missed bool) {
	t := k.t
	t.mu.Lock()
	idle := t.holder == holder(k) && !t.over
	var h holder
	switch {
	case idle:
		t.over = true
	case !missed && !t.over:
		t.wanted = true
		if ends := t.turn + handOffFor; t.look > ends {
			t.look = ends
		}
		h = t.holder
	}
	t.mu.Unlock()
	switch {
	case idle:
		k.base.Client.tasks.Go(k.giveBack)
	case h != nil:
		h.call()
	}
}

// asking notes that the server is about to be asked who listens.
func (k *idleLease) asking() {
	k.t.mu.Lock()
	defer k.t.mu.Unlock()
	k.sure, k.asked = false, k.gaps
	if !k.hears {
		k.asked = ^uint64(0) // as there will never be
	}
	k.t.wanted = false
}

// nobodyLocked notes that nobody listens, by the answer, and puts off when the server is asked again.
func (k *idleLease) nobodyLocked(d time.Duration) {
	k.sure = true
	if k.hearsAllLocked() && !k.t.wanted {
		if k.t.look = k.t.turn + max(d, handOffFor); k.t.look < k.t.turn { // d may be for ever
			k.t.look = math.MaxInt64
		}
	}
}

func (k *idleLease) hearsAllLocked() bool { return k.sure && k.hears && k.gaps == k.asked }

// mayKeep reports whether the lock may be kept by this client when the server says that nobody else
// wants it.
func (k *idleLease) mayKeep() bool {
	k.t.mu.Lock()
	can, began := k.hears && !k.t.wanted && !k.t.over, k.kept
	k.t.mu.Unlock()
	return can && (began || idleLeases(k.base.Client).worthKeeping(k.base.Key))
}

// keep ends the grant by keeping the lock with the client, without a holder, if that may be without
// asking the server. Nobody waits in this client, or has come to wait only now: then it takes the
// lock from here.
func (g *grant) keep() bool {
	k, _ := g.serverLease.keeper.(*idleLease)
	if k == nil || g.asked.want.keep == 0 {
		return false
	}
	deadline := g.base.Dog.Deadline(&g.serverLease.watch)
	if !k.take(g) {
		return false
	}
	g.mu.Lock()
	g.ended, g.until, g.front = errs.ErrReleased, deadline.Sub(start), false
	g.mu.Unlock()
	g.owner.drop(g, true)
	g.base.Client.queue.Leave(&g.base.Key, queue.Free)
	return true
}

// take makes it the holder in place of a grant.
func (k *idleLease) take(from *grant) bool {
	t, d := k.t, from.asked.want.keep
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.over || t.holder != holder(from) || t.wanted || !k.hearsAllLocked() || t.nextLocked() > t.last ||
		now.Sub(start) >= t.look {
		return false
	}
	t.holder, k.kept = k, true
	k.lease, k.confirmed = from.lease, from.confirmed
	k.until = now.Add(d)
	if k.fires.IsZero() || k.until.Before(k.fires) {
		k.armLocked()
	}
	return true
}

// armLocked has the lock looked at when it will have been idle for too long. The timer is not stopped
// when the lock is taken, or each Lock would pay for that.
func (k *idleLease) armLocked() {
	k.fires = k.until
	d := time.Until(k.until)
	if k.timer == nil {
		k.timer = time.AfterFunc(d, k.expire)
		return
	}
	k.timer.Reset(d)
}

// expire gives the lock back if it was idle for too long.
func (k *idleLease) expire() {
	k.base.Client.tasks.Begin()
	defer k.base.Client.tasks.End()
	t := k.t
	t.mu.Lock()
	k.fires = time.Time{}
	idle := !t.over && t.holder == holder(k)
	if left := time.Until(k.until); idle && left > 0 {
		k.armLocked()
		idle = false
	}
	t.over = t.over || idle
	t.mu.Unlock()
	if idle {
		k.giveBack()
	}
}

// giveBack releases the lock of a server lease that is over. What gets no answer is repeated in the
// background.
func (k *idleLease) giveBack() {
	defer k.stop()
	t := k.t
	if !k.base.Dog.Forget(&t.watch) {
		return // it was lost in this moment, or is released by Close
	}
	t.noteUse()
	o := t.Entry.Release(context.Background(), remote.SharedBudget{}, Nothing)
	if o.Err != nil && !remote.IsTaken(o.Err) {
		k.base.Client.opts.Logger.Warn("kept lock not given back yet", "kind", k.base.Key.Kind, "name", k.base.Key.Name,
			"owner", t.Entry.Owner(), "error", k.base.Uncertain(o))
	}
	t.Entry.UndoIfNeeded(Nothing, k.lease)
}

// stop ends the hearing of calls, and tells whoever waits for the lock to leave the client.
func (k *idleLease) stop() {
	k.once.Do(func() {
		k.calls.Close()
		idleLeases(k.base.Client).remove(k.base.Key, k)
		k.t.mu.Lock()
		used := k.used || !k.kept
		if k.timer != nil {
			k.timer.Stop()
		}
		k.t.mu.Unlock()
		if !used {
			idleLeases(k.base.Client).noteUnused(k.base.Key)
		}
		close(k.gone)
	})
}

// takeOverIdle makes the grant the holder of the lock if its client keeps it. A lock that is being given
// back is waited for: else its own client would be told that it is taken. So is one that does not
// suit, which is given back first.
func (a *Acquisition) takeOverIdle() *Hold {
	g := a.grant
	b := a.base
	// In this order: what has its queue at the server may be handed to the grant just now, and then front
	// is not this goroutine's to read.
	if !b.traits.Recalls || !g.front || b.Over(a.wait) != nil {
		return nil
	}
	k := idleLeases(b.Client).of(b.Key)
	if k == nil {
		return nil
	}
	if h := k.handTo(g); h != nil {
		return h
	}
	k.t.mu.Lock()
	ours := k.t.holder == holder(k)
	begin := ours && !k.t.over
	k.t.over = k.t.over || begin
	k.t.mu.Unlock()
	switch {
	case begin:
		b.Client.tasks.Go(k.giveBack)
	case !ours:
		return nil // a holder's, which the server says
	}
	select {
	case <-k.gone:
	case <-a.wait.Done():
	case <-b.Client.ctx.Done():
	}
	return nil
}

// handTo makes a grant the holder, while more than half of the lease is left.
func (k *idleLease) handTo(to *grant) *Hold {
	t := k.t
	left := time.Until(k.base.Dog.Deadline(&t.watch))
	t.mu.Lock()
	if t.holder != holder(k) || left <= k.lease/2 || t.nextLocked() > t.last {
		t.mu.Unlock()
		return nil
	}
	h, first := to.takeOver(t, k.lease, k.confirmed), !k.used
	k.used = k.used || h != nil
	t.mu.Unlock()
	if h != nil && first {
		idleLeases(k.base.Client).noteUsed(k.base.Key)
	}
	return h
}

// mayBeKept reports whether the grant's lock may be kept when the server says that nobody listens.
func (g *grant) mayBeKept() bool {
	k, _ := g.serverLease.keeper.(*idleLease)
	return k != nil && g.asked.want.keep > 0 && k.mayKeep()
}

// The methods by which it is the [holder] of its server lease.

func (k *idleLease) snapshot() (count int, token uint64, requestedTTL time.Duration) {
	k.t.mu.Lock()
	defer k.t.mu.Unlock()
	return 1, k.t.nextLocked() - 1, k.lease
}

func (k *idleLease) rest() time.Duration { return 0 }

func (k *idleLease) call() {} // see heard

func (k *idleLease) finish(error, bool) bool {
	k.stop()
	return true
}

func (k *idleLease) endLost(reason error) error {
	k.base.Dog.Forget(&k.t.watch)
	if pastDeadline(reason) {
		k.t.Entry.NoteLateCommand() // Redis may still have it, which would block others until its lease ends there
	}
	return reason
}

func (k *idleLease) leaveLost(reason error) {
	k.t.Entry.UndoIfNeeded(Nothing, k.lease)
	k.stop()
	k.base.Client.opts.Logger.Info("lock lost that was kept without a holder", "kind", k.base.Key.Kind,
		"name", k.base.Key.Name, "owner", k.t.Entry.Owner(), "reason", reason)
}

// idleLocks are the keepers of a client's locks, and what is known of how well it pays to keep them.
type idleLocks struct {
	mu     sync.Mutex // guards the rest; nothing else is taken while it is held
	locks  map[queue.Key]*idleLease
	misses map[queue.Key]misses
}

// misses is how often in a row a lock was kept for nothing: it was called back, or its time was over,
// before anybody of this client wanted it again.
type misses struct {
	times uint8
	rest  int // how many more unlocks are to release it
}

const (
	// mostMisses bounds how long a name is not kept: for 2 to the power of that many unlocks. So a lock
	// that two processes take in turns costs them next to nothing more than without Keep.
	mostMisses = 8
	// missNames bounds for how many names that is known.
	missNames = 4096
)

// idleLeases are those of a client.
func idleLeases(c *Client) *idleLocks {
	return Attached(c, func(*Client) *idleLocks {
		return &idleLocks{locks: make(map[queue.Key]*idleLease), misses: make(map[queue.Key]misses)}
	})
}

// of is the keeper of a lock, nil if there is none.
func (s *idleLocks) of(key queue.Key) *idleLease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks[key]
}

func (s *idleLocks) add(key queue.Key, k *idleLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[key] = k
}

func (s *idleLocks) remove(key queue.Key, k *idleLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[key] == k {
		delete(s.locks, key)
	}
}

// worthKeeping reports whether a lock that is unlocked now should be kept. It counts the unlocks.
func (s *idleLocks) worthKeeping(key queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.misses[key]
	if v.rest == 0 {
		return true
	}
	v.rest--
	s.misses[key] = v
	return false
}

// noteUsed notes that a lock was wanted again while it was kept.
func (s *idleLocks) noteUsed(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.misses, key)
}

// noteUnused notes that it was not. Beyond missNames some name is forgotten.
func (s *idleLocks) noteUnused(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.misses[key]
	v.times = min(v.times+1, mostMisses)
	v.rest = 1 << v.times
	s.misses[key] = v
	for other := range s.misses {
		if len(s.misses) <= missNames {
			return
		}
		delete(s.misses, other)
	}
}
