package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// giveBack sends a release to every master that has granted the lock, or may have, and hands each
// one's answer on. It goes on in the background where there is none, and where a vote is still
// under way, or comes late. It returns which masters will answer.
//
// Redis may execute the release before the vote, where the two travel by different connections. So
// it waits for the answer to that a little, and is sent again when the vote has come after all.
func (b *ballot) giveBack(ctx context.Context, publish string, hear func(i int, o remote.Outcome)) (asked []int) {
	b.mu.Lock()
	b.over = true
	to := b.whereLocked(func(v *vote) bool { return v.asked && !v.given })
	rest := b.rest
	b.mu.Unlock()
	ctx = remote.Detach(ctx)
	release := b.q.voter.Release(b.id, publish) // the same for all
	call := func(bool) lua.Call { return release }
	if rest != nil {
		call = func(bool) lua.Call { return b.farewell(rest()) }
	}
	for _, i := range to {
		v := b.q.voters[i]
		before, done := v.sequence.enter()
		b.q.base.Client.Tasks().Often(func() {
			v.wait(before, b.patience)
			o, again := b.releaseAt(ctx, i, call)
			close(done)
			hear(i, o)
			if again {
				b.undoAt(i)
			}
		})
	}
	return to
}

// farewell is the command that ends the lock for its owner at a master: at once, or when it has
// stayed for so long.
func (b *ballot) farewell(rest time.Duration) lua.Call {
	publish := b.q.base.Client.Server().Publish
	if rest > 0 {
		return b.q.voter.Leave(b.id, rest, publish)
	}
	return b.q.voter.Release(b.id, publish)
}

// stays notes for how long the lock is to stay taken. What would release it leaves it then for the
// rest of that time.
func (b *ballot) stays(rest func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = rest
}

// releaseAt sends one release, if there may be something to release. again says that this may not
// have been enough.
func (b *ballot) releaseAt(ctx context.Context, i int, call remote.Operation) (o remote.Outcome, again bool) {
	b.mu.Lock()
	vote := &b.votes[i]
	vote.given = true
	stray, nothing := vote.stray, vote.out == 0 && !vote.stray && !vote.granted
	b.mu.Unlock()
	if nothing {
		return remote.Outcome{Reply: lua.Reply{Status: lua.Gone}}, false
	}
	// The home client sends it: its options count, and its end.
	o = b.q.base.Client.Session().Repeat(ctx, b.q.voters[i].client.Server(), call, nil)
	if o.Stray && o.Err == nil {
		o.Reply.Status = lua.Done // the attempt before may have done it
	}
	return o, stray || o.Stray || o.Err != nil
}

// undoAt has the home client go on releasing at a master until that must have been enough. What is
// to stay taken is left alone until then: a vote that comes late stands for as long as the others,
// and then goes on for the rest of a lease.
func (b *ballot) undoAt(i int) {
	b.mu.Lock()
	lease, rest := b.lease, engine.Nothing
	if b.rest != nil {
		rest = b.rest
	}
	b.mu.Unlock()
	b.q.base.Client.Session().Undo(b.q.voters[i].client.Server(), b.q.voter, b.id, rest(), lease, true)
}

// Release is [engine.Entry.Release]: the answer of the majority.
func (b *ballot) Release(ctx context.Context, rest func() time.Duration) remote.Outcome {
	if rest() > 0 {
		b.stays(rest)
	}
	type heard struct {
		from int
		remote.Outcome
	}
	answers := make(chan heard, len(b.votes))
	asked := b.giveBack(ctx, b.q.base.Client.Server().Publish, func(i int, o remote.Outcome) { answers <- heard{i, o} })
	p := b.q.newTally()
	for i := range p.answers {
		if !slices.Contains(asked, i) {
			p.answers[i] = answer{reply: lua.Reply{Status: lua.Gone}}
		}
	}
	var reply lua.Reply
	for missing := len(asked); ; missing-- {
		switch {
		case p.count((*answer).holds) >= b.q.need && !b.overtaken(none):
			return remote.Outcome{Reply: reply}
		case p.refused() > len(b.votes)-b.q.need || p.count((*answer).holds) >= b.q.need:
			return b.gone(p)
		case missing == 0:
			failure := &quorumError{b.q, p, p.count((*answer).holds)}
			return b.Released(remote.Outcome{Err: failure, Stray: failure.open()})
		}
		a := <-answers
		p.answers[a.from] = answer{reply: a.Reply, err: a.Err, unsent: a.Err != nil && (!a.Stray || a.Unsent)}
		if a.Err == nil && a.Reply.Status == lua.Done && (reply.Status != lua.Done || reply.Text(0) != "") {
			reply = a.Reply // of one that announced it, if there is one
		}
	}
}

// withdraw gives a ballot back that is of no use, and returns when the masters that had granted it
// have released it, or did not answer in time; it says how many those are.
//
// It is announced only if others may have seen this owner at a majority, for then they wait to be
// told. Votes of a minority keep nobody from looking again soon, and the first whom such an
// announcement would wake is the one who withdraws: without end, while somebody else holds the
// lock.
func (b *ballot) withdraw(ctx context.Context) (granted int) {
	b.mu.Lock()
	held := b.whereLocked(func(v *vote) bool { return v.held })
	seen := b.whereLocked(func(v *vote) bool { return v.granted || v.stray || v.out > 0 })
	b.mu.Unlock()
	publish := ""
	if len(seen) >= b.q.need {
		publish = b.q.base.Client.Server().Publish
	}
	answers := make(chan int, len(b.votes))
	asked := len(b.giveBack(ctx, publish, func(i int, _ remote.Outcome) { answers <- i }))
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	for missing := held; len(missing) > 0 && asked > 0; asked-- {
		select {
		case i := <-answers:
			missing = without(missing, i)
		case <-timer.C:
			return len(held)
		}
	}
	return len(held)
}

// whereLocked are the masters of whose votes something is so.
func (b *ballot) whereLocked(is func(*vote) bool) (list []int) {
	for i := range b.votes {
		if is(&b.votes[i]) {
			list = append(list, i)
		}
	}
	return list
}

func without(list []int, i int) (rest []int) {
	for _, other := range list {
		if other != i {
			rest = append(rest, other)
		}
	}
	return rest
}

// undoAfter has the home client give back, when the rest of its time is over, what was not
// released.
func (b *ballot) undoAfter(rest func() time.Duration) {
	b.stays(rest)
	b.mu.Lock()
	b.over = true
	to := b.whereLocked(func(v *vote) bool { return v.asked && !v.given })
	for _, i := range to {
		b.votes[i].given = true
	}
	b.mu.Unlock()
	for _, i := range to {
		b.undoAt(i)
	}
}

// Undo is [engine.Entry.Undo].
func (b *ballot) Undo(time.Duration, bool) {
	b.q.base.Client.Tasks().Go(func() { b.withdraw(context.Background()) })
}

// Abandon is [engine.Entry.Abandon].
func (b *ballot) Abandon(rest func() time.Duration, lease time.Duration) {
	undo, stray := b.TakeUndo()
	switch {
	case !undo:
	case rest() > 0:
		b.undoAfter(rest)
	default:
		b.Undo(lease, stray)
	}
}

// ReleaseAll is [engine.Renewer.ReleaseAll]. What is left at a minority of the masters keeps nobody
// out.
func (v votes) ReleaseAll(owners []watchdog.Owner) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards the rest
	locks, why := 0, error(nil)
	for _, o := range owners {
		t := o.(*engine.Tenure)
		t.End() // before the first of them is released
		all.Go(func() {
			if err := t.ReleaseAtClose(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				locks, why = locks+1, err
			}
		})
	}
	all.Wait()
	v.home.Leave(locks, why)
}
