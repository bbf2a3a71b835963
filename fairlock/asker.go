package fairlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// asker asks one master for those who wait in waitlists: whoever has a question leaves it here, and
// those that came meanwhile travel together. So ten thousand waiters take the stack of a few
// goroutines to ask, and not their own. It sends few pipelines at the same time, and one that takes
// long does not count, so that a slow name, or a dead connection, keeps others for 2 ms, or for
// twice a round trip where that is longer, see [asker.patience]. Its goroutines run while there is
// something to ask. All of it is guarded by the waitlists' mu.
type asker struct {
	lists    *waitlists
	master   *redis.Client
	waiting  []*inquiry
	flights  []*flight // under way, without those that take too long
	boarding bool      // one of them has begun and takes along all who wait
	timer    *time.Timer
	armed    bool // timer will fire
}

// flight is one goroutine that sends.
type flight struct{ begun time.Time }

const (
	// overtake is how long a pipeline of questions is waited for at least before others are sent
	// beside it, and mostOvertake at most.
	overtake, mostOvertake = 2 * time.Millisecond, 50 * time.Millisecond
	// maxFlights is how many pipelines are sent at the same time, beside those that take too long.
	// (Not more where the server is far, as package combine has it: who asks here is going to
	// wait.)
	maxFlights = 2
	// askChunk is how many questions travel together at most, so that the first does not wait long
	// for the last.
	askChunk = 128
)

// inquiry is what a place asks the server, with all its attempts.
type inquiry struct {
	place   *waiter
	effort  *remote.Effort // nil before the first attempt
	resting *time.Timer    // before the next attempt; nil while it is in the hands of the asker
	queue   bool           // asks for a place, and not only for the lock
	before  bool           // an earlier question of the owner may still arrive
	gone    bool           // the waiter has left: what the question may come to is given back at its end
}

// askLocked has a question asked for a place, that is to wake its waiter when there is an answer
// that concerns it. Like all that a waiter calls, it takes little of its stack.
func (ls *waitlists) askLocked(p *waiter, queue bool) {
	p.look = false
	p.asking = &inquiry{place: p, queue: queue}
	ls.sendLocked(p.asking)
}

// sendLocked leaves a question to the asker of its master. To find that takes a deep stack.
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

// sort gives the askers of the masters of a cluster their questions.
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

// giveUpLocked is for a waiter that leaves. A question that is under way is left to itself.
func (ls *waitlists) giveUpLocked(p *waiter) {
	q := p.asking
	switch {
	case q == nil:
		return
	case q.resting != nil:
		q.resting.Stop()
		if q.effort.Stray {
			p.acquisition.Entry().MarkStray()
		}
	default:
		p.acquisition.Entry().LeaveUndo()
	}
	p.asking, q.gone = nil, true
}

func (a *asker) addLocked(q *inquiry) {
	a.waiting = append(a.waiting, q)
	a.beginLocked()
}

// beginLocked sends a goroutine off with those who wait, if that may be.
func (a *asker) beginLocked() {
	if len(a.waiting) == 0 || a.boarding || len(a.flights) >= maxFlights {
		return
	}
	a.boarding = true
	a.lists.client.Tasks().Often(a.fly)
}

// hurry lets those who wait go on without the pipelines that take too long. Its goroutine lives for
// one look. It needs no owner: it is started while something is under way.
func (a *asker) hurry() {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	a.armed = false
	late := time.Now().Add(-a.patience())
	a.flights = slices.DeleteFunc(a.flights, func(f *flight) bool { return !f.begun.After(late) })
	a.beginLocked()
	a.armLocked()
}

// patience is how long a pipeline is waited for: longer where all take long. A server that has too
// much to do would get one more with each look, and each takes a connection.
func (a *asker) patience() time.Duration {
	return min(max(overtake, 2*a.lists.client.RoundTrip()), mostOvertake)
}

// armLocked has what is under way looked after.
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

// fly sends those who wait, and those who came meanwhile, until there is nobody.
func (a *asker) fly() {
	f := &flight{}
	for batch := a.board(f, true); len(batch) > 0; batch = a.board(f, false) {
		a.send(batch)
	}
}

// board takes out who is to be sent. What does not fit goes with the next. Without anybody the
// flight ends, and also if others may take them along.
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
			a.waiting = nil // ten thousand may have been there
		}
		f.begun = time.Now()
		a.flights = append(a.flights, f)
		a.beginLocked()
		a.armLocked()
		return batch
	}
	if len(a.flights) == 0 && len(a.waiting) == 0 && !a.boarding && a.lists.askers[a.master] == a {
		delete(a.lists.askers, a.master) // masters come and go
	}
	return nil
}

// send asks the questions once, but for those whose waiters have left.
func (a *asker) send(batch []*inquiry) {
	c := a.lists.client
	calls := make([]lua.Call, 0, len(batch))
	asked := batch[:0]
	last, now := time.Time{}, suspend.System.Now()
	for _, q := range batch {
		if a.isGone(q) {
			q.giveBack()
			continue
		}
		q.begin(now)
		calls, asked, last = append(calls, q.call()), append(asked, q), remote.Latest(last, q.effort.Deadline())
	}
	if len(asked) == 0 {
		return
	}
	// Hooks see the pipeline as a part of what the first of them does. No waiter's impatience is
	// the others'.
	ctx, cancel := context.WithDeadlineCause(remote.Detach(asked[0].place.acquisition.Context()), last,
		remote.ErrBudget)
	defer cancel()
	var results []lua.Result
	if len(calls) == 1 {
		reply, err := lua.Run(ctx, c.Server().Single, calls[0])
		results = []lua.Result{{Reply: reply, Err: err}}
	} else {
		results = lua.RunAll(ctx, c.Redis(), calls)
	}
	silent := false
	for i, q := range asked {
		err := results[i].Err
		if i > 0 {
			err = panics.Text(err) // it is the first one's, and the others are asked once more
		}
		silent = a.settle(ctx, q, results[i].Reply, err) || silent
	}
	if cluster := c.Server().Cluster; silent && cluster != nil {
		cluster.ReloadState(ctx)
	}
}

func (a *asker) isGone(q *inquiry) bool {
	a.lists.mu.Lock()
	defer a.lists.mu.Unlock()
	return q.gone
}

// begin begins an attempt.
func (q *inquiry) begin(now time.Time) {
	if p := q.place; q.effort == nil {
		c := p.list.lists.client
		e := remote.NewEffort(c.Server(), c.Session())
		q.before, q.effort = p.acquisition.Entry().IsStray(), &e
	}
	q.effort.Sent = now
}

// call is the script of the next attempt.
func (q *inquiry) call() lua.Call {
	a, l := q.place.acquisition, q.place.list
	c := l.lists.client
	return l.server.protocol.Acquire(kind.Ask{
		Owner: a.Owner(), Lease: a.Want().Stands(), Again: q.effort.Stray || q.before, Place: q.queue,
		Publish: c.Server().Publish, Tokens: 1, Until: c.Server().Clock.Limit(),
	})
}

// settle judges an attempt. It reports whether the server was silent, and is to be asked once more.
func (a *asker) settle(ctx context.Context, q *inquiry, reply lua.Reply, err error) (silent bool) {
	ls, p := a.lists, q.place
	v := q.effort.Judge(ctx, reply, err, p.acquisition.Failed())
	silent = v == remote.Later && !errs.IsReply(q.effort.Err)
	if v == remote.Settled {
		p.acquisition.Note(q.effort.Outcome)
	}
	ls.mu.Lock()
	switch {
	case q.gone:
		ls.mu.Unlock()
		q.giveBack()
		return silent
	case v == remote.AtOnce:
		ls.sendLocked(q)
	case v == remote.Later:
		q.resting = time.AfterFunc(q.effort.Pause(), func() { ls.resume(q) })
	case q.effort.Err == nil && q.effort.Reply.Status == lua.Denied:
		p.deniedLocked(q)
	default:
		p.asking, p.result = nil, &q.effort.Outcome
		p.wakeLocked()
	}
	ls.mu.Unlock()
	return silent
}

// resume is called after a pause. Its goroutine needs no owner: of a waiter that has left it does
// nothing, and Close waits for the others.
func (ls *waitlists) resume(q *inquiry) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.resting = nil; !q.gone {
		ls.sendLocked(q)
	}
}

// giveBack gives back what a question may come to, or has, whose waiter has left.
func (q *inquiry) giveBack() {
	a, e := q.place.acquisition, q.effort
	if q.before || q.queue || e != nil && (e.Stray || e.Err == nil && e.Reply.Status == lua.Done) {
		a.Entry().Undo(a.Want().Stands(), true)
	}
}

// deniedLocked goes on waiting.
func (p *waiter) deniedLocked(q *inquiry) {
	o, l := &q.effort.Outcome, p.list
	p.asking = nil
	p.acquisition.Failed().Store(nil)
	by := remote.RefusedBy(o.Reply, places.Fields)
	if o.Sent.After(l.said.At) {
		l.said = engine.Word{At: time.Now(), Blocker: by}
	}
	if by.Stays {
		p.result = o
		p.wakeLocked()
		return
	}
	if q.queue {
		p.refusedAt = l.syncLocked(o.Sent, o.Reply.Text(places.Clock))
		p.foreign = o.Reply.Int(2) == 1
	}
	if p.look || p.handed != nil || p.entering || p.foreign && p.own == nil {
		p.wakeLocked()
	}
}
