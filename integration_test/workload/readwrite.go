package workload

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/rwlock"
)

// ReadWriter is one goroutine of read-write locks: it reads, writes, re-enters, downgrades, and is refused upgrades.
type ReadWriter struct {
	*Actor
	grants int // so far, to tell them apart
}

// Run does rounds until ctx ends or the client is closed. What is locked then is unlocked.
func (a *ReadWriter) Run(ctx context.Context) { a.again(ctx, a.round) }

// session is what an owner has of a lock: it reads, writes, or both.
type session struct {
	*ReadWriter
	m           *rwlock.RWMutex
	owner       context.Context // that all is locked under
	write, read *tenure         // nil: it does not
	both        bool            // it has read while it wrote: its leases are one then
	closed      bool
}

func (a *ReadWriter) round(ctx context.Context) bool {
	if a.owner == nil || a.rng.IntN(3) == 0 { // an owner of its own for some rounds
		a.owner = holdfast.WithOwner(ctx)
	}
	owner, cancel := context.WithCancel(context.WithValue(a.owner, actorKey{}, a.Actor))
	defer cancel()
	s := &session{ReadWriter: a, m: rwlock.New(a.c, a.Name(a.rng)), owner: owner}
	if s.begin(a.rng.IntN(3) > 0, cancel); s.closed {
		return false
	}
	for range a.rng.IntN(5) {
		if s.idle() {
			break
		}
		Sleep(s.held().Context(), a.random(a.Hold))
		s.act()
	}
	s.leave(ctx, true)
	s.leave(ctx, false)
	return !s.closed
}

func (s *session) idle() bool { return s.read == nil && s.write == nil }

// held is one of its holds.
func (s *session) held() held {
	if s.write != nil {
		return s.write.holds[0]
	}
	return s.read.holds[0]
}

// side is one of them as a lock, and its grant.
func (s *session) side(shared bool) (holdfast.Locker, **tenure) {
	if shared {
		return s.m.RLocker(), &s.read
	}
	return s.m, &s.write
}

// begin tries to get a side. cancel ends its context, so it is only for the first; nil: it waits.
func (s *session) begin(shared bool, cancel func()) {
	m, at := s.side(shared)
	s.both = s.both || s.write != nil // whether it is granted or not
	s.grants++
	op := history.Op{Of: history.ReadWrite, Name: s.m.Name(), Kind: history.Lock, Shared: shared, Grant: s.grants, Owner: s.writer()}
	opts := s.options(&op)
	stop := func() {}
	if cancel != nil {
		op, opts, stop = s.impatient(op, opts, cancel)
	} else {
		opts = append(opts, holdfast.Wait(s.Patience))
	}
	defer stop()
	h, err := s.attempt(s.owner, op, m, opts)
	s.closed = s.closed || errors.Is(err, holdfast.ErrClosed)
	if err == nil {
		*at = s.take(h, op)
	}
}

// writer is the name by which the owner writes, or empty. It may read by another, of a call under way; for checks it is one.
func (s *session) writer() string {
	if s.write == nil {
		return ""
	}
	return s.write.holds[0].Owner()
}

// take takes up a grant.
func (s *session) take(h *holdfast.Hold, op history.Op) *tenure {
	t := &tenure{Actor: s.Actor, of: history.Op{Of: op.Of, Name: op.Name, Shared: op.Shared, Grant: op.Grant}}
	if op.Owner != h.Owner() {
		t.of.Owner = op.Owner
	}
	t.add(held{h, op.Plain})
	return t
}

// act does something that a holder does.
func (s *session) act() {
	shared := s.write == nil || s.read != nil && s.rng.IntN(2) == 0
	_, at := s.side(shared)
	t := *at
	switch {
	case s.rng.IntN(4) == 0:
		s.look()
	case s.rng.IntN(6) == 0:
		t.extend(t.holds[0].Context())
	case s.read == nil && s.rng.IntN(2) == 0:
		s.begin(true, nil) // what it writes
	case s.write == nil && s.rng.IntN(4) == 0:
		s.upgrade()
	case s.write != nil && s.read != nil && s.rng.IntN(2) == 0:
		s.leave(s.owner, false) // and goes on reading
	case len(t.holds) > 1 && s.rng.IntN(2) == 0:
		t.unlock(s.owner, t.any())
	default:
		s.reenter(shared)
	}
	if !s.idle() {
		s.look()
	}
}

// reenter locks a side once more. Where its grant was lost meanwhile that is a new one, recorded and given back as such.
func (s *session) reenter(shared bool) {
	m, at := s.side(shared)
	t := *at
	op := t.op(history.Reenter, t.holds[0])
	opts := append(s.options(&op), holdfast.Wait(s.Patience))
	op.Plain = op.Plain && t.plain()
	s.more(t, op, func(ctx context.Context) (*holdfast.Hold, error) { return m.Lock(ctx, opts...) })
}

// upgrade tries to write under a hold to read.
func (s *session) upgrade() {
	op := s.read.op(history.Upgrade, s.read.holds[0])
	s.more(nil, op, func(ctx context.Context) (*holdfast.Hold, error) { return s.m.Lock(ctx, holdfast.Wait(s.Patience)) })
}

// more locks under what the owner has. The hold is one more of a grant, or else a new grant, which is given back.
func (s *session) more(t *tenure, op history.Op, lock func(context.Context) (*holdfast.Hold, error)) {
	ctx, asked := asking(s.owner)
	s.grants++
	call := s.rec.Begin(op)
	h, err := survived(func() (*holdfast.Hold, error) { return lock(ctx) })
	fresh := err == nil && (t == nil || h.Count() == 1 || h.Token() != t.holds[0].Token())
	call.End(func(o *history.Op) {
		note(o, err)
		o.Asked = asked()
		if fresh && s.ended(op.Shared) {
			o.Kind, o.Shared, o.Owner, o.Token, o.Grant = history.Lock, op.Kind == history.Reenter && op.Shared, h.Owner(), h.Token(), s.grants
			if o.Shared {
				o.Owner = cmp.Or(s.writer(), o.Owner)
			}
			o.Deadline = s.until(h)
		}
		op = *o
	})
	switch {
	case err != nil:
		s.closed = s.closed || errors.Is(err, holdfast.ErrClosed)
	case fresh:
		s.take(h, op).leave(s.owner)
	default:
		t.add(held{h, op.Plain})
	}
}

// ended reports whether the grant of a side is over, so that another one may follow.
func (s *session) ended(shared bool) bool {
	_, at := s.side(shared)
	return !time.Now().Before((*at).holds[0].Deadline()) || (*at).holds[0].Context().Err() != nil
}

// look asks the server who has the lock. The answer counts as that of a state of other locks does.
func (s *session) look() {
	t := s.write
	if t == nil {
		t = s.read
	}
	h := t.holds[0]
	call := s.rec.Begin(t.op(history.State, h))
	state, err := survived(func() (rwlock.State, error) { return s.m.State(h.Context()) })
	call.End(func(o *history.Op) {
		note(o, err)
		for _, other := range state.Holders {
			if state.Writing == o.Shared || o.Seen != "" && other.Owner != h.Owner() {
				continue
			}
			o.Seen, o.Depth, o.Left = other.Owner, other.Count, int64(other.Remaining)
			if other.Owner == h.Owner() {
				o.Seen = o.Owner
			}
		}
		if s.both && !o.Shared {
			o.Left = 0
		}
		if h.Context().Err() != nil || !time.Now().Before(h.Deadline()) {
			o.Result = history.Unknown
		}
	})
}

// leave gives back a side, if the owner has it.
func (s *session) leave(ctx context.Context, shared bool) {
	if _, at := s.side(shared); *at != nil {
		(*at).leave(ctx)
		*at = nil
	}
}

// Writer is the side of a read-write lock that excludes everybody, as a lock with one holder.
type Writer struct{ *rwlock.RWMutex }

// State is that of a lock with one holder.
func (w Writer) State(ctx context.Context) (holdfast.State, error) {
	s, err := w.RWMutex.State(ctx)
	state := holdfast.State{Token: s.Token, Waiters: s.Waiters}
	for _, h := range s.Holders {
		state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
	}
	return state, err
}
