package fair

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// asker sends the questions of waiters to one master. A waiter leaves its question here, and
// questions that arrive meanwhile travel together. So ten thousand waiters use the stacks of a few
// goroutines to ask, and not their own. An asker sends few pipelines at the same time. A pipeline
// that takes long does not count, so a slow name, or a dead connection, delays others only by 2 ms,
// or by two round trips if that is longer, see [asker.patience]. The asker's goroutines run while
// there is something to ask. The waitlists' mu guards all fields.
type asker struct {
	lists    *waitlists
	master   *redis.Client
	waiting  []*inquiry
	flights  []*flight // under way, without those that take too long
	boarding bool      // a new flight has begun and will take all waiting questions
	timer    *time.Timer
	armed    bool // timer will fire
}

// flight is one goroutine that sends.
type flight struct{ begun time.Time }

const (
	// overtake is the least time, and mostOvertake the greatest, that the asker waits for a
	// pipeline before it sends others beside it.
	overtake, mostOvertake = 2 * time.Millisecond, 50 * time.Millisecond
	// maxFlights is how many pipelines are sent at the same time, beside those that take too long.
	// (Package combine sends more if the server is far. That is not needed here, because these
	// questions come from waiters.)
	maxFlights = 2
	// askChunk is how many questions travel together at most, so that the first does not wait long
	// for the last.
	askChunk = 128
)

// inquiry is one question of a waiter to the server, with all its attempts.
type inquiry struct {
	place   *waiter
	effort  *remote.Attempts // nil before the first attempt
	resting *time.Timer      // runs before the next attempt; nil while the asker has the inquiry
	queue   bool             // asks for a place, and not only for the lock
	joins   bool             // asks for the waiter's first place, and may share a script for that, see party.go
	before  bool             // an earlier question of the owner may still arrive
	sent    bool             // it is under way, or was
	gone    bool             // the waiter has left: whatever the question gets is given back when it ends
}

// askLocked starts a waiter's question, which wakes the waiter when there is an answer for it. Like
// all functions that a waiter calls, it uses little of the waiter's stack.
func (ls *waitlists) askLocked(p *waiter, queue bool) {
	p.look = false
	p.asking = &inquiry{place: p, queue: queue, joins: queue && !p.asked}
	if !p.list.gatherLocked(p.asking) {
		ls.sendLocked(p.asking)
	}
	p.asked = p.asked || queue
}

// sendLocked gives a question to the asker of its master. In a cluster another goroutine does this,
// because to find the master takes a deep stack.
func (ls *waitlists) sendLocked(q *inquiry) {
	if ls.client.Server().Cluster == nil {
		ls.askerLocked(nil).addLocked(q)
		return
	}
	ls.unsorted = append(ls.unsorted, q)
	if !ls.sorting {
		ls.sorting = true
		ls.client.Tasks().Often(ls.sort)
	}
}

// sort gives each question to the asker of its master, in a cluster.
func (ls *waitlists) sort() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.unsorted {
		ls.askerLocked(ls.client.Server().MasterOf(q.place.list.server.base.Key.Name)).addLocked(q)
	}
	ls.unsorted, ls.sorting = nil, false
}

func (ls *waitlists) askerLocked(master *redis.Client) *asker {
	if a := ls.askers[master]; a != nil {
		return a
	}
	a := &asker{lists: ls, master: master}
	ls.askers[master] = a
	return a
}

// giveUpLocked ends the question of a waiter that leaves. A question that is under way goes on
// without the waiter.
func (ls *waitlists) giveUpLocked(p *waiter) {
	q := p.asking
	switch {
	case q == nil:
		return
	case p.list.keepsLocked(q), !q.sent: // it is not, and what there is of the waiter does not wait for it
	case q.resting != nil:
		q.resting.Stop()
		if q.effort.Stray {
			p.acquisition.Entry().MarkStray()
		}
		q.effort.GiveUp()
	default:
		p.acquisition.Entry().LeaveUndo()
	}
	p.asking, q.gone = nil, true
}

func (a *asker) addLocked(q *inquiry) {
	a.waiting = append(a.waiting, q)
	a.beginLocked()
}

// beginLocked starts a goroutine that sends the waiting questions, unless too many are under way.
func (a *asker) beginLocked() {
	if len(a.waiting) == 0 || a.boarding || len(a.flights) >= maxFlights {
		return
	}
	a.boarding = true
	a.lists.client.Tasks().Often(a.fly)
}

// hurry stops waiting for pipelines that take too long, and sends the waiting questions. Its
// goroutine ends at once. It needs no owner, because it is started only while something is under
// way.
func (a *asker) hurry() {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	a.armed = false
	late := time.Now().Add(-a.patience())
	a.flights = slices.DeleteFunc(a.flights, func(f *flight) bool { return !f.begun.After(late) })
	a.beginLocked()
	a.armLocked()
}

// patience is how long the asker waits for a pipeline: longer where round trips are long. With a
// fixed time, an overloaded server would get one more pipeline each time, and each needs a
// connection.
func (a *asker) patience() time.Duration {
	return min(max(overtake, 2*a.lists.client.RoundTrip()), mostOvertake)
}

// armLocked sets the timer of [asker.hurry] while pipelines are under way.
func (a *asker) armLocked() {
	switch {
	case a.armed || len(a.flights) == 0:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(a.patience(), a.hurry)
	default:
		a.timer.Reset(a.patience())
	}
	a.armed = true
}

// fly sends the waiting questions, and those that arrive meanwhile, until there are none.
func (a *asker) fly() {
	f := &flight{}
	for batch := a.board(f, true); len(batch) > 0; batch = a.board(f, false) {
		a.send(batch)
	}
}

// board takes out the questions to send next. Questions that do not fit travel with the next
// pipeline. The flight ends, with an empty batch, if there is no question, or if other flights can
// take the questions.
func (a *asker) board(f *flight, first bool) (batch []*inquiry) {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	if i := slices.Index(a.flights, f); i >= 0 {
		a.flights = slices.Delete(a.flights, i, i+1)
	}
	if first {
		a.boarding = false
	}
	if n := min(len(a.waiting), askChunk); n > 0 && !a.boarding && len(a.flights) < maxFlights {
		batch = slices.Clone(a.waiting[:n])
		if a.waiting = slices.Delete(a.waiting, 0, n); len(a.waiting) == 0 && cap(a.waiting) > askChunk {
			a.waiting = nil // its array may be for ten thousand questions
		}
		f.begun = time.Now()
		a.flights = append(a.flights, f)
		a.beginLocked()
		a.armLocked()
		return batch
	}
	if len(a.flights) == 0 && len(a.waiting) == 0 && !a.boarding && a.lists.askers[a.master] == a {
		delete(a.lists.askers, a.master) // removed, because masters come and go
	}
	return nil
}

// send asks the questions once, except those whose waiters have left.
func (a *asker) send(batch []*inquiry) {
	c := a.lists.client
	asked := batch[:0]
	last, now := time.Time{}, suspend.System.Now()
	for _, q := range batch {
		if again := q.effort != nil; !a.takes(q) {
			if again {
				q.giveBack()
			}
			continue
		}
		q.begin(now)
		asked, last = append(asked, q), remote.Latest(last, q.effort.Deadline())
	}
	if len(asked) == 0 {
		return
	}
	// Hooks see the pipeline under the context of the first waiter, without its end: one waiter's
	// impatience must not end the others' questions.
	ctx, cancel := context.WithDeadlineCause(remote.Detach(asked[0].place.acquisition.Context()), last,
		remote.ErrBudget)
	defer cancel()
	parties := together(asked)
	calls := make([]lua.Call, len(parties))
	for i, party := range parties {
		calls[i] = party.call()
		for _, q := range party {
			q.effort.Script = calls[i].Script()
		}
	}
	var results []lua.Result
	ended := c.Server().Asking(a.master)
	if len(calls) == 1 {
		reply, err := lua.Run(ctx, c.Server().Single, calls[0])
		results = []lua.Result{{Reply: reply, Err: err}}
	} else {
		results = lua.RunAll(ctx, c.Redis(), calls)
	}
	ended(results[0].Err)
	silent := false
	for i, party := range parties {
		for _, q := range party {
			err := results[i].Err
			if q != asked[0] {
				err = panics.Text(err) // the panic belongs to the first question, and the others are asked once more
			}
			if err == nil && party.refused(results[i].Reply) {
				a.askAlone(q)
				continue
			}
			silent = a.settle(ctx, q, results[i].Reply, err) || silent
		}
	}
	if cluster := c.Server().Cluster; silent && cluster != nil {
		cluster.ReloadState(ctx)
	}
}

// takes reports whether a question is to be sent: its waiter has not left.
func (a *asker) takes(q *inquiry) bool {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	if q.gone {
		return false
	}
	q.sent = true
	if q.queue {
		q.place.acquisition.Entry().SetPlaced(true) // until the grant is live: who leaves gives its place back
	}
	return true
}

// begin begins an attempt.
func (q *inquiry) begin(now time.Time) {
	if p := q.place; q.effort == nil {
		c := p.list.lists.client
		e := remote.NewAttempts(c.Server(), c.Session(), remote.Retry{})
		q.before, q.effort = p.acquisition.Entry().IsStray(), &e
	}
	q.effort.Sent = now
}

// call is the script of the next attempt.
func (q *inquiry) call() lua.Call {
	a, l := q.place.acquisition, q.place.list
	c := l.lists.client
	place := time.Duration(0)
	if q.queue {
		place = a.Place()
	}
	return l.server.protocol.Acquire(kind.Ask{
		Owner: a.Owner(), Lease: a.Want().Stands(), Again: q.effort.Stray || q.before, Place: place,
		Publish: c.Server().Publish, Tokens: 1, Until: c.Server().Clock.Limit(), Count: a.Want().Count,
	})
}

// askAlone asks a question of a party again, by a script of its own.
func (a *asker) askAlone(q *inquiry) {
	a.lists.mu.Lock()
	q.joins = false
	if !q.gone {
		a.lists.sendLocked(q)
	}
	gone := q.gone
	a.lists.mu.Unlock()
	if gone {
		q.giveBack()
	}
}

// settle judges an attempt. It reports whether the server was silent, so that the question must be
// asked once more.
func (a *asker) settle(ctx context.Context, q *inquiry, reply lua.Reply, err error) (silent bool) {
	ls, p := a.lists, q.place
	v := q.effort.Decide(ctx, reply, err, p.list.note.Failed())
	silent = v == remote.RetryLater && !errs.IsReply(q.effort.Err)
	if v == remote.Settled {
		p.acquisition.Ended(q.effort.Outcome)
	}
	ls.mu.Lock()
	switch {
	case q.gone:
		ls.mu.Unlock()
		if v != remote.Settled {
			q.effort.GiveUp()
		}
		q.giveBack()
		return silent
	case v == remote.RetryNow:
		ls.sendLocked(q)
	case v == remote.RetryLater:
		q.resting = time.AfterFunc(q.effort.Pause(), func() { ls.resume(q) })
	case q.effort.Err == nil && q.effort.Reply.Status == lua.Denied:
		p.deniedLocked(q)
	default:
		if q.effort.Err == nil { // granted, also to one without a place, who may leave before it looks
			p.acquisition.Entry().SetPlaced(true)
		}
		p.asking, p.result = nil, &q.effort.Outcome
		p.wakeLocked()
	}
	ls.mu.Unlock()
	return silent
}

// resume sends a question again after a pause. Its goroutine needs no owner: it does nothing if the
// waiter has left, and Close waits for the other waiters.
func (ls *waitlists) resume(q *inquiry) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.resting = nil; !q.gone {
		ls.sendLocked(q)
	}
}

// giveBack gives back what a question has got, or may still get, after its waiter has left while it was
// under way.
func (q *inquiry) giveBack() {
	a, stray := q.place.acquisition, q.before || q.effort.Stray
	if stray || q.queue || q.effort.Err == nil && q.effort.Reply.Status == lua.Done {
		a.Entry().Undo(a.Want().Stands(), stray)
	}
}

// deniedLocked notes a refusal. The waiter goes on waiting.
func (p *waiter) deniedLocked(q *inquiry) {
	o, l := &q.effort.Outcome, p.list
	p.asking = nil
	r := o.Reply.QueueRefusal()
	by := remote.RefusedBy(r)
	l.note.Hear(o.Sent, by)
	l.endsLocked(o.Sent, r.Millis)
	if by.Stays {
		p.result = o
		p.wakeLocked()
		return
	}
	if q.queue {
		if p.refusedAt == 0 {
			l.placed++
		}
		p.refusedAt = l.syncLocked(o.Sent, r.Time)
		p.foreign = r.Foreign
	}
	if p.look || p.handed != nil || p.entering || p.foreign && p.own == nil {
		p.wakeLocked()
	}
}
