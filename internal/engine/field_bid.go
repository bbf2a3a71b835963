package engine

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

var _ Bid = (*field)(nil)

// Entry is [Bid.Entry].
func (f *field) Entry() Entry { return f }

// Live is [Bid.Live].
func (f *field) Live(*watchdog.Lease) {}

// Ask is [Bid.Ask]: it asks the server once.
func (f *field) Ask(a Attempt) Result {
	s, c, wait := f.server, f.server.client, a.Wait
	place := time.Duration(0)
	if !a.Once && s.places.Kept > 0 {
		place = s.base.PlaceFor(wait)
	}
	before := f.IsStray() // one of the attempts before this one may be what is in our way
	run := func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		op := func(again bool) lua.Call {
			return s.protocol.Acquire(kind.Ask{
				Owner: f.id, Lease: a.Want.Stands(), Again: again || before, Publish: c.server.Publish,
				Tokens: a.Tokens, Until: c.server.Clock.Limit(), HeadStart: a.headStart, Ends: a.ends, Place: place,
				Ticket: f.ticket, Count: a.Want.Count, Beside: a.beside, Strings: a.Want.strings,
			})
		}
		if a.Once {
			return c.session.RepeatOnce(ctx, c.server, op, failed)
		}
		return c.session.Repeat(ctx, c.server, op, failed)
	}
	// A caller that left in the middle of it may have been granted the lock, or have a place among those
	// who wait: late gives that back, as soon as it is known, unless somebody stands behind.
	var late chan Result
	if a.Lasts {
		late = make(chan Result, 1)
	}
	o, ok := c.session.CallPromptly(wait, c.server, run, a.Failed, func(o remote.Outcome) {
		if a.Lasts {
			late <- f.outcome(context.Background(), place > 0, o)
			return
		}
		f.left()
		stray := before || o.Stray || o.Err == nil && o.Reply.Status == lua.Done
		if stray || place > 0 {
			f.Undo(a.Want.Stands(), stray)
		}
	})
	switch {
	case ok && a.Lasts:
		n := f.outcome(context.Background(), place > 0, o)
		if cause := s.base.Over(wait); cause != nil && n.Granted {
			late <- n
			return Result{Left: cause, Late: late}
		}
		return n
	case ok:
		return f.outcome(wait, place > 0, o)
	case a.Lasts:
		return Result{Left: context.Cause(wait), Late: late}
	}
	f.leave(a.Want.Stands())
	return Result{Left: context.Cause(wait)}
}

// outcome is what the end of a question means for one who waits so long, and who may have a place now.
func (f *field) outcome(wait context.Context, place bool, o remote.Outcome) Result {
	s := f.server
	f.note(o)
	n := f.result(wait, o)
	if !n.Refused {
		return n
	}
	if place {
		f.SetPlaced(true)
		n.Again = min(n.Again, s.places.Kept/3)
	}
	if d := s.places.Foreign; d > 0 && remote.IsForeign(n.By.Owner) {
		n.Again = min(n.Again, d)
	}
	if n.By.String {
		n.Again = min(n.Again, remote.Spread(stringPoll))
	}
	if i := s.places.Ticket; i > 0 && f.ticket == "" {
		f.ticket = o.Reply.Text(i)
	}
	return n
}

// stringPoll is after how long at most who waits for a lock that is a string looks again, shortened at
// random by up to a half. Such a lock is released untold. Those who take such locks ask for them about as
// often themselves.
const stringPoll = 250 * time.Millisecond

// note takes from the end of a question what others make use of, too.
func (f *field) note(o remote.Outcome) {
	if o.Stray {
		f.MarkStray()
	}
	f.server.noteClock(o)
}

// result is what an answer means, or that there was none.
func (f *field) result(wait context.Context, o remote.Outcome) Result {
	switch {
	case o.Err != nil:
		return Result{Err: o.Err, stray: o.Stray, unsent: o.Unsent}
	case o.Reply.Status == lua.Denied:
		by := remote.RefusedBy(o.Reply, f.server.places.Fields)
		return Result{Refused: true, Sent: o.Sent, By: by, Again: f.server.base.recheck(by.Left)}
	}
	if cause := f.server.base.Over(wait); cause != nil {
		f.MarkStray()
		return Result{Left: cause}
	}
	return Result{Granted: true, Sent: o.Sent, Token: o.Reply.Text(0), Last: o.Reply.Text(1)}
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
		k.Saw(o.Sent, cmp.Or(o.Reply.Text(2), o.Reply.Text(0)))
	case s.places.Clock > 0:
		k.Saw(o.Sent, o.Reply.Text(s.places.Clock))
	}
}

// NewBid is [Backend.NewBid].
func (s *oneServer) NewBid(owner string) Bid { return &field{server: s, id: owner} }
