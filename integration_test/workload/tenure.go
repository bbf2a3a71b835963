package workload

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// tenure is one grant, from its Lock to its last Unlock.
type tenure struct {
	*Actor
	of    history.Op // what all operations of it have in common, beside its token. Owner: if that has several names, the one to record
	holds []held     // oldest first

	// The first hold is unlocked last, because the contexts of the others end with its own: else nobody would see why they end.
	nested bool

	end   sync.Once      // the end of the grant, if it ended by itself, is recorded by the first hold that sees it
	group sync.WaitGroup // those that look out for it
	stops []func() bool
}

// held is a hold and how it was asked for.
type held struct {
	*holdfast.Hold
	plain bool
}

// add takes up a hold and looks out for its end.
func (t *tenure) add(h held) {
	t.holds = append(t.holds, h)
	t.group.Add(1)
	t.stops = append(t.stops, context.AfterFunc(h.Context(), func() {
		defer t.group.Done()
		o := t.op(history.End, h)
		note(&o, context.Cause(h.Context()))
		if o.Deadline = t.until(h.Hold); o.Deadline == 0 && o.Result == history.Lost {
			o.Deadline = history.Forever // it is not told any more, but was not over
		}
		if o.Result != history.Lost && o.Result != history.Closed {
			return // unlocked, which is recorded, or the caller's context ended, and the lock is held on
		}
		t.end.Do(func() { t.rec.Note(o) })
	}))
}

func (t *tenure) op(kind history.Kind, h held) history.Op {
	o := t.of
	o.Client, o.Actor, o.Kind, o.Owner, o.Token = t.client, t.number, kind, cmp.Or(t.of.Owner, h.Owner()), h.Token()
	return o
}

// plain reports whether nobody renews it.
func (t *tenure) plain() bool {
	return !slices.ContainsFunc(t.holds, func(h held) bool { return !h.plain })
}

func (t *tenure) extend(ctx context.Context) {
	if len(t.Extends) == 0 {
		return
	}
	lease := t.Extends[t.rng.IntN(len(t.Extends))]
	op := t.op(history.Extend, t.holds[0])
	op.Lease = int64(lease)
	t.record(op, func() error { return t.holds[0].Extend(ctx, lease) })
}

// leave unlocks all holds, in random order.
func (t *tenure) leave(ctx context.Context) {
	for len(t.holds) > 0 {
		t.unlock(ctx, t.any())
	}
	for _, stop := range t.stops {
		if stop() {
			t.group.Done()
		}
	}
	t.group.Wait()
}

// any is the number of the hold to be unlocked next.
func (t *tenure) any() int {
	if t.nested && len(t.holds) > 1 {
		return 1 + t.rng.IntN(len(t.holds)-1)
	}
	return t.rng.IntN(len(t.holds))
}

// unlock gives a hold back, under a context that is cancelled already in one case of four.
func (t *tenure) unlock(ctx context.Context, i int) {
	if t.rng.IntN(4) == 0 {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		ctx = gone
	}
	h := t.holds[i]
	t.holds = append(t.holds[:i:i], t.holds[i+1:]...)
	op := t.op(history.Unlock, h)
	op.Last, op.Plain = len(t.holds) == 0, h.plain
	op.Deadline = t.until(h.Hold)
	t.record(op, func() error { return h.Unlock(ctx) })
}

// Granted notes, by its Hook, which tokens the server granted plain locks with, and which owners asked masters for their votes.
// A grant with another token was none of the servers', nor was a second one to such an owner: the lock was handed off within
// the client. The zero value is ready, and may be shared by clients.
type Granted struct {
	mu     sync.Mutex // guards the rest
	tokens map[grantedToken]bool
	owners map[string]bool // who asked for votes: true until granted the lock
}

type grantedToken struct{ name, token string }

// Hook is for go-redis.
func (g *Granted) Hook() redis.Hook { return watch(g) }

// by reports whether the server, or masters, made a grant. It is asked once for each.
func (g *Granted) by(name, owner string, token uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	voted := g.owners[owner]
	if voted { // each attempt has an owner id of its own, which the masters go on knowing the lock by
		g.owners[owner] = false
	}
	return voted || g.tokens[grantedToken{name, strconv.FormatUint(token, 10)}]
}

// sends notes the owner who asks for a vote.
func (g *Granted) sends(cmd redis.Cmder) {
	if !runs(cmd.Args(), lua.Vote) || len(arguments(cmd.Args())) == 0 {
		return
	}
	owner, _ := arguments(cmd.Args())[0].(string)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.owners[owner]; known {
		return
	}
	if g.owners == nil {
		g.owners = make(map[string]bool)
	}
	g.owners[owner] = true
}

// answered notes the tokens that the server granted.
func (g *Granted) answered(cmd redis.Cmder, err error) {
	args := cmd.Args()
	switch {
	case err != nil:
	case runs(args, lua.Acquire): // token or {1, token, ...}
		g.noteGrant(args[firstKey], values(cmd))
	case runs(args, lua.Many):
		g.noteMany(args, cmd)
	}
}

// noteMany notes tokens of a reply {1, time, 1 or {1, token, ...}, ...} to joint acquisitions, whose names come first.
func (g *Granted) noteMany(args []any, cmd redis.Cmder) {
	list, more := values(cmd), arguments(args)
	if len(more) == 0 {
		return
	}
	acquisitions, _ := more[0].(int)
	for i := range min(acquisitions, len(list)-2) {
		switch reply := list[2+i].(type) {
		case int64:
			g.noteGrant(args[firstKey+2*i], []any{reply, list[1]})
		case []any:
			g.noteGrant(args[firstKey+2*i], reply)
		}
	}
}

func (g *Granted) noteGrant(name any, list []any) {
	if len(list) < 2 || list[0] != any(int64(1)) {
		return
	}
	n, _ := name.(string)
	token, _ := list[1].(string)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens == nil {
		g.tokens = make(map[grantedToken]bool)
	}
	g.tokens[grantedToken{n, token}] = true
}

// round is one grant, and what its holder does.
type round struct {
	tenure
	m Locker

	// Re-entries are made under again. In nested rounds that is the first hold's context, and theirs end with it.
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

// reenter locks once more. After a loss, and not under its hold's context, that is a grant of its own, recorded as such.
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

// mix tries another kind of lock on the name, as the same owner. It is refused as long as this one is held.
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

// look asks the server who holds the lock. The answer counts if the hold is trusted at both ends, else it may name another.
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

// explains reports whether a state fits an operation's holder. A lock handed on in a client shows the last token reserved.
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

// Collect locks many names at once as one owner, some twice, calls hold, and unlocks them. Each name has a goroutine, whose
// number begins with the actor's and which draws from its own source. False: the client was closed.
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

// collect locks a name under a context that carries an owner, perhaps twice. Nothing comes of it if that fails.
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
