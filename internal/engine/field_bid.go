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

var _ bid = (*field)(nil)

// entry is [bid.entry].
func (f *field) entry() entry { return f }

// live is [bid.live].
func (f *field) live(*watchdog.Lease) {}

// ask is [bid.ask]: it asks the server once.
func (f *field) ask(a attempt) result {
	s, c, wait := f.server, f.server.client, a.wait
	before := f.isStray() // one of the attempts before this one may be what is in our way
	run := func(ctx context.Context, failed *atomic.Pointer[error]) outcome {
		op := func(again bool) lua.Call {
			return s.protocol.Acquire(kind.Ask{
				Owner: f.id, Lease: a.want.stands(), Again: again || before, Place: a.place, Publish: c.publish,
				Tokens: a.tokens, Until: c.clock.limit(), HeadStart: a.headStart, Ends: a.ends,
			})
		}
		if a.once {
			return once{c}.repeat(ctx, op, failed)
		}
		return c.repeat(ctx, op, failed)
	}
	// A caller that left in the middle of it may have been granted the lock: late gives it back, as soon as that is known.
	o, ok := c.callNoting(wait, run, a.failed, func(o outcome) {
		if before || o.stray || a.place || o.err == nil && o.reply.Status == lua.Done {
			f.undo(a.want.stands(), true)
		}
	})
	if !ok {
		f.leaveUndo()
		return result{left: context.Cause(wait)}
	}
	if o.stray {
		f.markStray()
	}
	s.noteClock(o)
	switch {
	case o.err != nil:
		return result{err: o.err, stray: o.stray}
	case o.reply.Status == lua.Denied:
		return f.refused(o, a.place)
	}
	if cause := s.base.over(wait); cause != nil {
		f.markStray()
		return result{left: cause}
	}
	return result{granted: true, sent: o.sent, token: o.reply.Text(0), last: o.reply.Text(1)}
}

// refused reads a refusal, of an attempt that may have asked for a place.
func (f *field) refused(o outcome, place bool) result {
	s, fields := f.server, 1
	if s.queuer != nil {
		fields = 3
	}
	n := result{refused: true, by: refusedBy(o.reply, fields)}
	n.again = s.base.recheck(n.by.left)
	if place {
		n.at = s.client.lines.sync(s.base.key, o.sent, o.reply.Text(1))
		n.foreign = o.reply.Int(2) == 1
	}
	return n
}

// noteClock notes the server's time where the answer to an acquisition has it.
func (s *oneServer) noteClock(o outcome) {
	k := &s.client.clock
	if o.err == nil {
		s.client.way.took(suspend.System.Now().Sub(o.sent))
	}
	switch {
	case o.err != nil:
	case o.reply.Status == lua.Done:
		k.saw(o.sent, cmp.Or(o.reply.Text(2), o.reply.Text(0)))
	case s.queuer != nil:
		k.saw(o.sent, o.reply.Text(1))
	}
}
