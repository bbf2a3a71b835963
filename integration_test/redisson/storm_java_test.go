package redisson

import (
	"context"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// actor is a thread of Redisson's that uses locks at random, as workload's actors do ours. What it does is recorded by the
// clock of the tests: the call before the line is sent, the return when the answer has been read.
//
// Redisson has no deadline until when a hold may be trusted, so the holder trusts it until it
// unlocks; with a lease that nobody renews, until that ends, counted from before it was asked for.
// A lock of its that is lost without that is a loss without a reason, which history.Trust finds.
//
// Of its locks only RFencedLock has tokens, which the history needs. So it stands for RLock, whose
// hash and messages are the same; and who was granted a fair lock takes the next token by hand
// before the answer is sent. So does who writes; who reads looks what the last one was.
//
// Of read-write locks it keeps clear of what goes wrong there: it does not read where it writes (W1,
// W2, W3), waits for two seconds at a time (W4), and one that is to be killed neither enters twice to
// write (W6) nor reads with a lease that is renewed, which would shorten those of others.
type actor struct {
	rec    *history.Recorder
	now    func() int64 // its clock
	places *places
	rng    *rand.Rand
	thread *Thread
	client int
	number int
	lease  time.Duration // the client's watchdog's
	mortal bool          // it is to be killed
	name   func(*rand.Rand) string
	grants int // that it asked for, to tell them apart
}

// patient is for how long a thread waits at a time where messages may be missed.
const patient = 2 * time.Second

// again does rounds until ctx ends, or the process of the worker does.
func (a *actor) again(ctx context.Context, round func() bool) {
	for ctx.Err() == nil && round() {
		a.pause(40 * time.Millisecond)
	}
}

func (a *actor) run(ctx context.Context) { a.again(ctx, a.round) }

// pause is for a while, mostly a short one.
func (a *actor) pause(mean time.Duration) {
	<-time.After(time.Duration(min(a.rng.ExpFloat64(), 8) * float64(mean)))
}

// grant is a lock that was granted.
type grant struct {
	of       history.Op // what all operations of it have in common
	kind     string
	deadline int64 // until when it may be trusted; 0: as long as it is renewed
}

func isFair(name string) bool { return strings.HasPrefix(name, "fair") }

func isReadWrite(name string) bool { return strings.HasPrefix(name, "rw") }

// round locks and unlocks once. It is false if the worker has ended.
func (a *actor) round() bool {
	g, ok := a.lock(a.name(a.rng))
	if !ok || g == nil {
		return ok
	}
	depth := 1
	for range a.rng.IntN(4) {
		a.pause(2 * time.Millisecond)
		switch {
		case depth > 1 && a.rng.IntN(2) == 0:
			depth--
			ok = a.unlock(g, false)
		case a.rng.IntN(2) == 0 && !g.of.Plain && !(a.mortal && g.kind == "write"): // a re-entry would make a renewed one of a plain lease
			depth++
			ok = a.reenter(g)
		default:
			ok = a.look(g)
		}
		if !ok {
			return false
		}
	}
	for ; depth > 0; depth-- {
		if !a.unlock(g, depth == 1) {
			return false
		}
	}
	return true
}

// lock makes one attempt of a random kind. No grant and true: the lock was not granted.
func (a *actor) lock(name string) (*grant, bool) {
	op, ask := a.attempt(name)
	call := a.rec.Begin(op)
	if isFair(name) && op.Kind == history.Lock {
		defer a.places.ask(a, name)()
	}
	sent := a.now()
	r, ok := a.do(ask)
	if !ok {
		return nil, false
	}
	token, _ := strconv.ParseUint(r.Text(), 10, 64) // 0: it has none
	g := &grant{of: op, kind: ask.Kind}
	g.of.Owner, g.of.Token, g.of.Lease = a.thread.Owner, token, 0
	if op.Plain {
		g.deadline = sent + op.Lease/100*99
	}
	call.End(func(o *history.Op) {
		if attempted(o, r, token > 0) {
			o.Owner, o.Token, o.Deadline = a.thread.Owner, token, g.deadline
		}
	})
	if token == 0 {
		return nil, true
	}
	return g, true
}

// tooLate reports whether an attempt's time was over before it could listen: Redisson throws that and has no lock.
func tooLate(r Reply) bool {
	return r.Threw("RedisTimeoutException") && strings.Contains(r.Message, "subscription")
}

// attempted puts down how an attempt ended, and reports whether it got something.
func attempted(o *history.Op, r Reply, got bool) bool {
	switch {
	case tooLate(r):
		o.Result, o.Error = history.Left, r.Err().Error()
	case r.Class != "":
		o.Result, o.Error = history.Unknown, r.Err().Error()
	case got:
		o.Result = history.OK
	case o.Kind == history.Try:
		o.Result = history.Denied
	default:
		o.Result = history.Left
	}
	return o.Result == history.OK
}

// attempt is one of a random kind.
func (a *actor) attempt(name string) (op history.Op, ask Ask) {
	op = history.Op{Client: a.client, Actor: a.number, Name: name, Kind: history.Lock, Lease: int64(a.lease)}
	ask = Ask{Op: "lockAndGetToken", Kind: "fenced", Name: name}
	limited := "tryLockAndGetToken"
	if isFair(name) || isReadWrite(name) {
		ask.Op, limited = "lockAndMark", "tryLockAndMark"
	}
	switch {
	case isFair(name):
		ask.Kind = "fair"
	case isReadWrite(name):
		a.grants++
		op.Of, op.Guest, op.Grant, op.Shared = history.ReadWrite, true, a.grants, a.rng.IntN(3) > 0
		ask.Kind = map[bool]string{true: "read", false: "write"}[op.Shared]
		ask.Op, ask.Wait = limited, millis(patient)
	}
	plain := op.Shared && a.mortal
	switch a.rng.IntN(8) {
	case 0, 1:
		op.Kind, ask.Op, ask.Wait = history.Try, limited, 0
	case 2, 3:
		ask.Op, ask.Wait = limited, millis(20+a.rng.IntN(40))*millis(time.Millisecond)
	case 4:
		plain = true
		if !isReadWrite(name) {
			ask.Op, ask.Wait = limited, millis(patience())
		}
	}
	if plain {
		op.Plain = true
		if !a.mortal || !isReadWrite(name) {
			op.Lease = int64(stormLease)
		}
		ask.Lease = millis(op.Lease)
	}
	return op, ask
}

func (a *actor) op(kind history.Kind, g *grant) history.Op {
	o := g.of
	o.Kind = kind
	return o
}

// does has the thread do something, and records it. It is false if the worker has ended.
func (a *actor) does(op history.Op, ask Ask, more func(o *history.Op, r Reply)) bool {
	call := a.rec.Begin(op)
	ask.Name = op.Name
	r, ok := a.do(ask)
	if ok {
		call.End(func(o *history.Op) {
			note(o, r)
			more(o, r)
		})
	}
	return ok
}

func (a *actor) reenter(g *grant) bool {
	op := a.op(history.Reenter, g)
	op.Lease = int64(a.lease)
	return a.does(op, Ask{Op: "lock", Kind: g.kind}, func(*history.Op, Reply) {})
}

// look asks for the hold count, which counts while the hold is trusted.
func (a *actor) look(g *grant) bool {
	return a.does(a.op(history.State, g), Ask{Op: "holdCount", Kind: g.kind}, func(o *history.Op, r Reply) {
		o.Depth, o.Seen = int(r.Int()), a.thread.Owner
		if g.deadline != 0 && o.Return >= g.deadline {
			o.Result = history.Unknown
		}
	})
}

func (a *actor) unlock(g *grant, last bool) bool {
	return a.giveBack(g, last, Ask{Op: "unlock", Kind: g.kind})
}

// giveBack ends a hold by a command.
func (a *actor) giveBack(g *grant, last bool, ask Ask) bool {
	op := a.op(history.Unlock, g)
	op.Last, op.Deadline = last, g.deadline
	return a.does(op, ask, func(o *history.Op, _ Reply) {
		if o.Result == history.Lost && o.Deadline == 0 {
			o.Deadline = history.Forever // it was renewed, so nothing had ended
		}
	})
}

// note puts down how an operation ended.
func note(o *history.Op, r Reply) {
	switch {
	case r.Class == "":
		o.Result = history.OK
	case r.Threw("IllegalMonitorStateException"), o.Of == history.Permits && r.Threw("IllegalArgumentException"):
		o.Result, o.Error = history.Lost, r.Err().Error()
	default:
		o.Result, o.Error = history.Unknown, r.Err().Error()
	}
}

// do is false if the worker has ended.
func (a *actor) do(ask Ask) (Reply, bool) {
	p := a.thread.Start(ask)
	<-p.Done
	return p.reply, p.err == nil
}

// places sees which of Redisson's threads have places in fair locks' queues, which they do not say, and which take a handed
// lock so late that the claim may have ended. That is the machine's fault, and costs the turn.
type places struct {
	mu      sync.Mutex // guards the rest
	pending map[string]*pendingPlace
	lapsed  map[int][]history.Window // by client: from the hand-over until the wait was over
}

// pendingPlace is a thread that waits. It is under its name and owner.
type pendingPlace struct {
	call   history.Call
	actor  *actor
	seen   bool  // it has, or had, a place
	handed int64 // when it was seen to have the lock with a count of 0; 0: never
}

// ask notes that a thread is about to ask for a place. What it returns is to be called when the thread does not wait any more.
func (p *places) ask(a *actor, name string) (done func()) {
	w := &pendingPlace{actor: a, call: a.rec.Begin(history.Op{Client: a.client, Actor: a.number, Name: name,
		Kind: history.Queue, Owner: a.thread.Owner})}
	key := name + " " + a.thread.Owner
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[key] = w
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pending, key)
		if !w.seen {
			w.seen = true // or a look that is under way would say so later
			w.call.End(func(o *history.Op) { o.Result = history.Denied })
		}
		// less than a claim, because it may have been handed the lock before that was seen
		if now := a.now(); w.handed != 0 && now-w.handed > int64(claim)*3/4 {
			p.lapsed[a.client] = append(p.lapsed[a.client], history.Window{From: w.handed, To: now})
		}
	}
}

// watch looks for places until ctx ends. A place that it sees was there after the call that was under way before it looked.
func (p *places) watch(ctx context.Context, rdb redis.UniversalClient, names []string) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, name := range names {
			before := p.snapshot()
			for _, owner := range rdb.LRange(ctx, "redisson_lock_queue:"+tagged(name), 0, -1).Val() {
				p.sees(before[name+" "+owner])
			}
			for owner, count := range rdb.HGetAll(ctx, name).Val() {
				if w := before[name+" "+owner]; w != nil && count == "0" {
					p.handed(w)
				}
			}
		}
	}
}

func (p *places) sees(w *pendingPlace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w != nil && !w.seen {
		w.seen = true
		w.call.End(func(o *history.Op) { o.Result = history.OK })
	}
}

func (p *places) handed(w *pendingPlace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.handed == 0 {
		w.handed = w.actor.now()
	}
}

func (p *places) snapshot() map[string]*pendingPlace {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.pending)
}

// claim is for how long our scripts hand a lock to a waiter of Redisson's.
const claim = 2 * time.Second

// takeUps finds grants of fair locks to threads of Redisson's whose last wait for the lock had been over just before, and makes
// those waits a part of them. Such a thread may have been handed the lock in that moment, and has it without knowing, for a
// claim. If it comes again meanwhile it takes up what came of its first place: that was its turn, and others have found the
// lock taken since. Of the place itself nothing is known then.
func takeUps(ops []history.Op) (n int) {
	type waiter struct {
		actor int
		name  string
	}
	left := make(map[waiter]int) // the wait that was over
	for i := range ops {
		o := &ops[i]
		if o.Kind != history.Lock && o.Kind != history.Try || !isFair(o.Name) {
			continue
		}
		w := waiter{o.Actor, o.Name}
		before, waited := left[w]
		delete(left, w)
		switch {
		case o.Kind == history.Lock && o.Result == history.Left:
			left[w] = i
		case waited && o.Result == history.OK && o.Call <= ops[before].Return+int64(claim):
			n++
			o.Call = ops[before].Call
			for j := before; j < i; j++ {
				if q := &ops[j]; q.Kind == history.Queue && q.Actor == o.Actor && q.Name == o.Name {
					q.Result = history.Denied
				}
			}
		}
	}
	return n
}
