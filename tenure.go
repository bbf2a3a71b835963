package holdfast

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// tenure is the time for which this client holds a lock at the server without a break: one grant's, or that of several that
// hand the lock on among each other without asking the server. (Lock cohorting: Dice, Marathe and Shavit, PPoPP 2012.)
//
// What belongs to the lock at the server belongs to it: the lease, the tokens that were reserved, the name that the hash has
// for the holder. That is the name of an earlier holder at first. A renewal puts it right, within renameAfter. While its answer is
// out the hash may have either name, so commands list both, and those whose reply says "not held" are believed only
// if the names have not changed since they were made.
type tenure struct {
	base    *Base
	server  server
	watch   watchdog.Lease
	refusal atomic.Pointer[error] // what Redis said to the last renewal, if that was an error

	mu       sync.Mutex // guards the rest. It is taken after the queue's and before a grant's; never held over a network call
	holder   *grant
	names    kind.Names // that the hash may have for the holder, the second one if a renewal changes it. Never written in place
	changes  uint64     // of names
	passing  bool       // a command is out that may release the lock
	hastened bool       // a renewal that changes the name is due soon
	first    uint64     // of the tokens that were reserved
	next     uint64
	last     uint64
	look     time.Time // when to look for others who want the lock
	over     bool

	one [1]string // room for the first name
}

const (
	// handOffFor is for how long a client hands a lock on before it looks whether other clients wait for it.
	handOffFor = 10 * time.Millisecond
	// letGo is how long its next waiter then lets each of the others try first.
	letGo = 2 * time.Millisecond
	// renameAfter is how long the hash may have an earlier holder's name.
	renameAfter = 100 * time.Millisecond

	// How many tokens are reserved at once: twice as many as were needed the last time. Many are wasted if the lock is given up
	// soon, and then the clock has to catch up with them before more can be had.
	minTokens = 16
	maxTokens = 4096
)

var _ watchdog.Owner = (*tenure)(nil)

// begin makes it the tenure of a grant, with tokens up to last.
func (t *tenure) begin(g *grant, token, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.one[0] = g.id
	t.holder, t.names = g, t.one[:]
	t.reserveLocked(token, last)
	t.next++
}

func (t *tenure) reserveLocked(first, last uint64) {
	t.first, t.next, t.last = first, first, max(first, last)
	t.look = time.Now().Add(handOffFor)
}

// fresh tells whether the lock may be handed on without asking the server.
func (t *tenure) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return (t.next <= t.last || control.Reserved.Off()) && (time.Now().Before(t.look) || control.Look.Off())
}

// give makes a waiter of this client the holder in place of the one that leaves. It is called with the queue's mutex held.
func (t *tenure) give(from, to *grant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := &to.asked.want
	if t.over || t.holder != from || !want.handOff || !want.renew || want.lease != from.lease ||
		!from.confirmed.cover(want.replicas) {
		return false
	}
	h := &Hold{grant: to, parent: to.asked.ctx, depth: 1, token: t.next}
	t.next++
	t.holder = to
	to.mu.Lock()
	to.live, to.front, to.tenure, to.server = true, true, t, t.server
	if t.base.quorum != nil {
		to.id = t.names[0] // is not changed at the masters
	}
	to.token, to.lease, to.renew, to.confirmed = h.token, want.lease, true, from.confirmed
	to.holds = append(to.holds, h)
	to.mu.Unlock()
	t.hastenLocked()
	return true
}

func (t *tenure) hastenLocked() {
	if t.hastened || t.base.quorum != nil || slices.Contains(t.names, t.holder.id) {
		return
	}
	t.hastened = true
	t.base.dog.Hasten(&t.watch, renameAfter)
}

// standing is what the server is to know of the holder.
func (t *tenure) standing() (count int, token uint64) {
	t.mu.Lock()
	g := t.holder
	t.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(len(g.holds), 1), g.token
}

// known is by which names the server may know the holder.
func (t *tenure) known() kind.Names {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names
}

// renewal is the command that renews the lease, and the name that it gives the holder, if any: that of the holder of this moment, unless
// an earlier one is not answered yet, or unless another operation of the holder's is under way, which relies on the names that
// it was made with.
func (t *tenure) renewal(length time.Duration) (call lua.Call, name string, changes uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.names) > 1:
		name = t.names[1]
	case t.holder.id != t.names[0] && t.holder.idle() && !control.Rename.Off():
		name = t.holder.id
		t.names = kind.Names{t.names[0], name}
		t.changes++
	}
	return t.base.wire.Renew(t.names, name, length), name, t.changes
}

// renewed notes that a renewal was confirmed.
func (t *tenure) renewed(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.names) > 1 && t.names[1] == name {
		t.names = kind.Names{name}
		t.changes++
	}
	t.hastened = false
	t.hastenLocked()
}

// believes tells whether "not held" in reply to a renewal means that the lock is lost.
func (t *tenure) believes(changes uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.passing && t.changes == changes || control.Believes.Off()
}

func (t *tenure) setPassing(passing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passing = passing
}

// end ends it and returns who holds the lock.
func (t *tenure) end() *grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.holder
}

// Lost is called by the watchdog when the server says that the owner does not hold the lock, or says nothing for too
// long. Whoever waits in this client goes on to ask the server.
func (t *tenure) Lost(reason error) { t.end().lose(reason) }

// wanted is how many tokens to reserve for those who wait in this client.
func (c *Client) wanted() int { return int(min(max(2*c.handed.Load(), minTokens), maxTokens)) }

// used notes how many were needed.
func (t *tenure) used() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first < t.last { // else nobody waited
		t.base.client.handed.Store(int64(t.next - t.first)) //nolint:gosec // at most maxTokens
	}
}
