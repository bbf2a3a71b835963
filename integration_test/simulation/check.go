package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// audit looks at the server's keys all the time: each must have a time to live. And it notes who
// holds the locks.
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

// lastBackoff is the longest pause of the library between two attempts: it does not begin one that
// would not fit.
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

// confirmed finds unlocks that confirm a hold that could not be trusted any more when they were
// called.
func confirmed(ops []history.Op) (found []history.Violation) {
	for _, o := range ops {
		if o.Kind == history.Unlock && o.Result == history.OK && o.Deadline != 0 && o.Call > o.Deadline {
			found = append(found, history.Violation{Check: "trust", Name: o.Name, Ops: []history.Op{o},
				Text: fmt.Sprintf("confirmed %s after the deadline", time.Duration(o.Call-o.Deadline))})
		}
	}
	return found
}

// bounded finds unlocks that took longer than they may: the retry budget, and the last attempt,
// which may have to connect (DialTimeout is that of one try), to shake hands, to be refused for an
// unknown script, and to do all of that once more.
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
