package election

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// maxValue is how long a value may be. It is read by each observer after each change, and a server
// serves nobody else while it copies one.
const maxValue = 64 << 10

// term is one campaign, and what came of it.
type term struct {
	base  *engine.Lock
	hold  *engine.Hold // nil before it was won
	outer *term        // whose context it was campaigned under; nil: none
}

// leads reports whether the leadership lasts, by the clock of this process.
func (t *term) leads() bool { return t.hold.Deadline().After(time.Now()) }

// termKey finds the term that a context belongs to.
type termKey struct{}

func termOf(ctx context.Context) *term {
	t, _ := ctx.Value(termKey{}).(*term)
	return t
}

// leadsIn reports whether the context belongs to a leader of this election.
func (e *Election) leadsIn(ctx context.Context) bool {
	for t := termOf(ctx); t != nil; t = t.outer {
		if t.base.Client == e.base.Client && t.base.Key == e.base.Key && t.hold != nil && t.leads() {
			return true
		}
	}
	return false
}

// Campaign waits until this candidate leads, and returns the hold of its leadership. Hold.Unlock
// resigns. Hold.Context is for the leader's work: it ends when the leadership does.
// [Election.Leader] and [Election.Observe] report value to others, such as the address of the
// leader. value has at most 64 KiB, and may be empty.
//
// Each campaign is a candidate of its own, even under a context with an owner. opts are those of a
// lock. The context bounds the wait, and so does [holdfast.Wait]. A campaign that returns an error
// is no longer a candidate.
//
// Errors:
//   - [holdfast.ErrNotAcquired] if the wait ended first and somebody else leads;
//   - [holdfast.ErrUnavailable] if Redis did not say who leads, or did not answer when the leader
//     announced itself;
//   - [holdfast.ErrLost] if the leadership ended before it was announced;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument, and for a context of a leader of this election,
//     which would wait for itself;
//   - [holdfast.ErrNotReplicated], only with [holdfast.Replicas];
//   - otherwise an error of Redis.
//
// With the first two, errors.Is is also true for the cause of the context. After any error this
// candidate does not lead: it gives back a leadership that it may have won.
func (e *Election) Campaign(ctx context.Context, value string, opts ...holdfast.Option) (*holdfast.Hold, error) {
	if err := e.check("campaign"); err != nil {
		return nil, err
	}
	h, err := e.campaign(ctx, value, opts)
	return (*holdfast.Hold)(h), e.fail("campaign", err)
}

// campaign is Campaign, with the reason only.
func (e *Election) campaign(ctx context.Context, value string, opts []holdfast.Option) (*engine.Hold, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	if len(value) > maxValue {
		return nil, errs.Invalid("value has %d bytes; use at most %d, such as the address where the rest can be asked for",
			len(value), maxValue)
	}
	if e.leadsIn(ctx) {
		return nil, errs.Invalid("ctx is that of the leader of %q, which would wait for itself; resign first, or use another context",
			e.Name())
	}
	t, end := &term{base: e.base, outer: termOf(ctx)}, e.base.EndOf(ctx, opts)
	h, err := e.base.Lock(context.WithValue(ctx, termKey{}, t), opts...)
	if err != nil {
		return nil, err
	}
	announced := false
	defer func() {
		if !announced { // or a hook of go-redis has panicked
			// Its own error would only repeat what is known: if nobody answers, the release goes on
			// in the background.
			_ = h.GiveBackBy(ctx, end)
		}
	}()
	if err := e.announce(ctx, h, value, end); err != nil {
		return nil, err
	}
	announced, t.hold = true, h
	e.note(t)
	return h, nil
}

// announce tells others who leads now. It goes on for as long as the retry budget says, and no
// longer than the leadership lasts, or the call may.
func (e *Election) announce(ctx context.Context, h *engine.Hold, value string, end time.Time) error {
	under := h.Context()
	if !end.IsZero() {
		left := max(time.Until(end), leastAnnounced, 2*e.base.Client.RoundTrip())
		limited, cancel := context.WithDeadlineCause(under, time.Now().Add(left), errNotInTime)
		defer cancel()
		under = limited
	}
	lease := e.base.Client.DefaultLease()
	if left := time.Until(h.Deadline()); left > lease {
		lease = left
	}
	token := strconv.FormatUint(h.Token(), 10)
	o, err := e.base.Query(under, engine.Changes, func(publish string) lua.Call {
		return e.wire.announce(h.Owner(), token, value, lease, publish)
	})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(context.Cause(h.Context()), errs.ErrLost):
		return errs.Both(errs.ErrLost, err)
	case err != nil:
		return err
	case o.Reply.Status != lua.Done:
		return errs.Both(errs.ErrLost, errNotAnnounced)
	case o.Reply.Unannounced() != "":
		return errs.Both(errors.New("others cannot learn of the leader; permit this user to publish on "+e.wire.channel),
			errors.New(o.Reply.Unannounced()))
	}
	e.wire.announced(h.Owner(), token, value)
	return nil
}

// leastAnnounced is how long an answer to the announcement is waited for at least, and two round trips if these take
// longer: the leadership may be granted when the time of the call is nearly over.
const leastAnnounced = 50 * time.Millisecond

var errNotInTime = errors.New("the leadership could not be announced within the time of the call")

var errNotAnnounced = errors.New("the leadership ended before it was announced")

// note makes a term the one that IsLeader looks at, unless a later one was noted meanwhile, and lasts.
// (Tokens alone do not say which is the later one: they may go back where the server lost the last
// ones, and its clock was set back.)
func (e *Election) note(t *term) {
	for {
		last := e.leader.Load()
		if last != nil && last.hold.Token() > t.hold.Token() && last.leads() || e.leader.CompareAndSwap(last, t) {
			return
		}
	}
}

// ask asks who leads. The zero Leader is nobody.
func (e *Election) ask(ctx context.Context) (l Leader, err error) {
	o, err := e.base.Query(ctx, engine.Reads, func(string) lua.Call { return e.wire.leader() })
	if err != nil || o.Reply.Status != lua.Done {
		return l, err
	}
	r := o.Reply.Leader()
	l = Leader{Value: r.Value, Owner: remote.OwnerIn(r.Owner), Remaining: time.Duration(r.Millis) * time.Millisecond}
	l.Token, err = strconv.ParseUint(r.Token, 10, 64)
	return l, err
}
