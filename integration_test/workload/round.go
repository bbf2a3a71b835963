package workload

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/rlock"
)

// round is one grant, from its Lock to its last Unlock.
type round struct {
	*Actor
	m     Locker
	holds []*holdfast.Hold // oldest first

	// Re-entries are made under again. In nested rounds that is the first hold's context, and theirs end with it; that hold
	// is then unlocked last, or else nobody would see why the others end.
	again  context.Context
	nested bool

	end   sync.Once      // the end of the grant, if it ended by itself, is recorded by the first hold that sees it
	group sync.WaitGroup // those that look out for it
	stops []func() bool
}

func (a *Actor) begin(again context.Context, m Locker, h *holdfast.Hold, nested bool) *round {
	r := &round{Actor: a, m: m, again: again, nested: nested}
	r.add(h)
	return r
}

// add takes up a hold and looks out for its end.
func (r *round) add(h *holdfast.Hold) {
	r.holds = append(r.holds, h)
	r.group.Add(1)
	r.stops = append(r.stops, context.AfterFunc(h.Context(), func() {
		defer r.group.Done()
		o := r.op(history.End, h)
		note(&o, context.Cause(h.Context()))
		o.Deadline = r.Now() + int64(time.Until(h.Deadline()))
		if o.Result != history.Lost && o.Result != history.Closed {
			return // unlocked, which is recorded, or the caller's context ended, and the lock is held on
		}
		r.end.Do(func() { r.rec.Note(o) })
	}))
}

func (r *round) op(kind history.Kind, h *holdfast.Hold) history.Op {
	return history.Op{Client: r.client, Actor: r.number, Name: r.m.Name(), Kind: kind, Owner: h.Owner(), Token: h.Token()}
}

// act does something that a holder does.
func (r *round) act(ctx context.Context) {
	switch inner := len(r.holds) - 1; {
	case r.rng.IntN(3) == 0:
		r.look(ctx)
	case r.rng.IntN(6) == 0:
		r.extend(ctx)
	case inner > 0 && r.rng.IntN(2) == 0:
		r.unlock(ctx, r.any())
		r.look(r.holds[0].Context())
	default:
		r.reenter()
		r.look(ctx)
	}
}

// reenter locks once more. If the grant is lost meanwhile, and it is not its hold's context under which it locks, that is a
// grant of its own, recorded and given back as such.
func (r *round) reenter() {
	call := r.rec.Begin(r.op(history.Reenter, r.holds[0]))
	h, err := r.m.Lock(r.again, holdfast.Wait(r.Patience))
	fresh := err == nil && h.Token() != r.holds[0].Token()
	call.End(func(o *history.Op) {
		note(o, err)
		if fresh {
			o.Kind, o.Owner, o.Token = history.Lock, h.Owner(), h.Token()
			o.Deadline = r.Now() + int64(time.Until(h.Deadline()))
		}
	})
	switch {
	case fresh:
		(&round{Actor: r.Actor, m: r.m, holds: []*holdfast.Hold{h}}).leave(r.again)
	case err == nil:
		r.add(h)
	}
}

func (r *round) extend(ctx context.Context) {
	lease := time.Duration(0)
	if len(r.Leases) > 0 {
		lease = r.Leases[r.rng.IntN(len(r.Leases))]
	}
	if lease == 0 {
		return
	}
	call := r.rec.Begin(r.op(history.Extend, r.holds[0]))
	err := r.holds[0].Extend(ctx, lease)
	call.End(func(o *history.Op) { note(o, err) })
}

// look asks the server who holds the lock. The answer counts only while the hold is trusted at both ends of the call: a
// holder that was lost meanwhile would find another owner, which is no contradiction.
func (r *round) look(ctx context.Context) {
	call := r.rec.Begin(r.op(history.State, r.holds[0]))
	s, err := r.m.State(ctx)
	call.End(func(o *history.Op) {
		note(o, err)
		o.Depth, o.Seen = s.Count, s.Owner
		if ctx.Err() != nil || !time.Now().Before(r.holds[0].Deadline()) {
			o.Result = history.Unknown
		} else if err == nil && !r.explains(s, o) {
			o.Depth = 0 // not ours although it is trusted: no count of ours explains that
			o.Error = "the server names " + s.Owner
		}
	})
}

// explains tells whether what the server says can be said of the holder of an operation. Where a lock is handed on within a client
// it may still name the holder before, and its last token is the last of those that were reserved.
func (r *round) explains(s holdfast.State, o *history.Op) bool {
	client, _, _ := strings.Cut(o.Owner, ":")
	if _, hands := r.m.(*rlock.Mutex); hands {
		return strings.HasPrefix(s.Owner, client+":") && (s.Token == 0 || s.Token >= o.Token && s.Token < o.Token+4096)
	}
	return s.Owner == o.Owner && (s.Token == 0 || s.Token == o.Token)
}

// leave unlocks all holds, in random order.
func (r *round) leave(ctx context.Context) {
	for len(r.holds) > 0 {
		r.unlock(ctx, r.any())
	}
	for _, stop := range r.stops {
		if stop() {
			r.group.Done()
		}
	}
	r.group.Wait()
}

// any is the number of the hold to be unlocked next.
func (r *round) any() int {
	if r.nested && len(r.holds) > 1 {
		return 1 + r.rng.IntN(len(r.holds)-1)
	}
	return r.rng.IntN(len(r.holds))
}

// unlock gives a hold back, under a context that is cancelled already in one case of four.
func (r *round) unlock(ctx context.Context, i int) {
	if r.rng.IntN(4) == 0 {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		ctx = gone
	}
	h := r.holds[i]
	r.holds = append(r.holds[:i:i], r.holds[i+1:]...)
	op := r.op(history.Unlock, h)
	op.Last = len(r.holds) == 0
	op.Deadline = r.Now() + int64(time.Until(h.Deadline()))
	call := r.rec.Begin(op)
	err := h.Unlock(ctx)
	call.End(func(o *history.Op) { note(o, err) })
}
