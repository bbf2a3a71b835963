package holdfast

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// grant is what the server granted to one owner: one entry in the lock's hash. The holds in it are its re-entries. It is
// kept apart from Hold because the two need not end together: an inner hold ends before it, and a grant that is handed
// on within the process will outlive the hold that got it.
//
// Life: made by owner.enter, then either live (activate) and ended once, or ended at once because the server refused.
//
//	made ── activate ──> live ──> ended: last unlock, lost (watchdog), or client closed
//	  └────── give up ───────────────┘
type grant struct {
	base    *Base
	owner   *owner
	id      string   // "<uuid>:h<n>"
	server  server   // that grants it
	front   bool     // it has the front place of the local queue; set before it is live
	counted bool     // Close waits for its acquisition; of the goroutine that acquires
	asked   *request // that it was made for
	refused bool     // others want the lock; of the goroutine that acquires
	// refusedAt is the server's time, in microseconds, when it last said that a place has not been granted yet. Of its waiter.
	refusedAt int64

	// turn holds one token. Operations that talk to the server about this grant take turns, because each tells the
	// server an absolute hold count. It is a channel and not a mutex: a caller leaves by its context.
	turn chan struct{}

	mu    sync.Mutex // guards the rest; never held over a network call
	live  bool
	ended error // why, nil before the end
	stray bool  // a command for this grant may still arrive at the server
	// placed says that the owner may have a place in the queue of the server.
	placed bool
	// undone says that it is being given back in the background.
	undone bool
	// yielded is for how many other clients the lock was given up.
	yielded int
	token   uint64
	lease   time.Duration
	renew   bool
	holds   []*Hold // that have not ended, oldest first; their number is the hold count in Redis
	tenure  *tenure // nil before it is live; begun by it, or by the grant that handed the lock on to it
	// confirmed is what replicas are known to have it.
	confirmed replicas
	until     time.Time // the deadline when it was handed on
}

// newGrant makes a grant whose turn is the request's.
func newGrant(b *Base, o *owner, id string, r *request) *grant {
	return &grant{base: b, owner: o, id: id, server: b.client, asked: r, turn: make(chan struct{}, 1)}
}

func (g *grant) takeTurn(ctx context.Context) error {
	select {
	case <-g.turn:
		return nil
	default:
	}
	select {
	case <-g.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *grant) passTurn() { g.turn <- struct{}{} }

// idle tells whether no operation that talks to the server about this grant is under way.
func (g *grant) idle() bool { return len(g.turn) == 1 }

func (g *grant) fail(op string, err error) error { return g.base.fail(op, err) }

// activate makes a grant live that stands for a time from sent on, and returns its first hold. It fails if the answer came so
// late that the lease cannot be trusted any more, or if the client was closed meanwhile. What stands for less than the lease
// has to be renewed to get that.
func (g *grant) activate(sent time.Time, text, last string, stands time.Duration) (*Hold, error) {
	want := &g.asked.want
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, errors.New("the server granted the lock with a token that is no number: " + text)
	}
	if !time.Now().Before(sent.Add(watchdog.Trust(stands))) {
		return nil, both{ErrLost, errors.New("the grant took longer than its lease can be trusted; use a longer lease")}
	}
	reserved, _ := strconv.ParseUint(last, 10, 64) // empty: no more than this one
	t := &tenure{base: g.base, server: g.server}
	t.begin(g, token, reserved)
	h := &Hold{grant: g, parent: g.asked.ctx, depth: 1, token: token}
	g.mu.Lock()
	g.tenure, g.live, g.token, g.lease, g.renew, g.placed = t, true, token, want.lease, want.renew, false
	g.holds = append(g.holds, h)
	g.mu.Unlock()
	dog, watched := g.base.dog, false
	if stands < want.lease {
		watched = dog.Claim(&t.watch, t, sent, stands, want.lease)
	} else {
		watched = dog.Watch(&t.watch, t, sent, want.lease, want.renew)
	}
	if !watched {
		return nil, ErrClosed
	}
	return h, nil
}

// reenter adds a hold to a live grant. The caller has the turn, and must not pass it on: whoever ends the operation does.
func (g *grant) reenter(r *request) (*Hold, error) {
	wait := r.wait
	g.mu.Lock()
	count, lease, renew := len(g.holds)+1, max(g.lease, r.want.lease), g.renew || r.want.renew
	g.mu.Unlock()
	s := g.confirming(r)
	o, ok := g.base.client.call(wait, s, g.recount(count, lease), func(o outcome) { g.settle() })
	if !ok {
		return nil, both{ErrNotAcquired, because(context.Cause(wait), o.err)} // settle passes the turn on
	}
	switch {
	case o.err != nil && (o.stray || s != g.server):
		g.base.client.tasks.Go(g.settle)
		return nil, g.base.gaveUp(wait, o)
	case o.err != nil:
		g.passTurn()
		return nil, g.base.gaveUp(wait, o)
	}
	defer g.passTurn()
	if o.reply.Status == lua.Gone {
		return nil, g.gone()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return nil, g.ended
	}
	if !g.base.dog.Confirm(&g.tenure.watch, o.sent, lease, renew) {
		return nil, ErrLost // its time is over; the watchdog is about to say so
	}
	h := &Hold{grant: g, parent: r.ctx, depth: count, token: g.token}
	g.holds = append(g.holds, h)
	g.lease, g.renew, g.stray = lease, renew, g.stray || o.stray
	if s != g.server {
		g.confirmed = r.want.replicas
	}
	return h, nil
}

func (g *grant) recount(count int, lease time.Duration) operation {
	if b, ok := g.server.(*ballot); ok {
		return b.restand(count, lease, g.token)
	}
	return func(bool) lua.Call { return g.base.protocol.Recount(g.tenure.known(), count, lease) }
}

// settle tells the server the true hold count after an operation whose outcome nobody knows, and passes the turn on.
func (g *grant) settle() {
	defer g.passTurn()
	g.mu.Lock()
	g.stray = true
	count, lease, ended := len(g.holds), g.lease, g.ended
	g.mu.Unlock()
	if ended == nil && count > 0 {
		_ = detached(context.Background(), g.server, g.recount(count, lease))
	}
}

// errBusy is why an unlock could not be sent at once.
var errBusy = errors.New("another operation of the same owner got no answer from Redis within the retry budget")

// unlock takes a hold that has ended out of the grant. The last one releases the lock.
func (g *grant) unlock(ctx context.Context, h *Hold) error {
	select {
	case <-g.turn:
	default: // another operation of the same owner is under way
		limit, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), g.base.client.opts.RetryBudget, errBusy)
		defer cancel()
		if err := g.takeTurn(limit); err != nil {
			g.base.client.tasks.Go(func() { g.unlockLater(h) })
			return both{ErrUncertain, err}
		}
	}
	return g.unlockInTurn(ctx, h)
}

// unlockLater is an unlock whose caller could not wait for the operation before it.
func (g *grant) unlockLater(h *Hold) {
	<-g.turn // passed on by that operation, which is bounded
	_ = g.unlockInTurn(context.Background(), h)
}

func (g *grant) unlockInTurn(ctx context.Context, h *Hold) error {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		g.passTurn()
		return g.ended
	}
	g.holds = slices.DeleteFunc(g.holds, func(other *Hold) bool { return other == h })
	count, lease := len(g.holds), g.lease
	g.mu.Unlock()
	if count == 0 {
		defer g.passTurn()
		return g.unlockLast(ctx)
	}
	o := detached(ctx, g.server, g.recount(count, lease))
	if o.stray {
		g.markStray()
	}
	switch {
	case o.err != nil && o.stray:
		g.base.client.tasks.Go(g.settle)
		return g.base.uncertain(o)
	case o.err != nil:
		g.passTurn()
		return g.base.uncertain(o)
	}
	defer g.passTurn()
	if o.reply.Status == lua.Gone {
		return g.gone()
	}
	return nil
}

// unlockLast frees the lock. Renewal ends before the release is sent, so that it cannot outlive it.
func (g *grant) unlockLast(ctx context.Context) error {
	if ended, err := g.handOff(ctx); ended {
		return err
	}
	if !g.base.dog.Forget(&g.tenure.watch) {
		return g.reason()
	}
	g.tenure.used()
	o := g.server.release(ctx, g.base, g.tenure.known())
	g.finish(ErrReleased, o.stray || o.err != nil) // without an answer, or refused, it goes on in the background
	switch {
	case o.err != nil:
		return g.base.uncertain(o)
	case o.reply.Status == lua.Gone && (!o.stray || control.RepeatedGone.Off()):
		return both{ErrLost, watchdog.ErrGone}
	case o.reply.Text(0) != "":
		return unannounced(g.base, o.reply.Text(0))
	}
	return nil
}

// untold is what to do about a release that nobody could be told of: text is what the server said.
func untold(b *Base, text string) string {
	if reply := serverError(text); !lua.IsDenied(reply) {
		return explain(b, reply).Error()
	}
	return "permit this user to publish on " + b.wire.Channel() + ": " + text
}

// serverError is an error of the server that came as a part of a reply.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError makes it an error of go-redis.
func (e serverError) RedisError() {}

// reason is why the watchdog does not know the grant any more. It takes a lease off its list before it says so here.
func (g *grant) reason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended != nil:
		return g.ended
	case g.base.client.ctx.Err() != nil:
		return ErrClosed
	}
	return ErrLost
}

// finish ends the grant and the holds that are still in it. It reports whether this call was the one that ended it. undo says
// that it may stand at the server; then, and if a straggler of it may take the lock once more, for nobody, it is given back
// in the background.
func (g *grant) finish(reason error, undo bool) bool {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return false
	}
	g.ended = reason
	g.stray = g.stray || undo
	stray, holds, lease := g.stray, g.holds, g.lease
	undo = (stray || g.placed) && !g.undone
	g.undone = g.undone || undo
	g.holds = nil
	turn := queue.Turn(g.yielded)
	g.mu.Unlock()
	for _, h := range holds {
		_ = h.end(reason) // those that ended by themselves have their own reason
	}
	g.owner.drop(g, stray || undo)
	if g.front {
		g.base.client.queue.Leave(g.base.key, turn)
	}
	if undo {
		g.base.client.tasks.Go(func() { g.server.undo(g.base, g.names(), lease, stray) })
	}
	return true
}

func (g *grant) lose(reason error) {
	g.base.dog.Forget(&g.tenure.watch)
	deadline := errors.Is(reason, watchdog.ErrDeadline)
	if refusal := g.tenure.refusal.Load(); deadline && refusal != nil {
		reason = both{reason, *refusal}
	}
	// After a deadline it may stand in Redis all the same, and would block others until its lease ends there.
	if !g.finish(both{ErrLost, reason}, deadline) {
		return
	}
	g.base.client.opts.Logger.Warn("lock lost", "kind", g.base.key.Kind, "name", g.base.key.Name,
		"owner", g.id, "token", g.token, "reason", reason)
}

// gone ends a grant that the server does not know any more, and says why it ended: if the client is being closed, that
// was before the release.
func (g *grant) gone() error {
	g.lose(watchdog.ErrGone)
	return g.reason()
}

// releaseAtClose releases a grant of a closed client on its own, after the batch that it was in did not get through.
func (g *grant) releaseAtClose() (ok bool) {
	o := detached(context.Background(), g.server, g.base.release(g.tenure.known()))
	if o.err != nil {
		g.base.client.opts.Logger.Warn("locks not released at close; their leases will end them",
			"kind", g.base.key.Kind, "name", g.base.key.Name, "owner", g.id, "error", o.err)
	}
	return o.err == nil
}

// extend lengthens the lease.
func (g *grant) extend(ctx context.Context, lease time.Duration) error {
	if err := g.takeTurn(ctx); err != nil {
		return err
	}
	defer g.passTurn()
	g.mu.Lock()
	ended, renew, count := g.ended, g.renew, len(g.holds)
	g.mu.Unlock()
	if ended != nil {
		return ended
	}
	// A straggler is harmless here, because a renewal never shortens: nothing to do when the caller leaves early.
	op := func(bool) lua.Call { return g.base.wire.Renew(g.tenure.known(), "", lease) }
	if b, ok := g.server.(*ballot); ok {
		op = b.restand(count, lease, g.token)
	}
	o, ok := g.base.client.call(ctx, g.server, op, func(outcome) {})
	switch {
	case !ok:
		return both{ErrUncertain, context.Cause(ctx)}
	case o.err != nil:
		return g.base.uncertain(o)
	case o.reply.Status == lua.Gone:
		return g.gone()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return g.ended
	}
	if !g.base.dog.Confirm(&g.tenure.watch, o.sent, lease, renew) {
		return ErrLost // its time is over; the watchdog is about to say so
	}
	g.lease = lease
	return nil
}

// names are by what the server may know it.
func (g *grant) names() kind.Names {
	if t := g.tenure; t != nil {
		return t.known()
	}
	return kind.Names{g.id}
}

// deadline is until when it is trusted.
func (g *grant) deadline() time.Time {
	g.mu.Lock()
	until, t := g.until, g.tenure
	g.mu.Unlock()
	if !until.IsZero() {
		return until
	}
	return g.base.dog.Deadline(&t.watch)
}
