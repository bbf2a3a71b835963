package engine

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/watchdog"
)

// grant is what the server grants to one owner: one entry in the lock's hash. It is made for an
// [Acquisition] before the lock is asked for. Its holds are the first acquisition and the re-entries. A
// grant is not a Hold because the two need not end together: an inner hold ends before the grant does.
//
// Its states are drawn in the package's comment.
type grant struct {
	base  *Lock
	owner *owner
	asked *Acquisition // that it was made for
	// "<uuid>:h<n>", as the server knows it; of one that was handed the lock, that of the first
	// holder. Set before it is live
	id string
	// what it has at the server; nil before it asks, or is handed the lock. Set before it is live,
	// with mu held
	entry    Entry
	wantedBy atomic.Pointer[wantedSignal] // of others for the lock; nil: the holder has not asked for that

	turn   opTurn        // of operations that talk to the server about this grant
	looked time.Duration // when it was handed on, or about to be released, by sinceStart; 0: neither. The turn guards it

	mu      sync.Mutex // guards the rest; never held over a network call
	live    bool
	front   bool  // it has the front place of the local queue; set before it is live, without mu
	renew   bool  // one of the holds is to be renewed
	longer  bool  // the lease may stand for longer than was asked for
	onError bool  // atLeast is given up if the work fails
	ended   error // why, nil before the end
	// note is what is known of the lock: its own, or that of others who want the lock. Written by the
	// goroutine that acquires.
	note  *Note
	known int // how many answers there were in it before the lock was wanted

	// The holds, and the lease that they share.

	holds       []*Hold      // that have not ended, oldest first; their number is the hold count in Redis
	one         [1]*Hold     // room for the first: most grants have no other
	serverLease *ServerLease // nil before it is live; begun by it, or by the grant that handed the lock on to it
	token       uint64

	lease time.Duration
	// the longest lease that the server was asked for, with or without an answer: it never shortens
	// one
	requestedTTL time.Duration
	confirmed    remote.Replicas // what replicas are known to have it
	granted      time.Duration   // not before that, by sinceStart; 0: it was handed on, or is not live
	atLeast      time.Duration   // for how long the lock stays taken since then; 0: for as long as it is held

	// What the next one takes over.

	until   time.Duration // the deadline when it was handed on, by sinceStart; else 0
	yielded int           // for how many other clients the lock was given up
	longest time.Duration // for how long one of them needs a head start
}

// noted is a grant with its own note. They are one piece, because an allocation costs more than its bytes.
type noted struct {
	grant
	own Note
}

// newGrant makes a grant whose turn is the acquisition's.
func newGrant(o *owner, id string, a *Acquisition) *grant {
	n := a.newNoted()
	g := &n.grant
	g.base, g.owner, g.id, g.asked, g.note = a.base, o, id, a, &n.own
	g.turn.taken = true
	return g
}

// isAwaited reports whether somebody waits for the lock in this client.
func (g *grant) isAwaited() bool { return g.base.Client.queue.Waiting(&g.base.Key) > 0 }

func (g *grant) isLive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live && g.ended == nil
}

// become gives the grant an entry, before it is live.
func (g *grant) become(id string, e Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.id, g.entry = id, e
}

// errSlow is why a grant is of no use whose answer came late.
var errSlow = errors.New("the lock was granted, but its lease could not be trusted any more when the answer came; " +
	"use a longer lease")

// activate makes a grant live and returns its first hold. The server keeps the grant for the time
// requestedTTL from sent on; where that is less than the lease, a renewal asks for the rest at once.
// activate fails with errSlow if the answer came so late that the lease cannot be trusted any more,
// and nothing has changed then. It fails too if the client was closed meanwhile.
func (g *grant) activate(sent time.Time, text, last string, requestedTTL time.Duration) (*Hold, error) {
	want := g.asked.want
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, errors.New("the server granted the lock with a token that is no number: " + text)
	}
	now := suspend.System.Now()
	slept := suspend.System.SleptBy(now) - suspend.System.SleptBy(sent) // which the clock has left out
	if !now.Before(sent.Add(watchdog.Trust(requestedTTL) - slept)) {
		return nil, errs.Outage(errSlow)
	}
	reserved := token
	if last != "" {
		reserved, _ = strconv.ParseUint(last, 10, 64)
	}
	if want.Count > 1 {
		g.entry.(permitted).permits(want.Count)
	}
	g.note.Free(sent)
	g.shareFront()
	h, t := newLive(g.base.Client.observer)
	t.base, t.Entry = g.base, g.entry
	t.begin(g, token, reserved)
	h.on, h.parent, h.token, h.renewed = g, g.asked.ctx, token, want.renew
	h.depth = int32(want.Count) //nolint:gosec // G115: no server has so many
	g.mu.Lock()
	g.serverLease, g.live, g.token, g.lease, g.renew = t, true, token, want.Lease, want.renew
	g.entry.SetInQueue(false)
	g.granted, g.atLeast, g.onError = sinceStart(), want.atLeast, want.onError
	g.one[0] = h
	g.holds = g.one[:]
	g.mu.Unlock()
	dog, watched := g.base.Dog, false
	if requestedTTL < want.Lease {
		watched = dog.Claim(&t.watch, t, sent, requestedTTL, want.Lease)
	} else {
		watched = dog.Watch(&t.watch, t, sent, want.Lease, want.renew)
	}
	if !watched {
		return nil, errs.ErrClosed
	}
	g.endSibling()
	return h, nil
}

// newLive makes the first hold of a grant and the lease, in one piece. That costs nothing: both mostly end together.
func newLive(o *notify.Notifier) (*Hold, *ServerLease) {
	if o.WantsEnds() {
		return newHold(o), new(ServerLease)
	}
	both := &struct {
		Hold
		ServerLease
	}{}
	return &both.Hold, &both.ServerLease
}

// shareFront lets the next waiter of this client ask, where several owners may hold the lock. It
// runs before the grant is live, because the end of a live grant depends on the front place.
func (g *grant) shareFront() {
	if !g.front || !g.base.traits.Shared {
		return
	}
	g.front = false
	if q := &g.base.Client.queue; g.base.traits.Together {
		q.Dissolve(&g.base.Key)
	} else {
		q.Leave(&g.base.Key, queue.Free)
	}
}

// askedForLocked notes that the server is about to be asked for a lease.
func (g *grant) askedForLocked(lease time.Duration) {
	g.longer = g.longer || lease > g.asked.want.Lease || lease < g.lease // what the server has is never shortened
	g.requestedTTL = max(g.requestedTTL, lease)
}

// resync sets the hold count at the server after an operation of unknown outcome, and passes the
// turn on.
func (g *grant) resync() {
	defer g.turn.pass()
	g.entry.NoteLateCommand()
	g.mu.Lock()
	count, lease, ended := len(g.holds), g.lease, g.ended
	g.mu.Unlock()
	if ended == nil && count > 0 {
		_ = g.entry.Set(context.Background(), remote.SharedBudget{}, count, lease, remote.Replicas{}, nil)
	}
}

// reason returns why the watchdog does not renew the grant any more. The watchdog drops a lease
// before it ends the grant, so the grant may not have its reason yet.
func (g *grant) reason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended != nil:
		return g.ended
	case g.base.Client.ctx.Err() != nil:
		return errs.ErrClosed
	}
	return errs.ErrLost
}

// finish ends the grant and its holds. It reports whether this call was the one that ended the
// grant. undo says that the server may still have the grant. In that case, and if a late attempt
// may take the lock once more, the lock is given back in the background.
func (g *grant) finish(reason error, undo bool) bool {
	if !g.end(reason, undo) {
		return false
	}
	g.cleanUp()
	return true
}

// end is the part of finish that cannot wait: it marks the grant and ends the contexts of its
// holds. If it returns true, the caller has to call cleanUp.
func (g *grant) end(reason error, undo bool) bool {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return false
	}
	g.ended = reason
	if undo {
		g.entry.NoteLateCommand()
	}
	holds := g.holds
	g.holds = nil
	g.mu.Unlock()
	for _, h := range holds {
		_ = h.end(reason) // a hold that has ended keeps its own reason
	}
	return true
}

// cleanUp is the rest of finish: the owner, the local queue and the server forget the grant.
func (g *grant) cleanUp() {
	g.mu.Lock()
	lease, rest := max(g.asked.want.TTL(), g.requestedTTL), Nothing
	if g.atLeast > 0 {
		rest = g.rest // a method value, which takes memory
	}
	turn, spent, t := queue.Handover(g.yielded), g.spentLocked(), g.serverLease
	g.mu.Unlock()
	if t != nil {
		t.stopKeeping()
	}
	g.owner.drop(g, spent)
	if g.front {
		g.base.Client.queue.Leave(&g.base.Key, turn)
	}
	if g.entry != nil {
		g.entry.UndoIfNeeded(rest, lease)
	}
}

// takeOver makes the grant the holder of a server lease, with the next token of that, if the lock is as it
// wants it. The caller has the mutex of the server lease.
func (g *grant) takeOver(t *ServerLease, lease time.Duration, confirmed remote.Replicas) *Hold {
	want := g.asked.want
	if t.over || !want.moves() || !want.handOff && !t.unused || want.Lease != lease || !confirmed.Cover(want.Replicas) {
		return nil
	}
	h := newHold(g.base.Client.observer)
	h.on, h.parent, h.depth, h.token, h.renewed = g, g.asked.ctx, 1, t.nextLocked(), true
	t.used++
	t.holder, t.unused = g, false
	g.mu.Lock()
	defer g.mu.Unlock()
	// There is no front place where the queue is at the server.
	g.live, g.front, g.serverLease, g.entry, g.id = true, !g.base.traits.Queues, t, t.Entry, t.Entry.Owner()
	g.token, g.lease, g.renew, g.confirmed = h.token, lease, true, confirmed
	g.holds = append(g.holds, h)
	return h
}

// isOver reports whether the grant has ended, and whether its owner's id must not be used again.
func (g *grant) isOver() (over, spent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended != nil, g.spentLocked()
}

// spentLocked reports whether the owner's id must not be used again. That is so if a command with
// this id may still arrive at the server, if the hash still has the id, as that of a lock which
// stays taken for a while, or if somebody has forced the owner out and may do so once more.
func (g *grant) spentLocked() bool {
	return g.entry != nil && g.entry.tainted() || g.staysLocked() || g.until != 0 ||
		errors.Is(g.ended, errs.ErrLost)
}

// lose ends a grant whose lock is lost, by the word of the server or by the clock.
func (g *grant) lose(reason error) {
	if reason = g.endLost(reason); reason != nil {
		g.leaveLost(reason)
	}
}

// endLost is [grant.end] for a loss. It returns the reason, or nil if the grant had ended before.
func (g *grant) endLost(reason error) error {
	g.base.Dog.Forget(&g.serverLease.watch)
	reason = g.inFull(reason)
	// After a deadline Redis may still have the entry, which would block others until its lease ends
	// there. The same is true of some of several masters if others have taken the lock at the rest.
	if !g.end(errs.Both(errs.ErrLost, reason), pastDeadline(reason) || g.base.traits.Several) {
		return nil
	}
	return reason
}

func pastDeadline(reason error) bool {
	return errors.Is(reason, watchdog.ErrDeadline) || errors.Is(reason, watchdog.ErrEnded)
}

// inFull adds the servers' answers to the watchdog's reason for a loss.
func (g *grant) inFull(reason error) error {
	if refusal := g.serverLease.RenewalError.Load(); refusal != nil && pastDeadline(reason) {
		return errs.Both(reason, *refusal)
	}
	if errors.Is(reason, watchdog.ErrGone) {
		return g.notHeld()
	}
	return reason
}

func (g *grant) leaveLost(reason error) {
	g.cleanUp()
	g.base.Client.opts.Logger.Warn("lock lost", "kind", g.base.Key.Kind, "name", g.base.Key.Name,
		"owner", g.id, "token", g.token, "reason", reason)
}

// notHeld is [watchdog.ErrGone], with the cause of the loss if that is known.
func (g *grant) notHeld() error {
	if why := g.entry.LossCause(); why != nil {
		return errs.Both(watchdog.ErrGone, why)
	}
	return watchdog.ErrGone
}

// gone ends a grant that the server does not know any more, and returns the reason. If the client
// is being closed, that is the reason, and not a loss.
func (g *grant) gone() error {
	g.lose(watchdog.ErrGone)
	return g.reason()
}

// rest returns for how long the lock has to stay taken; 0: it may be released. It deducts a little
// less than the time that has passed, because this clock may be faster than the server's.
func (g *grant) rest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.restLocked()
}

func (g *grant) restLocked() time.Duration {
	if !g.staysLocked() {
		return 0
	}
	past := sinceStart() - g.granted
	return max(g.atLeast-(past-past/watchdog.Drift), 0)
}

// snapshot is as [ServerLease.Snapshot] has it.
func (g *grant) snapshot() (count int, token uint64, requestedTTL time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(len(g.holds), 1), g.token, max(g.lease, g.restLocked())
}

// call is [holder.call].
func (g *grant) call() {
	if w := g.wantedBy.Load(); w != nil {
		w.fire()
	}
}

// staysLocked reports whether the lock has to stay taken for a while, and is not released before.
func (g *grant) staysLocked() bool { return g.live && g.atLeast > 0 }

// opTurn lets one operation at a time talk to the server about a grant, because each of them tells the server an
// absolute hold count. It is a mutex whose caller can stop waiting by a context. The channel for that is made only
// when somebody has to wait.
type opTurn struct {
	mu      sync.Mutex // guards the rest
	taken   bool
	waiting int32
	next    chan struct{} // gets one value for each turn that is passed on to one of the waiting
}

// tryTake takes the turn if it is free.
func (t *opTurn) tryTake() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

// take takes the turn, and waits for it until ctx ends.
func (t *opTurn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	t.waiting++
	if t.next == nil {
		t.next = make(chan struct{}, 1)
	}
	next := t.next
	t.mu.Unlock()
	select {
	case <-next:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 {
		t.waiting--
		return context.Cause(ctx)
	}
	<-next // it was passed on meanwhile, to this one
	return nil
}

// pass gives the turn to one of those who wait, or frees it.
func (t *opTurn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == 0 {
		t.taken = false
		return
	}
	t.waiting--
	t.next <- struct{}{}
}
