package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// brief is for how long at least a server is asked when the wait is over: a member may be free, and what
// was granted is given back. A server that answers does so sooner.
const brief = 50 * time.Millisecond

// taking is one call of Lock or TryLock. It is of one goroutine.
type taking struct {
	of    *Mutex
	ctx   context.Context // the caller's, with an owner
	opts  []holdfast.Option
	once  bool
	until time.Time // zero: the wait has no bound of its own

	// have is what is held so far: no member that comes after one that is waited for. The first may
	// be several, joined.
	have []*engine.Hold
	done bool // have has been given back, or is the caller's
	late bool // its time was over before it had its turn: it asks for one member after another, and so for none in vain
	got  bool // all
}

func newTaking(ctx context.Context, m *Mutex, opts []holdfast.Option, once bool) *taking {
	t := &taking{of: m, ctx: engine.Owned(ctx), opts: opts, once: once}
	if ctx.Err() == nil { // if it ends meanwhile, that was not before the call
		t.opts = slices.Concat(opts, []holdfast.Option{engine.Part()})
	}
	if d, ok := engine.Waits(opts); ok && d > 0 {
		t.until = time.Now().Add(d)
	} else if ok {
		t.once = true
	}
	return t
}

// takeTurn waits until no other call of this client asks for these members. The function that it returns ends the turn.
//
// An owner that holds something, or may meanwhile, does not wait here: it re-enters what the call that has the turn may be
// waiting for. Nor does a call that asks once, or one of quorum locks: their votes have turns of their own.
func (t *taking) takeTurn(ctx context.Context) (end func()) {
	m := t.of
	first := m.members[0].client()
	if t.once || len(m.members) == 1 || first == nil || engine.HasOwner(ctx) {
		return func() {}
	}
	turns := turnsOf(first)
	if !turns.enter(ctx, m.name, t.end()) {
		t.late = true
		return func() {}
	}
	began := time.Now()
	return func() {
		took := time.Duration(0)
		if t.got {
			took = time.Since(began)
		}
		turns.leave(m.name, took)
	}
}

// take gets the members of a parcel. It asks for all of them at once. If one is taken by somebody
// else, it gives back those that come after it, waits for that one, and asks for the rest anew.
func (t *taking) take(parcel []member) error {
	for len(parcel) > 0 {
		if len(parcel) == 1 || t.late {
			if err := t.one(parcel[0]); err != nil {
				return err
			}
			parcel = parcel[1:]
			continue
		}
		n, err := t.several(parcel)
		if err == nil {
			return nil
		}
		silent := errors.Is(err, holdfast.ErrUnavailable)
		switch known := silent || errors.Is(err, holdfast.ErrNotAcquired); {
		case known && t.ctx.Err() != nil: // nobody would be asked any more, and this says more
			return errs.WithCause(context.Cause(t.ctx), err)
		case t.once, !known, silent && t.over():
			return err
		}
		if err := t.one(parcel[n]); err != nil {
			return err
		}
		parcel = parcel[n+1:]
	}
	return nil
}

// one gets one member, and waits for it.
func (t *taking) one(m member) error {
	h, err := t.ask(t.under(), m)
	if err != nil {
		return t.in(m, err)
	}
	t.have = append(t.have, h)
	return nil
}

func (t *taking) ask(ctx context.Context, m member) (*engine.Hold, error) {
	if t.once || t.over() { // then it is tried once, it may be free
		return m.granted(m.locker.TryLock(ctx, t.bounded(brief)...))
	}
	return m.granted(m.locker.Lock(ctx, t.bounded(0)...))
}

// over reports whether the time of the call is over.
func (t *taking) over() bool {
	return t.ctx.Err() != nil || !t.until.IsZero() && time.Until(t.until) <= 0
}

// bounded are the options with what is left of Wait, at least so much.
func (t *taking) bounded(least time.Duration) []holdfast.Option {
	if t.until.IsZero() {
		return t.opts
	}
	return append(t.opts[:len(t.opts):len(t.opts)], holdfast.Wait(max(time.Until(t.until), least)))
}

// several asks for some members at the same time, once. It keeps those before the first that is not
// granted, gives back those after it, and says which it is.
func (t *taking) several(members []member) (n int, err error) {
	got := t.together(members)
	n = len(got)
	for i, one := range got {
		if one.hold == nil {
			n = i
			break
		}
		t.have = append(t.have, one.hold)
	}
	var behind []*engine.Hold
	for _, one := range got[n:] {
		if one.hold != nil {
			behind = append(behind, one.hold)
		}
	}
	failed := t.giveBack(behind)
	for _, one := range got[n:] {
		if one.panicked != nil {
			panic(one.panicked)
		}
	}
	if n == len(got) {
		return n, nil
	}
	return n, errs.Join(t.in(members[n], got[n].err), failed)
}

// result is what came of one question of several.
type result struct {
	hold     *engine.Hold
	err      error
	panicked any
}

// together asks for members, each in a goroutine of its own, and returns when all have an answer.
func (t *taking) together(members []member) []result {
	got, under, opts := make([]result, len(members)), t.under(), t.bounded(brief)
	group := combine.NewGroup(len(members))
	var running sync.WaitGroup
	for i, m := range members {
		ctx, leave := under, func() {}
		if m.sharesPipeline() {
			with, own := group.Member(under)
			ctx, leave = with, own.Done
		}
		run := func() {
			defer leave()
			defer func() { got[i].panicked = recover() }() // a hook's; it goes on in the caller's goroutine
			got[i].hold, got[i].err = m.granted(m.locker.TryLock(ctx, opts...))
		}
		if i < len(members)-1 {
			running.Go(run)
		} else {
			run()
		}
	}
	running.Wait()
	return got
}

// under is the context for the next members. It ends if one that is held is lost.
func (t *taking) under() context.Context {
	switch len(t.have) {
	case 0:
		return t.ctx
	case 1:
	default:
		t.have = []*engine.Hold{engine.Join(kindName, t.of.name, t.have...)}
	}
	return t.have[0].Context()
}

// keep leaves what is held to the caller.
func (t *taking) keep() { t.done, t.got = true, true }

// finish gives back what is held, if nobody has seen to it.
func (t *taking) finish() {
	if !t.done {
		_ = t.giveUp(nil)
	}
}

// giveUp gives back what is held, before the error is returned.
func (t *taking) giveUp(why error) error {
	t.done = true
	return errs.Join(why, t.giveBack(t.have))
}

// giveBack gives holds back at the same time. The error is that of those that may be left. None is waited for longer
// than the call may last.
func (t *taking) giveBack(holds []*engine.Hold) error {
	if len(holds) == 0 {
		return nil
	}
	err := engine.Join(kindName, t.of.name, holds...).GiveBackBy(t.ctx, t.end())
	if silent := errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrUncertain); silent && !t.over() {
		return fmt.Errorf("while giving back: %w", err)
	}
	// All is given back, or was before: the client was closed, or the hold lost. Or the time of the call was over before
	// there was an answer, which says nothing of the servers: then it goes on in the background.
	return nil
}

// end is when the call has to return; zero: it may take any time.
func (t *taking) end() time.Time {
	end, ok := t.ctx.Deadline()
	if !t.until.IsZero() && (!ok || t.until.Before(end)) {
		return t.until
	}
	return end
}

// in says which member's an error is: it does so itself, unless somebody has wrapped the lock.
func (t *taking) in(m member, err error) error {
	if of := (*holdfast.Error)(nil); errors.As(err, &of) {
		return err
	}
	return fmt.Errorf("%s %s: %w", m.kind, printable.Quote(m.name), err)
}
