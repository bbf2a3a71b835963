package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
)

// oneServer is the backend of a lock that the client's own server grants.
type oneServer struct {
	base     *Lock
	client   *Client
	protocol kind.Protocol
	hander   kind.HandOffProtocol // the protocol, if its holders hand the lock to others of this client
	places   kind.Places          // of waiters, at the server
}

var _ Backend = (*oneServer)(nil)

func newOneServer(b *Lock, p kind.Protocol) Backend {
	s := &oneServer{base: b, client: b.Client, protocol: p, places: kind.NoPlaces}
	s.hander, _ = p.(kind.HandOffProtocol)
	if q, ok := p.(kind.Placer); ok {
		s.places = q.Places()
	}
	return s
}

// Traits is [Backend.Traits].
func (s *oneServer) Traits() Traits {
	_, recalls := s.protocol.(kind.Callable)
	_, sided := s.protocol.(kind.Sided)
	_, strings := s.protocol.(kind.Neighbour)
	return Traits{HandsOff: s.hander != nil, Recalls: recalls, Sided: sided, Strings: strings}
}

var _ CallListener = (*oneServer)(nil)

// ListenForCalls is [CallListener.ListenForCalls].
func (s *oneServer) ListenForCalls(l pubsub.Listener) interface{ Close() } {
	return s.client.hub.Listen(s.protocol.(kind.Callable).CallChannel(s.client.id), l)
}

// Check is [Backend.Check].
func (s *oneServer) Check(cfg *Settings) error { return checkReplicas(cfg.Replicas, cfg.Lease) }

// Listen is [Backend.Listen].
func (s *oneServer) Listen() Listening { return s.client.hub.Subscribe(s.protocol.Channel()) }

// Silent is [Backend.Silent].
func (s *oneServer) Silent(p remote.Patience) bool {
	return s.client.server.Silent(s.protocol.Name(), p)
}

// Unreached is [Backend.Unreached].
func (s *oneServer) Unreached() error { return s.client.server.Unreached(s.protocol.Name()) }

// NoAnswer is [Backend.NoAnswer]. It names the server.
func (s *oneServer) NoAnswer() error { return s.client.server.NoAnswer(s.protocol.Name()) }

// Explain is [Backend.Explain].
func (s *oneServer) Explain(err error) error {
	name := s.protocol.Name()
	return remote.Explain(err, name, remote.ALock, keys.For(name).Token)
}

// Renewer is [Backend.Renewer].
func (s *oneServer) Renewer() Renewer { return s.client }

// replicated is the server where replicas have to confirm what is written.
func (s *oneServer) replicated(want remote.Replicas) *remote.Replicated {
	c := s.client
	return remote.NewReplicated(c.session, c.server, s.protocol.Name(), want)
}

// NewLock is for the kinds of this module. Errors in its arguments are returned by the first
// operation.
func NewLock(c *Client, p kind.Protocol, opts ...Option) *Lock {
	b := NewBare(c, p, opts)
	b.protocol = p
	if b.Err == nil {
		b.Use(newOneServer(b, p))
	}
	return b
}

// serverEntry is the entry of an owner at one server: a field of the lock's hash.
type serverEntry struct {
	CommandState
	server *oneServer
	id     string
	ticket string // of the first refusal; of the goroutine that asks
	// How many permits it has, if they are several. It is set before the grant is live.
	several  int32
	answered bool // see overdue

	// overdue gives back what a question may come to that goes on without its caller, and takes long; answered says that
	// one has ended since. The mutex of CommandState guards both.
	overdue *time.Timer
}

var _ Entry = (*serverEntry)(nil)

// Owner is [Entry.Owner].
func (f *serverEntry) Owner() string { return f.id }

// Set is [Entry.Set].
func (f *serverEntry) Set(ctx context.Context, budget remote.SharedBudget, count int, lease time.Duration, want remote.Replicas,
	failed *atomic.Pointer[error]) remote.Outcome {
	op := func(bool) lua.Call { return f.server.protocol.Recount(f.id, count, lease) }
	c, retry := f.server.client, remote.Retry{Budget: budget}
	if want.N > 0 {
		return f.Sent(f.overwritten(f.server.replicated(want).Repeat(ctx, op, retry, failed)))
	}
	return f.Sent(f.overwritten(c.session.Repeat(ctx, c.server, op, retry, failed)))
}

// Extend is [Entry.Extend].
func (f *serverEntry) Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome {
	s := f.server
	op := func(bool) lua.Call { return f.renewal(lease) }
	return f.overwritten(s.client.session.Repeat(ctx, s.client.server, op, remote.Retry{}, failed))
}

// overwritten takes the answer that the key is no hash for what it says: the hash is gone, and the owner
// with it, as for [oneServer.Renew]. It is not used where a script asks for more than the hash.
func (f *serverEntry) overwritten(o remote.Outcome) remote.Outcome {
	if remote.IsOverwritten(f.server.protocol, o.Err) {
		o.Reply, o.Err = lua.Reply{Status: lua.Gone}, nil
	}
	return o
}

// permits is [permitted.permits].
func (f *serverEntry) permits(n int) { f.several = int32(n) } //nolint:gosec // G115: no server has so many

// renewal is the script that renews.
func (f *serverEntry) renewal(lease time.Duration) lua.Call {
	if f.several > 1 {
		return f.server.protocol.(kind.Several).RenewSeveral(f.id, int(f.several), lease)
	}
	return f.server.protocol.Renew(f.id, lease)
}

// KeepOrRelease is [Entry.KeepOrRelease].
func (f *serverEntry) KeepOrRelease(ctx context.Context, budget remote.SharedBudget, lease time.Duration, tokens int) remote.Outcome {
	s := f.server
	return f.TrackKeepOrRelease(func() remote.Outcome {
		return f.believed(ctx, budget, s.client.session.Detached(ctx, s.client.server, func(bool) lua.Call {
			return s.hander.KeepOrRelease(f.id, lease, tokens, s.client.server.Publish)
		}, budget))
	})
}

// believed is the outcome of a release. It is an error where a repeat did not find the owner, and others have had
// the lock since.
func (f *serverEntry) believed(ctx context.Context, budget remote.SharedBudget, o remote.Outcome) remote.Outcome {
	if o.Err != nil || o.Reply.Status != lua.Gone || !o.MayArriveLate {
		return o
	}
	s := f.server
	o.Err = s.client.session.Taken(ctx, s.client.server, s.protocol.Name(), f.id, f.last.Load(), s.base.traits.Shared,
		budget)
	return o
}

// Release is [Entry.Release].
func (f *serverEntry) Release(ctx context.Context, budget remote.SharedBudget, rest func() time.Duration) remote.Outcome {
	c := f.server.client
	o := f.overwritten(c.session.Detached(ctx, c.server, func(bool) lua.Call { return f.releaseCall(rest()) }, budget))
	o = f.Released(f.believed(ctx, budget, o))
	if o.Err == nil && o.Reply.Status == lua.Done { // else one of them may have been handed the lock since
		f.takeServed()
	}
	return o
}

// releaseCall is the command that ends the lock for its owner: at once, or when it has stayed for so
// long.
func (f *serverEntry) releaseCall(rest time.Duration) lua.Call {
	s := f.server
	if rest > 0 {
		return s.protocol.ReleaseAfter(f.id, rest, s.client.server.Publish)
	}
	if served := f.allServed(); len(served) > 0 {
		return s.protocol.(kind.Queuer).ReleaseRun(f.id, served, s.client.server.Publish)
	}
	return s.protocol.Release(f.id, s.client.server.Publish)
}

// LossCause is [Entry.LossCause].
func (f *serverEntry) LossCause() error { return nil }

// UndoLater is [Entry.UndoLater].
func (f *serverEntry) UndoLater(lease time.Duration, mayArriveLate bool) {
	f.undoAfter(0, lease, mayArriveLate)
}

func (f *serverEntry) undoAfter(rest, lease time.Duration, mayArriveLate bool) {
	c := f.server.client
	// Its place may be there for longer than a lease, and who is called then is not there.
	c.session.Undo(c.server, f.server.protocol, f.id, rest, max(lease, f.server.places.Longest), mayArriveLate)
}

// undoWhenOverdue is for a command that goes on without its caller. When the command has ended, its own connection
// gives back what it got, see [serverEntry.settled]. That may take as long as go-redis reads from a silent connection.
// So another connection gives it back, too, as soon as the answer is overdue: otherwise a lock that was granted
// meanwhile would be nobody's for that long.
func (f *serverEntry) undoWhenOverdue(lease time.Duration) {
	f.MarkUndoRunning()
	c := f.server.client
	c.tasks.Begin()
	overdue := time.AfterFunc(c.overdue(), func() {
		defer c.tasks.End()
		f.UndoLater(lease, true)
	})
	f.mu.Lock()
	f.overdue = overdue
	answered := f.answered
	f.mu.Unlock()
	if answered {
		f.settled()
	}
}

// undoWhenLanded is for a command that its caller has left while another caller sends it. It may be sent later than what
// gives back what it gets.
func (f *serverEntry) undoWhenLanded(o remote.Outcome) {
	f.server.client.session.WhenLanded(f.server.client.server, f.server.protocol, f.id, o.Err)
}

// settled notes that such a question has ended.
func (f *serverEntry) settled() {
	f.mu.Lock()
	f.answered = true
	overdue := f.overdue
	f.overdue = nil
	f.mu.Unlock()
	if overdue != nil && overdue.Stop() {
		f.server.client.tasks.End()
	}
}

// UndoIfNeeded is [Entry.UndoIfNeeded].
func (f *serverEntry) UndoIfNeeded(rest func() time.Duration, lease time.Duration) {
	if undo, mayArriveLate := f.TakeUndo(); undo {
		f.undoAfter(rest(), lease, mayArriveLate)
	}
	s := f.server
	for _, id := range f.takeServed() {
		s.client.session.Undo(s.client.server, s.protocol, id, 0, s.places.Longest, false)
	}
}

var _ Acquirer = (*serverEntry)(nil)

// Entry is [Acquirer.Entry].
func (f *serverEntry) Entry() Entry { return f }

// Live is [Acquirer.Live].
func (f *serverEntry) Live(*watchdog.Lease) {}

// TryAcquire is [Acquirer.TryAcquire]: it asks the server once.
func (f *serverEntry) TryAcquire(a Attempt) Result {
	s, c, wait := f.server, f.server.client, a.Wait
	a.again = f.MayArriveLate()
	q := &question{serverEntry: f, Attempt: a}
	if !a.Once && s.places.Kept > 0 {
		q.place = s.base.PlaceFor(wait)
	}
	if a.Lasts {
		q.late = make(chan Result, 1)
	}
	o, ok := c.session.CallPromptly(wait, c.server, q, remote.Retry{Once: a.Once}, a.Failed)
	switch {
	case ok && a.Lasts:
		n := q.outcome(context.Background(), o)
		if cause := s.base.Over(wait); cause != nil && n.Granted {
			q.late <- n
			return Result{Left: cause, Late: q.late}
		}
		return n
	case ok:
		return q.outcome(wait, o)
	case a.Lasts:
		return Result{Left: context.Cause(wait), Late: q.late}
	}
	f.undoWhenOverdue(a.Want.TTL())
	return Result{Left: context.Cause(wait)}
}

// question is one attempt of a server's entry. It is the [remote.Question] of it.
type question struct {
	remote.Asked
	*serverEntry
	Attempt
	place time.Duration // for how long a place in the server's queue counts; 0: none is wanted
	late  chan Result   // has what comes of an attempt that lasts, when its caller has left
}

// Call is [remote.Question.Call].
func (q *question) Call(again bool) lua.Call {
	s := q.server
	return s.protocol.Acquire(kind.Ask{
		Owner: q.id, Lease: q.Want.TTL(), Again: again || q.again, Publish: s.client.server.Publish,
		Tokens: q.Tokens, Until: s.client.server.Clock.Limit(), HeadStart: q.headStart, Ends: q.ends, Place: q.place,
		Ticket: q.ticket, Count: q.Want.Count, Beside: q.beside, Strings: q.Want.strings,
	})
}

// Late is [remote.Question.Late]. The caller may have been granted the lock, or have a place among those who wait: that is
// given back as soon as it is known, unless somebody stands behind.
func (q *question) Late(o remote.Outcome) {
	if q.Lasts {
		q.late <- q.outcome(context.Background(), o)
		return
	}
	q.settled()
	q.undoWhenLanded(o)
	if mayArriveLate := q.again || o.MayArriveLate || o.Err == nil && o.Reply.Status == lua.Done; mayArriveLate || q.place > 0 {
		q.UndoLater(q.Want.TTL(), mayArriveLate)
	}
}

// outcome is what the end of a question means for one who waits so long, and who may have a place now.
func (q *question) outcome(wait context.Context, o remote.Outcome) Result {
	f, s := q.serverEntry, q.server
	f.note(o)
	n := f.result(wait, o)
	if !n.Refused {
		return n
	}
	if q.place > 0 {
		f.SetInQueue(true)
		n.Again = min(n.Again, s.places.Kept/3)
	}
	if d := s.places.Foreign; d > 0 && remote.IsForeign(n.By.Owner) {
		n.Again = min(n.Again, d)
	}
	if n.By.String {
		n.Again = min(n.Again, remote.Spread(stringPoll))
	}
	if f.ticket == "" {
		f.ticket = s.places.Refusal(o.Reply).Ticket
	}
	return n
}

// stringPoll is the longest pause before a waiter asks again for a lock that is a string, shortened at random by up to a
// half. No message tells of the release of such a lock. Those who take such locks ask about as often.
const stringPoll = 250 * time.Millisecond

// note takes from the end of a question what others make use of, too.
func (f *serverEntry) note(o remote.Outcome) {
	if o.MayArriveLate {
		f.NoteLateCommand()
		f.undoWhenLanded(o)
	}
	f.server.noteClock(o)
}

// result is what an answer means, or that there was none.
func (f *serverEntry) result(wait context.Context, o remote.Outcome) Result {
	switch {
	case o.Err != nil:
		return Result{Err: o.Err, mayArriveLate: o.MayArriveLate, unsent: o.Unsent}
	case o.Reply.Status == lua.Denied:
		by := remote.RefusedBy(f.server.places.Refusal(o.Reply))
		return Result{Refused: true, Sent: o.Sent, By: by, Again: f.server.base.recheck(by.Left)}
	}
	if cause := f.server.base.Over(wait); cause != nil {
		f.NoteLateCommand()
		return Result{Left: cause}
	}
	r := o.Reply.Grant()
	return Result{Granted: true, Sent: o.Sent, Token: r.Token, Last: r.Last}
}

// noteClock notes the server's time where the answer to an acquisition has it.
func (s *oneServer) noteClock(o remote.Outcome) {
	k := &s.client.server.Clock
	if o.Err == nil {
		s.client.way.took(suspend.System.Now().Sub(o.Sent))
	}
	switch {
	case o.Err != nil:
	case o.Reply.Status == lua.Done:
		k.Saw(o.Sent, o.Reply.Grant().Time)
	case s.places.Clock:
		k.Saw(o.Sent, s.places.Refusal(o.Reply).Time)
	}
}

// NewAcquirer is [Backend.NewAcquirer].
func (s *oneServer) NewAcquirer(owner string) Acquirer { return &serverEntry{server: s, id: owner} }
