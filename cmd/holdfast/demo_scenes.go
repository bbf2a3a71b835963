package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// slack is how late something may be on a busy machine. Nothing may be early.
func slack() time.Duration { return pace() * time.Second }

// rounding is how early something may seem, because Redis counts in whole milliseconds.
const rounding = 2 * time.Millisecond

// demoQueue is how many wait for the fair lock.
const demoQueue = 6

func (d *demoRun) reentry() {
	outer := d.granted(d.do(d.a, lock(plain)))
	state := d.state()
	d.check("A locks", outer.Count == 1 && agree(state, outer), "token %d", outer.Token)

	inner := d.do(d.a, lock(plain))
	state = d.state()
	d.check("A locks again: the same owner", inner.Count == 2 && inner.Owner == outer.Owner &&
		inner.Token == outer.Token && agree(state, inner), "same token; Redis counts %d", state.Count)

	d.do(d.a, unlock(plain))
	state = d.state()
	d.check("A unlocks once: it still holds the lock", agree(state, outer), "Redis counts %d", state.Count)
}

func (d *demoRun) renewal() {
	try := d.do(d.b, lockOnce(plain))
	d.check("B tries, without waiting", try.Refusal == notAcquired, "%s", try.outcome())

	before, waiting := d.state(), d.b.send(lock(plain))
	d.pause(demoHolding())
	state := d.state()
	d.check(fmt.Sprintf("A holds it for %s; B waits", brief(demoHolding())),
		state.Owner == before.Owner && state.Owner != "" && state.Remaining > 0 && state.Remaining <= demoLease(),
		"Redis: %s left of %s", brief(state.Remaining), brief(demoLease()))

	release := d.do(d.a, unlock(plain))
	grant := d.granted(d.wait(waiting))
	gap := grant.Ended.Sub(release.Began)
	// A longer gap would mean that B found the end of the lease, and no message woke it.
	d.check("A unlocks: a message wakes B", release.Refusal == "" && gap > 0 && gap < demoLease()/2,
		"%s from unlock to grant", brief(gap))
}

func (d *demoRun) death() {
	waiting := d.a.send(lock(plain))
	d.b.kill()
	asked, state := time.Now(), d.state()
	d.check("B is killed with SIGKILL; A waits", state.Owner != "" && state.Token == d.last && state.Remaining > 0,
		"%s left of its lease", brief(state.Remaining))

	grant := d.granted(d.wait(waiting))
	gap := grant.Ended.Sub(asked)
	d.check("A gets it at the end of B's lease", grant.Refusal == "" && gap > state.Remaining-rounding &&
		gap < state.Remaining+slack(), "after %s", brief(gap))
}

func (d *demoRun) loss() {
	lost, deleted := d.a.send(Request{Op: "loss", Lock: plain}), time.Now()
	noError(d.rdb.Del(d.ctx, d.start.Name).Err())
	loss := d.wait(lost)
	after := loss.Ended.Sub(deleted)
	d.check("the demo deletes the key: A is told", loss.Refusal == lockLost && loss.Token == d.last &&
		after < demoLease()/3+slack(), "%s, after %s", loss.Refusal, brief(after))

	grant := d.granted(d.do(d.c, lock(plain)))
	release := d.do(d.a, unlock(plain))
	d.check("C locks; A cannot unlock C's lock", release.Refusal == lockLost && agree(d.state(), grant),
		"%s; C has it", release.outcome())
}

func (d *demoRun) fencing() {
	fresh := d.do(d.c, Request{Op: "write", Value: "from C"})
	d.check("C writes; its context has its token", fresh.Refusal == "", "accepted: %d", fresh.Token)

	stale := d.do(d.a, Request{Op: "write", Value: "from A"})
	stored := must(d.rdb.Get(d.ctx, d.start.Store).Result())
	d.check("A writes too late: Redis refuses it", stale.Refusal == staleToken && stale.Seen == fresh.Token &&
		stale.Token < fresh.Token && stored == "from C", "refused: %d", stale.Token)

	d.check("each grant had a greater token", d.grants == 4, "%d grants", d.grants)

	release := d.do(d.c, unlock(plain))
	d.check("C unlocks", release.Refusal == "" && d.state().Owner == "", "the lock is free")
}

// queue makes A and C wait in turn while the demo itself holds the fair lock.
func (d *demoRun) queue() {
	hold := must(d.locks.fair.Lock(d.ctx))
	d.clientID, _, _ = strings.Cut(hold.Owner(), ":")
	defer func() { _ = hold.Unlock(d.ctx) }() // in case the demo stops here
	var visits []pending
	for i := range demoQueue {
		visits = append(visits, []*workerProcess{d.a, d.c}[i%2].send(visit(fair, 1)))
		d.awaitQueue(d.locks.fair, i+1)
	}
	queue := must(d.rdb.LRange(d.ctx, keys.For(d.locks.fair.Name()).Queue, 0, -1).Result())
	d.check("A and C queue in turn, three times each", len(queue) == demoQueue, "Redis says %d wait", len(queue))

	noError(hold.Unlock(d.ctx))
	var grants []Reply
	for _, v := range visits {
		grants = append(grants, d.wait(v))
	}
	slices.SortFunc(grants, func(a, b Reply) int { return cmp.Compare(a.Token, b.Token) })
	came, got := "", ""
	for i, grant := range grants {
		came, got = came+strconv.Itoa(i+1), got+strconv.Itoa(slices.Index(queue, grant.Owner)+1) // 0: refused
	}
	d.check("one unlock: each hands it to the next", got == came, "came %s, granted %s", came, got)
}

// state is the first lock as Redis has it.
func (d *demoRun) state() holdfast.State { return must(d.locks.plain.State(d.ctx)) }

// agree says whether Redis has what a worker was told.
func agree(state holdfast.State, r Reply) bool {
	return r.Refusal == "" && state.Owner == r.Owner && state.Count == r.Count && state.Token == r.Token
}

// granted notes the token of a grant; a refusal has none.
func (d *demoRun) granted(r Reply) Reply {
	if r.Token > d.last {
		d.last, d.grants = r.Token, d.grants+1
	}
	return r
}

const (
	demoCrowd   = 4  // how many goroutines of a worker use a lock at once
	demoRounds  = 5  // and how often each of them
	demoWaiters = 50 // how many goroutines of a worker wait for the latch
)

func (d *demoRun) readers() {
	d.b = d.worker("B", d.start) // it was killed
	a, c := d.do(d.a, lock(reading)), d.do(d.c, lock(reading))
	state := must(d.locks.rw.State(d.ctx))
	d.check("A and C read together", inside(state, false, a, c), "%d readers", len(state.Holders))

	waiting := d.b.send(lock(writing))
	d.until("B waits to write", func() bool { return must(d.locks.rw.State(d.ctx)).Waiters > 0 })
	late := visit(reading, 1) // as a new owner: A's own may read again
	late.Once = true
	refused := d.do(d.a, late)
	d.check("B waits to write: new readers wait", refused.Refusal == notAcquired, "%s", refused.outcome())

	d.do(d.a, unlock(reading))
	d.do(d.c, unlock(reading))
	b := d.wait(waiting)
	alone := inside(must(d.locks.rw.State(d.ctx)), true, b)
	d.check("A and C stop: B writes, alone", alone && b.Token > max(a.Token, c.Token), "token %d", b.Token)

	d.do(d.b, unlock(writing))
}

// inside says whether exactly these workers read or write.
func inside(state rwlock.State, write bool, who ...Reply) bool {
	for _, r := range who {
		is := func(h holdfast.Holder) bool { return h.Owner == r.Owner }
		if r.Refusal != "" || !slices.ContainsFunc(state.Holders, is) {
			return false
		}
	}
	return state.Writing == write && len(state.Holders) == len(who)
}

func (d *demoRun) permits() {
	a, c := d.do(d.a, take(2)), d.do(d.c, take(1))
	try := d.do(d.b, lockOnce(permits))
	state := must(d.locks.permits.State(d.ctx))
	d.check("A takes two, C takes one; B tries", a.Count == 2 && c.Count == 1 && state.Free == 0 &&
		try.Refusal == notAcquired, "%s", try.outcome())
	d.do(d.a, unlock(permits))
	d.do(d.c, unlock(permits))

	grants, most := d.crowd(map[*workerProcess]string{d.a: permits, d.b: permits, d.c: permits})
	d.check(fmt.Sprintf("%d goroutines of A, B and C in turn", 3*demoCrowd),
		grants == 3*demoCrowd*demoRounds && most <= demoPermits, "%d grants, at most %d inside", grants, most)
}

// crowd makes goroutines of several workers use a lock in turn. It returns how often they got it,
// and how many held it at once, at most.
func (d *demoRun) crowd(who map[*workerProcess]string) (grants int, most int64) {
	var visits []pending
	for w, name := range who {
		for range demoCrowd {
			visits = append(visits, w.send(visit(name, demoRounds)))
		}
	}
	for _, v := range visits {
		r := d.wait(v)
		grants, most = grants+r.Count, max(most, r.Inside)
	}
	return grants, most
}

func (d *demoRun) opening() {
	must(d.locks.latch.Set(d.ctx, 2))
	var waiters []pending
	for range demoWaiters {
		waiters = append(waiters, d.a.send(Request{Op: "await"}), d.c.send(Request{Op: "await"}))
	}
	closed := func() bool {
		once := Request{Op: "await", Once: true}
		return d.do(d.a, once).Refusal == notAcquired && d.do(d.c, once).Refusal == notAcquired &&
			!slices.ContainsFunc(waiters, pending.arrived)
	}
	before, left := closed(), must(d.locks.latch.CountDown(d.ctx))
	d.check("A and C wait; one of two has counted", before && left == 1 && closed(), "%d wait", len(waiters))

	began, awake, after := time.Now(), 0, time.Duration(0)
	left = must(d.locks.latch.CountDown(d.ctx))
	for _, w := range waiters {
		if r := d.wait(w); r.Refusal == "" {
			awake, after = awake+1, max(after, r.Ended.Sub(began))
		}
	}
	d.check("the other one counts: all are awake", left == 0 && awake == len(waiters),
		"%d, after %s", awake, brief(after))
}

func (d *demoRun) several() {
	hold := must(d.locks.y.Lock(d.ctx))
	defer func() { _ = hold.Unlock(d.ctx) }() // in case the demo stops here
	try := d.do(d.a, lockOnce(both))
	d.check("y is taken: A tries both, and has none", try.Refusal == notAcquired && d.free(d.locks.x),
		"%s", try.outcome())
	noError(hold.Unlock(d.ctx))

	grants, most := d.crowd(map[*workerProcess]string{d.a: both, d.c: bothReversed})
	d.check(fmt.Sprintf("%d take x and y, %d take y and x", demoCrowd, demoCrowd), grants == 2*demoCrowd*demoRounds &&
		most == 1 && d.free(d.locks.x) && d.free(d.locks.y), "%d grants, none is stuck", grants)
}

func (d *demoRun) free(m *rlock.Mutex) bool { return must(m.State(d.ctx)).Owner == "" }

// leaders makes A lead and resign, then B lead and die.
func (d *demoRun) leaders() {
	lead := func(value string, lease time.Duration) Request {
		return Request{Op: "lock", Lock: leadership, Value: value, Lease: lease}
	}
	// leads says whether everybody learns of the worker that was told that it leads.
	leads := func(value string, r Reply) bool {
		l := must(d.locks.election.Leader(d.ctx))
		return r.Refusal == "" && l.Value == value && l.Owner == r.Owner && l.Token == r.Token
	}
	queue := fairlock.New(d.client, d.locks.election.Name())
	a := d.do(d.a, lead("A", 0))
	waitingB := d.b.send(lead("B", demoLease()))
	d.awaitQueue(queue, 1)
	waitingC := d.c.send(lead("C", 0))
	d.awaitQueue(queue, 2)
	d.check("A leads; B and C are candidates", leads("A", a), `Redis names "A"`)

	resigned := d.do(d.a, unlock(leadership))
	next := must(queue.State(d.ctx)).Owner // Redis makes the first candidate the owner in the same step
	b := d.wait(waitingB)
	d.check("A resigns: B leads at once", resigned.Refusal == "" && next == b.Owner && leads("B", b) &&
		b.Token > a.Token, `after %s; Redis names "B"`, brief(b.Ended.Sub(resigned.Began)))

	// The lease of the hand-over is longer than that of B.
	remaining := func() time.Duration { return must(d.locks.election.Leader(d.ctx)).Remaining }
	d.until("B has renewed its lease", func() bool { return remaining() <= demoLease() })
	d.b.kill()
	asked, left := time.Now(), remaining()
	c := d.wait(waitingC)
	gap := c.Ended.Sub(asked)
	d.check("B is killed: C leads after B's lease", leads("C", c) && c.Token > b.Token && left > 0 &&
		gap > left-rounding, `after %s; it names "C"`, brief(gap))
	d.do(d.c, unlock(leadership))
}
