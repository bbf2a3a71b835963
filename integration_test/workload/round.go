package workload

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/rlock"
)

// round is one grant, and what its holder does.
type round struct {
	tenure
	m Locker

	// Re-entries are made under again. In nested rounds that is the first hold's context, and
	// theirs end with it.
	again context.Context
}

func (a *Actor) begin(again context.Context, m Locker, h *holdfast.Hold, nested, plain bool) *round {
	r := &round{tenure: tenure{Actor: a, of: history.Op{Name: m.Name()}, nested: nested}, m: m, again: again}
	r.add(held{h, plain})
	return r
}

// act does something that a holder does.
func (r *round) act(ctx context.Context) {
	switch inner := len(r.holds) - 1; {
	case r.rng.IntN(3) == 0:
		r.look(ctx)
	case r.rng.IntN(6) == 0:
		r.extend(ctx)
		r.look(ctx)
	case r.Other != nil && r.rng.IntN(12) == 0:
		r.mix()
	case inner > 0 && r.rng.IntN(2) == 0:
		r.unlock(ctx, r.any())
		r.look(r.holds[0].Context())
	default:
		r.reenter()
		r.look(ctx)
	}
}

// reenter locks once more. If the grant is lost meanwhile, and it is not its hold's context under
// which it locks, that is a grant of its own, recorded and given back as such.
func (r *round) reenter() {
	op := r.op(history.Reenter, r.holds[0])
	opts := append(r.options(&op), holdfast.Wait(r.Patience))
	// Into a renewed hold it stays renewed.
	op.Plain = op.Plain && r.plain()
	ctx, asked := asking(r.again)
	call := r.rec.Begin(op)
	h, err := survived(func() (*holdfast.Hold, error) { return r.m.Lock(ctx, opts...) })
	fresh := err == nil && h.Token() != r.holds[0].Token()
	call.End(func(o *history.Op) {
		note(o, err)
		o.Asked = asked()
		if fresh {
			o.Kind, o.Owner, o.Token = history.Lock, h.Owner(), h.Token()
			o.Deadline = r.until(h)
		}
	})
	switch {
	case fresh:
		(&tenure{Actor: r.Actor, of: r.of, holds: []held{{h, op.Plain}}}).leave(r.again)
	case err == nil:
		r.add(held{h, op.Plain})
	}
}

// mix tries another kind of lock on the name, as the same owner. It is refused as long as this one
// is held.
func (r *round) mix() {
	ctx, asked := asking(r.holds[0].Context())
	call := r.rec.Begin(r.op(history.Mixed, r.holds[0]))
	h, err := survived(func() (*holdfast.Hold, error) { return r.Other(r.m.Name()).TryLock(ctx) })
	call.End(func(o *history.Op) {
		note(o, err)
		o.Asked = asked()
	})
	if err == nil { // which is wrong, or it was lost meanwhile
		_ = survive(func() error { return h.Unlock(r.again) })
	}
}

// look asks the server who holds the lock. The answer counts only while the hold is trusted at both
// ends of the call: a holder that was lost meanwhile would find another owner, which is no
// contradiction.
func (r *round) look(ctx context.Context) {
	call := r.rec.Begin(r.op(history.State, r.holds[0]))
	s, err := survived(func() (holdfast.State, error) { return r.m.State(ctx) })
	call.End(func(o *history.Op) {
		note(o, err)
		o.Depth, o.Seen, o.Left = s.Count, s.Owner, int64(s.Remaining)
		if ctx.Err() != nil || !time.Now().Before(r.holds[0].Deadline()) {
			o.Result = history.Unknown
		} else if err == nil && !r.explains(s, o) {
			o.Depth = 0 // not ours although it is trusted: no count of ours explains that
			o.Error = "the server names " + s.Owner
		}
	})
}

// explains reports whether what the server says can be said of the holder of an operation. Where a
// lock is handed off within a client, its last token is the last of those that were reserved.
func (r *round) explains(s holdfast.State, o *history.Op) bool {
	last := o.Token
	m := r.m
	if c, ok := m.(counted); ok {
		m = c.Locker
	}
	switch m.(type) {
	case *rlock.Mutex:
		last += 4096
	case *fairlock.Mutex:
		last += 63 // the others of the longest run
	}
	return s.Owner == o.Owner && (s.Token == 0 || s.Token >= o.Token && s.Token <= last)
}

// Collect locks many names at once as one owner, some of them twice, calls hold, and unlocks what
// it has. Names are locked by a goroutine each, whose numbers begin with the actor's and which draw
// from sources of their own. It is false when the client was closed.
func Collect(ctx context.Context, cfg Config, rec *history.Recorder, client, actor int, names []string,
	source func(i int) *rand.Rand,
	hold func(context.Context),
) bool {
	owner := holdfast.WithOwner(ctx)
	rounds := make([]*round, len(names))
	each := func(do func(i int)) {
		var group sync.WaitGroup
		defer group.Wait()
		for i := range names {
			group.Go(func() { do(i) })
		}
	}
	each(func(i int) { rounds[i] = New(cfg, rec, client, actor+i, source(i)).collect(owner, names[i]) })
	hold(ctx)
	each(func(i int) {
		if r := rounds[i]; r != nil {
			r.leave(ctx)
		}
	})
	return ctx.Err() == nil
}

// collect locks a name under a context that carries an owner, perhaps twice. Nothing comes of it if
// that fails.
func (a *Actor) collect(owner context.Context, name string) *round {
	ctx, cancel := context.WithCancel(context.WithValue(owner, actorKey{}, a)) //nolint:gosec // ends with the owner's; it outlives this call
	m := a.Lock(name)
	h, plain, err := a.lock(ctx, cancel, m, name)
	if err != nil {
		cancel()
		return nil
	}
	r := a.begin(ctx, m, h, false, plain)
	if a.rng.IntN(4) == 0 {
		r.reenter()
	}
	return r
}
