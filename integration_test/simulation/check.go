package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// audit looks at the server's keys all the time: each must have a time to live. And it notes who holds the locks.
func (w *World) audit(ctx context.Context) {
	for w.sleep(ctx, w.Lease/3) {
		w.skew(nil, "EVAL") // no script may have run for a while
		for _, key := range w.server.Keys() {
			w.sample(key)
			if w.server.TTL(key) <= 0 && w.server.Exists(key) && !w.isForeign(key) {
				w.problem("left behind", fmt.Sprintf("key %s has no time to live at %s", key, time.Duration(w.Now())))
			}
		}
	}
}

// sample notes who holds a lock.
func (w *World) sample(key string) {
	owners, err := w.server.HKeys(key)
	if err != nil {
		return // no lock
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owner := range owners {
		owner = strings.Replace(owner, ":h0", ":h", 1) // has left it for the rest of its time, see leave.lua
		w.samples = append(w.samples, history.Sample{At: w.Now(), Name: key, Owner: owner})
	}
}

// depart waits until the last lease is over, and looks at what is left then.
func (w *World) depart() {
	if channels := w.server.PubSubChannels(""); len(channels) > 0 {
		w.sleep(context.Background(), time.Minute) // connections that a client gave up still have an end under way
		if channels = w.server.PubSubChannels(""); len(channels) > 0 {
			w.problem("left behind", fmt.Sprintf("subscriptions: %v", channels))
		}
	}
	w.sleep(context.Background(), max(2*w.Lease, w.stay())+w.recovery())
	if w.fairQueue() {
		w.sleep(context.Background(), 2*time.Hour) // the queue of those who died
	}
	switch w.Kind {
	case history.Permits:
		w.sleep(context.Background(), 5*place)
	case history.Latches:
		w.sleep(context.Background(), 2*time.Hour) // what is remembered of calls: an hour, where the clock was set back
	}
	w.skew(nil, "EVAL")
	w.census()
	for _, key := range w.server.Keys() {
		if !w.stays(key) {
			w.problem("left behind", fmt.Sprintf("key %s", key))
		}
	}
}

func (w *World) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Result{Clients: w.clients, Dead: w.work.dead, Length: time.Since(w.start), Problems: w.problems}
	for f := range r.Faults {
		r.Faults[f] = w.faults[f].Load()
	}
	slices.SortFunc(w.histories, func(a, b []history.Op) int {
		if len(a) == 0 || len(b) == 0 {
			return cmp.Compare(len(a), len(b))
		}
		return cmp.Compare(a[0].Client, b[0].Client)
	})
	r.Ops = history.Merge(w.histories...)
	w.napped(r.Ops)
	found := history.Check(r.Ops, history.Config{
		Lease: w.Lease + w.Lease/100 + w.stale(), // by the slowest clock of a server
		Bound: w.bound(), Recovery: w.recovery(), Faults: w.windows, Local: w.local,
		Slack:   1,                // virtual time is exact
		Leaving: 10 * w.slowest(), // there and back, at the most
		Pauses:  w.pauses(),
		Late:    w.late(), Samples: append(w.samples, history.Named(r.Ops)...), Closed: w.closed,
		Undo:  2*(time.Second+w.ReadTimeout) + w.RetryBudget,
		Place: place + place/100, Claim: w.claim(),
		Permits: w.Permits, Stay: w.lasts(),
		Window: w.window(), Serving: w.serving(),
	})
	r.Problems = append(r.Problems, found...)
	if err := w.work.check(); err != nil {
		r.Problems = append(r.Problems, history.Violation{Check: "work", Text: err.Error()})
	}
	r.Problems = append(r.Problems, w.lapses()...)
	if w.Crowd > 0 {
		r.Problems = append(append(r.Problems, w.untrue(r.Ops)...), w.dear(r.Ops)...)
	}
	for client, ops := range byClient(r.Ops) { // one that closes gives up early
		r.Problems = append(r.Problems, history.GivenUp(ops, w.RetryBudget-lastBackoff, w.closed[client])...)
	}
	if w.Kind == history.Locks {
		r.Problems = append(r.Problems, history.Refusals(r.Ops)...)
	}
	r.Problems = append(r.Problems, w.told(r.Ops)...)
	r.Problems = append(r.Problems, confirmed(r.Ops)...)
	r.Problems = append(r.Problems, w.bounded(r.Ops)...)
	if w.Kind == history.Locks && !w.Fair {
		r.Problems = append(r.Problems, w.starved(r.Ops)...)
	}
	return r
}

func byClient(ops []history.Op) map[int][]history.Op {
	clients := make(map[int][]history.Op)
	for _, o := range ops {
		clients[o.Client] = append(clients[o.Client], o)
	}
	return clients
}

// lastBackoff is the longest pause of the library between two attempts: it does not begin one that would not fit.
const lastBackoff = 250 * time.Millisecond

// place is for how long the place of a waiter that is gone counts in the queue of a fair lock.
const place = 15 * time.Second

// claim is for how long a fair lock is kept for the one whose turn it is.
func (w *World) claim() time.Duration {
	if !w.queued() {
		return 0
	}
	return 2 * time.Second
}

// bound is how long a lock may be free while somebody waits for it and nothing disturbs anybody.
func (w *World) bound() time.Duration {
	switch w.Kind {
	case history.ReadWrite: // who waits to write looks every two seconds
		return 2*time.Second + 20*w.slowest()
	case history.Latches: // whatever the lease is
		return time.Second + 20*w.slowest()
	}
	return min(w.Lease/4+20*w.slowest(), time.Second+20*w.slowest())
}

// confirmed finds unlocks that confirm a hold that could not be trusted any more when they were called.
func confirmed(ops []history.Op) (found []history.Violation) {
	for _, o := range ops {
		if o.Kind == history.Unlock && o.Result == history.OK && o.Deadline != 0 && o.Call > o.Deadline {
			found = append(found, history.Violation{Check: "trust", Name: o.Name, Ops: []history.Op{o},
				Text: fmt.Sprintf("confirmed %s after the deadline", time.Duration(o.Call-o.Deadline))})
		}
	}
	return found
}

// bounded finds unlocks that took longer than they may: the retry budget, and the last attempt, which may have to connect
// (DialTimeout is that of one try), to shake hands, to be refused for an unknown script, and to do all of that once more.
func (w *World) bounded(ops []history.Op) (found []history.Violation) {
	connect := time.Duration(w.DialerRetries) * (w.DialTimeout + 100*time.Millisecond)
	limit := w.RetryBudget + 2*(connect+2*w.ReadTimeout)
	for _, o := range ops {
		run := strings.HasPrefix(o.Owner, history.Unnamed) // whose end is known when the next term begins
		if o.Kind == history.Unlock && !run && o.Return != history.Forever && time.Duration(o.Return-o.Call) > limit {
			found = append(found, history.Violation{Check: "unlock", Name: o.Name, Ops: []history.Op{o},
				Text: fmt.Sprintf("took %s, which is more than %s", time.Duration(o.Return-o.Call), limit)})
		}
	}
	return found
}

// questions are what a client has asked the server, and whether it had an answer.
type questions struct {
	mu  sync.Mutex // guards all
	all []question
}

type question struct {
	sent, ended int64 // Forever while it is under way
	failed      bool
	wants       bool // a lock
}

// wanting are the scripts with which a client asks for a lock, or for many locks at once.
var wanting = []*lua.Script{lua.Acquire, lua.Many, lua.FairAcquire, lua.FairJoin, lua.SemAcquire, lua.SemJoin, lua.RwRead, lua.RwWrite,
	lua.LatchLook}

func wants(cmd redis.Cmder) bool {
	return slices.ContainsFunc(wanting, func(s *lua.Script) bool { return cmd.Args()[1] == any(s.Hash()) })
}

// hook is for go-redis. It is to be before those that change scripts.
func (q *questions) hook(now func() int64) redis.Hook {
	return redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == "evalsha" || cmd.Name() == "eval" }) {
			return send()
		}
		q.mu.Lock()
		at := len(q.all)
		q.all = append(q.all, question{now(), history.Forever, false, slices.ContainsFunc(cmds, wants)})
		q.mu.Unlock()
		err := send()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.all[at].ended, q.all[at].failed = now(), err != nil && !errs.IsReply(err)
		return err
	})
}

// answered reports whether the server answered in the second half of what a caller waited, or of a second, and no
// question failed in the time that one is given to be asked again. What comes at the moment of the return does not count.
func (q *questions) answered(o *history.Op, again time.Duration) bool {
	after, answered := o.Return-silence(o)/2, false
	for _, one := range q.all {
		if one.failed && one.ended > o.Return-int64(again) && one.ended <= o.Return {
			return false
		}
		answered = answered || !one.failed && one.wants && after < one.ended && one.ended < o.Return
	}
	return answered
}

// silent reports whether the server said nothing for much longer than a caller waited, and was asked for a lock all the time.
func (q *questions) silent(o *history.Op) bool {
	from := min(o.Call, o.Return-2*silence(o)-int64(200*time.Millisecond))
	told := func(one question) bool { return !one.failed && one.ended >= from && one.ended <= o.Return }
	waits := func(one question) bool { return one.wants && one.sent < from && one.ended > o.Return }
	return !slices.ContainsFunc(q.all, told) && slices.ContainsFunc(q.all, waits)
}

// silence is for how long a server may say nothing before it is silent for the caller of an operation.
func silence(o *history.Op) int64 {
	const brief, long = int64(100 * time.Millisecond), int64(time.Second)
	if d := o.Return - o.Call; d >= brief {
		return d
	}
	return long
}

// untrue finds callers who were told what is not so. The table is at [holdfast.ErrNotAcquired]. Only what was so for much
// longer than the table asks for counts, so it does not matter in which order things happen at one moment.
func (w *World) untrue(ops []history.Op) (found []history.Violation) {
	for _, o := range ops {
		asks := o.Kind == history.Lock || o.Kind == history.Try || o.Kind == history.Wait
		failed := o.Result == history.Left || o.Result == history.Denied || o.Result == history.Unknown
		if q := w.questions[o.Client]; q == nil || !asks || !failed || o.Return == history.Forever {
			continue
		} else if text := w.lie(&o, q, ops); text != "" {
			found = append(found, history.Violation{Check: "truth", Name: o.Name, Text: text, Ops: []history.Op{o}})
		}
	}
	return found
}

// lie is what was wrong with what a caller was told; empty if nothing was.
func (w *World) lie(o *history.Op, q *questions, ops []history.Op) string {
	won := o.Of == history.Elections && strings.Contains(o.Error, holdfast.ErrUncertain.Error()) // and not announced
	switch {
	case o.Early && (o.Taken || o.Outage || !strings.Contains(o.Error, "context ")):
		return "told something of the lock or the server, and the context had ended before the call"
	case o.Early && o.Asked != "":
		return "the server was asked, and the context had ended before the call"
	case o.Early, won:
	case !o.Taken && !o.Outage && o.Return > o.Call && o.Of != history.Elections: // Run says why its context ended
		return "told neither that the lock is not acquired nor that it is unavailable"
	case o.Outage && q.answered(o, w.window()):
		return "told of an outage, and the server answered"
	case o.Taken && !o.Outage && o.Kind == history.Lock && w.faulty() && q.silent(o) && !hasIt(ops, o):
		return "told that somebody has it, and the server was silent"
	}
	return ""
}

// faulty reports whether there was a fault at any time.
func (w *World) faulty() bool { return len(w.windows)+len(w.local) > 0 }

// hasIt reports whether the client of an operation may have had the lock meanwhile: then it need not ask.
func hasIt(ops []history.Op, o *history.Op) bool {
	had := make(map[history.Op]bool) // by owner and token
	grant := func(o *history.Op) history.Op { return history.Op{Owner: o.Owner, Token: o.Token} }
	for i := range ops {
		switch other := &ops[i]; {
		case other.Client != o.Client || other.Owner == "":
		case (other.Kind == history.Lock || other.Kind == history.Try) && other.Call <= o.Return:
			had[grant(other)] = true
		case (other.Kind == history.Unlock && other.Last || other.Kind == history.End) && other.Return < o.Call:
			delete(had, grant(other))
		}
	}
	return len(had) > 0
}
