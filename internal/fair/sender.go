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

// sender sends the requests of waiters to one master. A waiter leaves its request here, and requests
// that arrive meanwhile share a pipeline. So ten thousand waiters use the stacks of a few goroutines
// to ask, and not their own. A sender runs few pipelines at the same time. A pipeline that takes long
// does not count, so a slow name, or a dead connection, delays others only by 2 ms, or by two round
// trips if that is longer, see [sender.patience]. The sender's goroutines run while there are
// requests. The waitlists' mu guards all fields.
type sender struct {
	lists      *waitlists
	master     *redis.Client
	waiting    []*request
	pipelines  []*pipeline // under way, without those that take too long
	collecting bool        // a new goroutine has begun and will take all waiting requests
	timer      *time.Timer
	armed      bool // timer will fire
}

// pipeline is one goroutine that sends.
type pipeline struct{ begun time.Time }

const (
	// overtake is the least time, and mostOvertake the greatest, that the sender waits for a
	// pipeline before it sends others beside it.
	overtake, mostOvertake = 2 * time.Millisecond, 50 * time.Millisecond
	// maxPipelines is how many pipelines are sent at the same time, beside those that take too long.
	// (Package combine sends more if the server is far. That is not needed here, because these
	// requests come from waiters.)
	maxPipelines = 2
	// maxRequests is how many requests one pipeline has at most, so that the first does not wait long for
	// the last.
	maxRequests = 128
)

// request is one request of a waiter to the server, with all its attempts.
type request struct {
	waiter     *waiter
	attempts   *remote.Attempts // nil before the first attempt
	resting    *time.Timer      // runs before the next attempt; nil while the sender has the request
	wantsPlace bool             // asks for a place, and not only for the lock
	joins      bool             // asks for the waiter's first place, and may share a script for that, see batch.go
	before     bool             // an earlier request of the owner may still arrive
	sent       bool             // it is under way, or was
	gone       bool             // the waiter has left: what the request gets is given back when it ends
}

// askLocked starts a request of a waiter, and the answer wakes the waiter. Like all functions that a
// waiter calls, it uses little of the waiter's stack.
func (ls *waitlists) askLocked(p *waiter, wantsPlace bool) {
	p.mustAsk = false
	p.request = &request{waiter: p, wantsPlace: wantsPlace, joins: wantsPlace && !p.asked}
	if !p.list.delayLocked(p.request) {
		ls.sendLocked(p.request)
	}
	p.asked = p.asked || wantsPlace
}

// sendLocked gives a request to the sender of its master. In a cluster another goroutine does this,
// because finding the master takes a deep stack.
func (ls *waitlists) sendLocked(q *request) {
	if ls.client.Server().Cluster == nil {
		ls.senderLocked(nil).addLocked(q)
		return
	}
	ls.unsorted = append(ls.unsorted, q)
	if !ls.sorting {
		ls.sorting = true
		ls.client.Tasks().Often(ls.sort)
	}
}

// sort gives each request to the sender of its master, in a cluster.
func (ls *waitlists) sort() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.unsorted {
		ls.senderLocked(ls.client.Server().MasterOf(q.waiter.list.server.base.Key.Name)).addLocked(q)
	}
	ls.unsorted, ls.sorting = nil, false
}

func (ls *waitlists) senderLocked(master *redis.Client) *sender {
	if a := ls.senders[master]; a != nil {
		return a
	}
	a := &sender{lists: ls, master: master}
	ls.senders[master] = a
	return a
}

// giveUpLocked ends the request of a waiter that leaves. A request that is under way goes on without
// the waiter.
func (ls *waitlists) giveUpLocked(p *waiter) {
	q := p.request
	switch {
	case q == nil:
		return
	case p.list.cancelDelayedLocked(q), !q.sent: // it never reaches the server, so nothing has to be given back
	case q.resting != nil:
		q.resting.Stop()
		if q.attempts.MayArriveLate {
			p.acquisition.Entry().NoteLateCommand()
		}
		q.attempts.GiveUp()
	default:
		p.acquisition.Entry().MarkUndoRunning()
	}
	p.request, q.gone = nil, true
}

func (a *sender) addLocked(q *request) {
	a.waiting = append(a.waiting, q)
	a.beginLocked()
}

// beginLocked starts a goroutine that sends the waiting requests, unless too many are under way.
func (a *sender) beginLocked() {
	if len(a.waiting) == 0 || a.collecting || len(a.pipelines) >= maxPipelines {
		return
	}
	a.collecting = true
	a.lists.client.Tasks().Often(a.run)
}

// hurry stops waiting for pipelines that take too long, and sends the waiting requests. Its
// goroutine ends at once. It needs no owner, because it is started only while something is under
// way.
func (a *sender) hurry() {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	a.armed = false
	late := time.Now().Add(-a.patience())
	a.pipelines = slices.DeleteFunc(a.pipelines, func(p *pipeline) bool { return !p.begun.After(late) })
	a.beginLocked()
	a.armLocked()
}

// patience is how long the sender waits for a pipeline: longer where round trips are long. With a
// fixed time, an overloaded server would get one more pipeline each time, and each needs a
// connection. Nor does it hurry before the first answer, when it does not know how long a round trip is.
func (a *sender) patience() time.Duration {
	trip := a.lists.client.RoundTrip()
	if trip == 0 {
		return mostOvertake
	}
	return min(max(overtake, 2*trip), mostOvertake)
}

// armLocked sets the timer of [sender.hurry] while pipelines are under way.
func (a *sender) armLocked() {
	switch {
	case a.armed || len(a.pipelines) == 0:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(a.patience(), a.hurry)
	default:
		a.timer.Reset(a.patience())
	}
	a.armed = true
}

// run sends the waiting requests, and those that arrive meanwhile, until there are none.
func (a *sender) run() {
	p := &pipeline{}
	for requests := a.collect(p, true); len(requests) > 0; requests = a.collect(p, false) {
		a.send(requests)
	}
}

// collect takes out the requests to send next. Requests that do not fit are left for the next
// pipeline. The goroutine ends, without requests, if there are none, or if other goroutines can take
// them.
func (a *sender) collect(p *pipeline, first bool) (requests []*request) {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	if i := slices.Index(a.pipelines, p); i >= 0 {
		a.pipelines = slices.Delete(a.pipelines, i, i+1)
	}
	if first {
		a.collecting = false
	}
	if n := min(len(a.waiting), maxRequests); n > 0 && !a.collecting && len(a.pipelines) < maxPipelines {
		requests = slices.Clone(a.waiting[:n])
		if a.waiting = slices.Delete(a.waiting, 0, n); len(a.waiting) == 0 && cap(a.waiting) > maxRequests {
			a.waiting = nil // its array may be for ten thousand requests
		}
		p.begun = time.Now()
		a.pipelines = append(a.pipelines, p)
		a.beginLocked()
		a.armLocked()
		return requests
	}
	if len(a.pipelines) == 0 && len(a.waiting) == 0 && !a.collecting && a.lists.senders[a.master] == a {
		delete(a.lists.senders, a.master) // removed, because masters come and go
	}
	return nil
}

// send makes one attempt of each request, except those whose waiters have left.
func (a *sender) send(requests []*request) {
	c := a.lists.client
	asked := requests[:0]
	last, now := time.Time{}, suspend.System.Now()
	for _, q := range requests {
		if again := q.attempts != nil; !a.markSent(q) {
			if again {
				q.giveBack()
			}
			continue
		}
		q.begin(now)
		asked, last = append(asked, q), remote.Latest(last, q.attempts.Deadline())
	}
	if len(asked) == 0 {
		return
	}
	// Hooks see the pipeline under the context of the first waiter, without its end: one waiter's
	// impatience must not end the others' requests.
	ctx, cancel := context.WithDeadlineCause(remote.Detach(asked[0].waiter.acquisition.Context()), last,
		remote.ErrBudget)
	defer cancel()
	batches := batches(asked)
	calls := make([]lua.Call, len(batches))
	for i, batch := range batches {
		calls[i] = batch.call()
		for _, q := range batch {
			q.attempts.Script = calls[i].Script()
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
	for i, batch := range batches {
		for _, q := range batch {
			err := results[i].Err
			if q != asked[0] {
				err = panics.Text(err) // the panic belongs to the first request, and the others are sent once more
			}
			if err == nil && batch.refused(results[i].Reply) {
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

// markSent notes that a request is sent. It reports false, and the request must not be sent, if its
// waiter has left.
func (a *sender) markSent(q *request) bool {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	if q.gone {
		return false
	}
	q.sent = true
	if q.wantsPlace {
		q.waiter.acquisition.Entry().SetInQueue(true) // until the grant is live: a waiter that leaves gives its place back
	}
	return true
}

// begin begins an attempt.
func (q *request) begin(now time.Time) {
	if p := q.waiter; q.attempts == nil {
		c := p.list.lists.client
		e := remote.NewAttempts(c.Server(), c.Session(), remote.Retry{})
		q.before, q.attempts = p.acquisition.Entry().MayArriveLate(), &e
	}
	q.attempts.Sent = now
}

// call is the script of the next attempt.
func (q *request) call() lua.Call {
	a, l := q.waiter.acquisition, q.waiter.list
	c := l.lists.client
	place := time.Duration(0)
	if q.wantsPlace {
		place = a.Place()
	}
	return l.server.protocol.Acquire(kind.Ask{
		Owner: a.Owner(), Lease: a.Want().TTL(), Again: q.mayArriveLate(), Place: place,
		Publish: c.Server().Publish, Tokens: 1, Until: c.Server().Clock.Limit(), Count: a.Want().Count,
	})
}

// askAlone sends a request of a batch again, in a script of its own.
func (a *sender) askAlone(q *request) {
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

// settle decides what follows from an attempt. It reports whether the server was silent, so that the
// request must be sent once more.
func (a *sender) settle(ctx context.Context, q *request, reply lua.Reply, err error) (silent bool) {
	ls, p := a.lists, q.waiter
	v := q.attempts.Decide(ctx, reply, err, p.list.note.Failed())
	silent = v == remote.RetryLater && !errs.IsReply(q.attempts.Err)
	if v == remote.Settled {
		p.acquisition.Ended(q.attempts.Outcome)
	}
	ls.mu.Lock()
	switch {
	case q.gone:
		ls.mu.Unlock()
		if v != remote.Settled {
			q.attempts.GiveUp()
		}
		q.giveBack()
		return silent
	case v == remote.RetryNow:
		ls.sendLocked(q)
	case v == remote.RetryLater:
		q.resting = time.AfterFunc(q.attempts.Pause(), func() { ls.resume(q) })
	case q.attempts.Err == nil && q.attempts.Reply.Status == lua.Denied:
		p.refusedLocked(q)
	default:
		if q.attempts.Err == nil { // granted, perhaps to a waiter without a place, and it may leave before it takes the grant
			p.acquisition.Entry().SetInQueue(true)
		}
		p.request, p.result = nil, &q.attempts.Outcome
		p.wakeLocked()
	}
	ls.mu.Unlock()
	return silent
}

// resume sends a request again after a pause. Its goroutine needs no owner: it does nothing if the
// waiter has left, and Close waits for the other waiters.
func (ls *waitlists) resume(q *request) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.resting = nil; !q.gone {
		ls.sendLocked(q)
	}
}

// giveBack gives back what a request has got, or may still get. Its waiter has left while the request
// was under way.
func (q *request) giveBack() {
	a, mayArriveLate := q.waiter.acquisition, q.mayArriveLate()
	if mayArriveLate || q.wantsPlace || q.attempts.Err == nil && q.attempts.Reply.Status == lua.Done {
		a.Entry().UndoLater(a.Want().TTL(), mayArriveLate)
	}
}

func (q *request) mayArriveLate() bool { return q.before || q.attempts.MayArriveLate }

// refusedLocked notes a refusal. The waiter goes on waiting.
func (p *waiter) refusedLocked(q *request) {
	o, l := &q.attempts.Outcome, p.list
	p.request = nil
	r := o.Reply.QueueRefusal()
	by := remote.RefusedBy(r)
	l.note.Refused(o.Sent, by)
	l.endsLocked(o.Sent, r.Millis)
	if by.Stays {
		p.result = o
		p.wakeLocked()
		return
	}
	if q.wantsPlace {
		if p.refusedAt == 0 {
			l.inQueue++
		}
		p.refusedAt = l.syncLocked(o.Sent, r.Time)
		p.foreign = r.Foreign
	}
	if p.mustAsk || p.granted != nil || p.entering || p.foreign && p.own == nil {
		p.wakeLocked()
	}
}
