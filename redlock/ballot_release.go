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

// giveBack sends a release to every master that has granted the lock, or may have, and passes each
// answer to onAnswer. If a master does not answer, or a vote is still under way or comes late, the
// release goes on in the background. giveBack returns the masters whose answers onAnswer will get.
//
// Redis may execute the release before the vote if the two travel by different connections. So the
// release waits a little for the answer to the vote, and is sent again if the vote arrives later.
func (b *ballot) giveBack(ctx context.Context, budget remote.SharedBudget, publish string,
	onAnswer func(i int, o remote.Outcome)) (asked []int) {
	b.mu.Lock()
	b.over = true
	to := b.whereLocked(func(v *vote) bool { return v.asked && !v.releaseSent })
	rest := b.rest
	b.mu.Unlock()
	ctx = remote.Detach(ctx)
	release := b.q.voter.Release(b.id, publish) // the same for all masters
	call := func(bool) lua.Call { return release }
	if rest != nil {
		call = func(bool) lua.Call { return b.releaseCommand(rest()) }
	}
	for _, i := range to {
		v := b.q.voters[i]
		before, done := v.sequence.enter()
		b.q.base.Client.Tasks().Often(func() {
			v.wait(before, b.patience)
			o, again := b.releaseAt(ctx, budget, i, call)
			close(done)
			onAnswer(i, o)
			if again {
				b.undoAt(i)
			}
		})
	}
	return to
}

// releaseCommand is the command that ends the lock for its owner at a master: at once, or, if rest is
// positive, after that time.
func (b *ballot) releaseCommand(rest time.Duration) lua.Call {
	publish := b.q.base.Client.Server().Publish
	if rest > 0 {
		return b.q.voter.ReleaseAfter(b.id, rest, publish)
	}
	return b.q.voter.Release(b.id, publish)
}

// keepFor notes for how long the lock must stay taken. A release then keeps the lock for the rest of
// that time.
func (b *ballot) keepFor(rest func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = rest
}

// releaseAt sends one release, if there may be something to release. again reports whether another
// release may be needed.
func (b *ballot) releaseAt(ctx context.Context, budget remote.SharedBudget, i int, call remote.Operation) (
	o remote.Outcome, again bool) {
	b.mu.Lock()
	vote := &b.votes[i]
	vote.releaseSent = true
	mayArriveLate, nothing := vote.mayArriveLate, vote.out == 0 && !vote.mayArriveLate && !vote.granted
	b.mu.Unlock()
	if nothing {
		return remote.Outcome{Reply: lua.Reply{Status: lua.Gone}}, false
	}
	// The home client sends the release, because its options and its Close decide.
	o = b.q.base.Client.Session().Repeat(ctx, b.q.voters[i].client.Server(), call, remote.Retry{Budget: budget}, nil)
	if o.MayArriveLate && o.Err == nil {
		if o.Reply.Status == lua.Gone {
			o.Err = b.takenAt(ctx, budget, i)
		}
		o.Reply.Status = lua.Done // the attempt before may have released it
	}
	return o, mayArriveLate || o.MayArriveLate || o.Err != nil
}

// takenAt returns an error if a master may have granted the lock to another owner before this owner released it.
func (b *ballot) takenAt(ctx context.Context, budget remote.SharedBudget, i int) error {
	b.mu.Lock()
	last := b.votes[i].token
	b.mu.Unlock()
	return b.q.base.Client.Session().Taken(ctx, b.q.voters[i].client.Server(), b.q.voter.Name(), b.id, last, false, budget)
}

// undoAt makes the home client repeat the release at a master until no vote can arrive any more. If
// the lock must stay taken, the release waits until that time is over: a late vote may last as
// long as the others, and then, without the release, for the rest of a lease.
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
func (b *ballot) Release(ctx context.Context, budget remote.SharedBudget, rest func() time.Duration) remote.Outcome {
	if rest() > 0 {
		b.keepFor(rest)
	}
	type masterOutcome struct {
		from int
		remote.Outcome
	}
	answers := make(chan masterOutcome, len(b.votes))
	asked := b.giveBack(ctx, budget, b.q.base.Client.Server().Publish,
		func(i int, o remote.Outcome) { answers <- masterOutcome{i, o} })
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
			return b.Released(remote.Outcome{Err: failure, MayArriveLate: failure.open()})
		}
		a := <-answers
		p.answers[a.from] = answer{reply: a.Reply, err: a.Err, unsent: a.Err != nil && (!a.MayArriveLate || a.Unsent)}
		if a.Err == nil && a.Reply.Status == lua.Done && (reply.Status != lua.Done || reply.Unannounced() != "") {
			reply = a.Reply // the reply of a master that announced the release, if there is one
		}
	}
}

// withdraw gives back a ballot that did not win. It returns when the masters that had granted it
// have released it, or did not answer in time. The result is how many masters had granted it.
//
// The release is announced only if other clients may have seen this owner at a majority, because
// they wait for an announcement then. Votes of a minority do not keep others from asking again
// soon. And such an announcement would first wake the owner that withdraws, again and again while
// another owner holds the lock.
func (b *ballot) withdraw(ctx context.Context) (granted int) {
	b.mu.Lock()
	held := b.whereLocked(func(v *vote) bool { return v.held })
	seen := b.whereLocked(func(v *vote) bool { return v.granted || v.mayArriveLate || v.out > 0 })
	b.mu.Unlock()
	publish := ""
	if len(seen) >= b.q.need {
		publish = b.q.base.Client.Server().Publish
	}
	answers := make(chan int, len(b.votes))
	asked := len(b.giveBack(ctx, remote.SharedBudget{}, publish, func(i int, _ remote.Outcome) { answers <- i }))
	if missing := held; len(held) > 0 {
		await(context.Background(), b.patience, answers, asked, func(i int) bool {
			missing = without(missing, i)
			return len(missing) == 0
		})
	}
	return len(held)
}

// whereLocked lists the masters for whose votes the condition is true.
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

// undoAfter makes the home client release the lock when its time is over, at the masters that have
// not released it.
func (b *ballot) undoAfter(rest func() time.Duration) {
	b.keepFor(rest)
	b.mu.Lock()
	b.over = true
	to := b.whereLocked(func(v *vote) bool { return v.asked && !v.releaseSent })
	for _, i := range to {
		b.votes[i].releaseSent = true
	}
	b.mu.Unlock()
	for _, i := range to {
		b.undoAt(i)
	}
}

// UndoLater is [engine.Entry.UndoLater].
func (b *ballot) UndoLater(time.Duration, bool) {
	b.q.base.Client.Tasks().Go(func() { b.withdraw(context.Background()) })
}

// UndoIfNeeded is [engine.Entry.UndoIfNeeded].
func (b *ballot) UndoIfNeeded(rest func() time.Duration, lease time.Duration) {
	undo, mayArriveLate := b.TakeUndo()
	switch {
	case !undo:
	case rest() > 0:
		b.undoAfter(rest)
	default:
		b.UndoLater(lease, mayArriveLate)
	}
}

// ReleaseAll is [engine.Renewer.ReleaseAll]. Votes that remain at a minority of the masters do not
// keep others out.
func (v votes) ReleaseAll(owners []watchdog.Owner) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards the rest
	locks, why := 0, error(nil)
	for _, o := range owners {
		t := o.(*engine.ServerLease)
		t.End() // before the first lock is released
		all.Go(func() {
			if err := t.ReleaseAtClose(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				locks, why = locks+1, err
			}
		})
	}
	all.Wait()
	v.home.NoteUnreleased(locks, why)
}
