package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
	"github.com/holdfast-go/holdfast/watchdog"
)

// ServerLease is the time for which this client holds a lock at the server without a break. One grant has
// it, or several grants that hand the lock off to each other without a request to the server. (Lock
// cohorting: Dice, Marathe and Shavit, PPoPP 2012.)
//
// It has what the server knows of the lock: the lease, the reserved tokens, and the holder's owner id in
// the hash. That is the id of the grant that got the lock from the server; the grants after it take the id
// over. (Rejected: to write each grant's id into the hash, by renewals. Until such a renewal is answered,
// nobody knows which of the two ids the hash has.)
type ServerLease struct {
	base         *Lock
	Entry        Entry // every holder's
	watch        watchdog.Lease
	RenewalError atomic.Pointer[error] // Redis's error for the last renewal; nil: it gave none

	run *leaseRun // nil: there is none. Set before anybody knows the server lease's hold

	// guards the rest. It is taken after the queue's and before a grant's; never held over a
	// network call
	mu     sync.Mutex
	holder holder
	first  uint64 // of the tokens that were reserved
	last   uint64
	turn   time.Duration // when the server granted or kept the lock, by sinceStart
	look   time.Duration // when to look for others who want the lock, likewise,
	free   uint32        // and after how many holders at the earliest
	wanted bool          // somebody of another client was refused since then, and called
	keeper keeper        // of the lock while nobody holds it; nil: it is not kept
	used   uint32        // how many of the tokens holders have had
	unused bool          // no holder has had any: the lock was granted when its caller had left
	over   bool
}

// leaseRun is the holders in a row for which a server lease was granted, see handoff.go.
type leaseRun struct {
	// next calls give with those who are to have the lock next, until one takes it.
	next    func(give func(who any) bool) bool
	claimed time.Time     // when the claim ends by which the run was granted
	claim   time.Duration // its length
}

const (
	// handOffFor is for how long a client hands a lock on before it looks whether other clients
	// wait for it. See also [rivals].
	handOffFor = 10 * time.Millisecond

	// How many tokens are reserved at once: twice as many as were needed the last time. Many are
	// wasted if the lock is given up soon, and then the clock has to catch up with them before more
	// can be had.
	minTokens = 16
	maxTokens = 4096
)

// holder has the lock of a server lease: a grant, or an idle lease.
type holder interface {
	// snapshot is as [ServerLease.Snapshot] has it.
	snapshot() (count int, token uint64, requestedTTL time.Duration)
	// rest is for how long the lock has to stay taken. Zero: it may be released.
	rest() time.Duration
	// call says that somebody of another client wants the lock. It must not block.
	call()
	// finish ends it for a reason, see [grant.finish].
	finish(reason error, undo bool) bool
	// endLost and leaveLost end it because the lock was lost. The first cannot wait, the second may.
	endLost(reason error) error
	loser
}

// keeper is the holder of a lock that nobody of the client holds, see [idleLease].
type keeper interface {
	holder
	// stop ends what it does beside that.
	stop()
}

var _ watchdog.Owner = (*ServerLease)(nil)

// begin gives the server lease to its first grant, with tokens up to last.
func (t *ServerLease) begin(h holder, token, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder = h
	t.reserveLocked(token, last)
	t.used++
}

func (t *ServerLease) reserveLocked(first, last uint64) {
	t.first, t.last, t.used = first, max(first, last), 0
	t.Entry.noteTokens(t.last)
	now := time.Now()
	t.turn = now.Sub(start)
	t.look, t.free = t.turn, rivalTurn-uint32(first%2)
	if !t.base.Client.rivals.seenRecently(t.base.Key, now) {
		t.look, t.free = t.turn+handOffFor, 0
	}
}

// disuse is for the grant that it began with: its caller has left, and the next holder gets its token.
func (t *ServerLease) disuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used, t.unused = 0, true
}

func (t *ServerLease) isUnused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unused
}

// nextLocked is the token of the next holder.
func (t *ServerLease) nextLocked() uint64 { return t.first + uint64(t.used) }

// fresh reports whether the lock may be handed on without asking the server.
func (t *ServerLease) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nextLocked() <= t.last && t.turnLocked()
}

// turnLocked reports whether this client's turn goes on.
func (t *ServerLease) turnLocked() bool { return t.used < t.free || sinceStart() < t.look }

// Snapshot is what a renewal has to tell the server: the holder's count and token, and the lease from now
// on. That covers all of the time for which the lock has to stay taken, because nothing lengthens it later.
func (t *ServerLease) Snapshot() (count int, token uint64, requestedTTL time.Duration) {
	t.mu.Lock()
	h := t.holder
	t.mu.Unlock()
	return h.snapshot()
}

// End ends it: the lock is not handed on any more.
func (t *ServerLease) End() { t.end() }

// of is [leased.of].
func (t *ServerLease) of() (key queue.Key, owner string) { return t.base.Key, t.Entry.Owner() }

// holding is [leased.holding].
func (t *ServerLease) holding() waitwatch.Grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g, ok := t.holder.(waitwatch.Grant); ok {
		return g
	}
	return nil
}

// end ends it and returns who holds the lock.
func (t *ServerLease) end() holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.holder
}

// stopKeeping stops the idle lease, if there is one. The server lease ends.
func (t *ServerLease) stopKeeping() {
	t.mu.Lock()
	k := t.keeper
	t.mu.Unlock()
	if k != nil {
		k.stop()
	}
}

// isWanted reports whether another client has called for the lock.
func (t *ServerLease) isWanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wanted
}

// Lost is called by the watchdog when the server says that the owner does not hold the lock, or
// says nothing for too long. Whoever waits in this client goes on to ask the server.
//
// It keeps the watchdog's time, so only the holds' contexts end here. Others' wait for them.
func (t *ServerLease) Lost(reason error) {
	h := t.end()
	if reason = h.endLost(reason); reason == nil {
		return
	}
	t.base.Client.losses.add(h, reason)
}

// noteUse notes how many were needed.
func (t *ServerLease) noteUse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first < t.last && t.run == nil { // else nobody waited, or the server knew how many
		t.base.Client.handed.Store(int64(t.used))
	}
}

// reserveSize is how many tokens to reserve for those who wait in this client.
func (c *Client) reserveSize() int { return int(min(max(2*c.handed.Load(), minTokens), maxTokens)) }

// nameOf is the name of the lock of an owner under watch.
func nameOf(o watchdog.Owner) string { return o.(*ServerLease).base.Key.Name }
