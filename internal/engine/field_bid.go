package engine

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/kind"
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
	before := f.isStray() // one of the attempts before this one may be what is in our way
	run := func(ctx context.Context, failed *atomic.Pointer[error]) Outcome {
		op := func(again bool) lua.Call {
			return s.protocol.Acquire(kind.Ask{
				Owner: f.id, Lease: a.Want.Stands(), Again: again || before, Place: a.place, Publish: c.publish,
				Tokens: a.Tokens, Until: c.clock.Limit(), HeadStart: a.headStart, Ends: a.ends,
			})
		}
		if a.Once {
			return c.RepeatOnce(ctx, op, failed)
		}
		return c.repeat(ctx, op, failed)
	}
	// A caller that left in the middle of it may have been granted the lock: late gives it back, as soon as that is known.
	o, ok := c.callNoting(wait, run, a.Failed, func(o Outcome) {
		if before || o.Stray || a.place || o.Err == nil && o.Reply.Status == lua.Done {
			f.Undo(a.Want.Stands(), true)
		}
	})
	if !ok {
		f.leaveUndo()
		return Result{Left: context.Cause(wait)}
	}
	if o.Stray {
		f.markStray()
	}
	s.noteClock(o)
	switch {
	case o.Err != nil:
		return Result{Err: o.Err, stray: o.Stray}
	case o.Reply.Status == lua.Denied:
		return f.refused(o, a.place)
	}
	if cause := s.base.Over(wait); cause != nil {
		f.markStray()
		return Result{Left: cause}
	}
	return Result{Granted: true, Sent: o.Sent, Token: o.Reply.Text(0), Last: o.Reply.Text(1)}
}

// refused reads a refusal, of an attempt that may have asked for a place.
func (f *field) refused(o Outcome, place bool) Result {
	s, fields := f.server, 1
	if s.queuer != nil {
		fields = 3
	}
	n := Result{Refused: true, By: refusedBy(o.Reply, fields)}
	n.Again = s.base.recheck(n.By.Left)
	if place {
		n.at = s.client.lines.sync(s.base.Key, o.Sent, o.Reply.Text(1))
		n.foreign = o.Reply.Int(2) == 1
	}
	return n
}

// noteClock notes the server's time where the answer to an acquisition has it.
func (s *oneServer) noteClock(o Outcome) {
	k := &s.client.clock
	if o.Err == nil {
		s.client.way.took(suspend.System.Now().Sub(o.Sent))
	}
	switch {
	case o.Err != nil:
	case o.Reply.Status == lua.Done:
		k.Saw(o.Sent, cmp.Or(o.Reply.Text(2), o.Reply.Text(0)))
	case s.queuer != nil:
		k.Saw(o.Sent, o.Reply.Text(1))
	}
}
