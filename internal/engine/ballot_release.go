package engine

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/lua"
)

// giveBack sends a release to every master that has granted the lock, or may have, and hands each one's answer on. It goes on in the
// background where there is none, and where a vote is still under way, or comes late. It returns which masters will answer.
//
// Redis may execute the release before the vote, where the two travel by different connections. So it waits for the answer to that
// a little, and is sent again when the vote has come after all.
func (b *ballot) giveBack(ctx context.Context, publish string, hear func(i int, o outcome)) (asked []int) {
	b.mu.Lock()
	b.over = true
	to := b.whereLocked(func(v *vote) bool { return v.asked && !v.given })
	rest := b.rest
	b.mu.Unlock()
	if !control.Detach.Off() {
		ctx = detach(ctx)
	}
	release := b.q.voter.Release(b.id, publish) // the same for all
	call := func(bool) lua.Call { return release }
	if rest != nil {
		call = func(bool) lua.Call { return b.farewell(rest()) }
	}
	for _, i := range to {
		v := b.q.voters[i]
		before, done := v.sequence.enter()
		b.q.base.client.tasks.Often(func() {
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

// farewell is the command that ends the lock for its owner at a master: at once, or when it has stayed for so long.
func (b *ballot) farewell(rest time.Duration) lua.Call {
	publish := b.q.base.client.publish
	if rest > 0 {
		return b.q.voter.Leave(b.id, rest, publish)
	}
	return b.q.voter.Release(b.id, publish)
}

// stays notes for how long the lock is to stay taken. What would release it leaves it then for the rest of that time.
func (b *ballot) stays(rest func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = rest
}

// releaseAt sends one release, if there may be something to release. again says that this may not have been enough.
func (b *ballot) releaseAt(ctx context.Context, i int, call operation) (o outcome, again bool) {
	b.mu.Lock()
	vote := &b.votes[i]
	vote.given = true
	stray, nothing := vote.stray, vote.out == 0 && !vote.stray && !vote.granted
	b.mu.Unlock()
	if nothing {
		return outcome{reply: lua.Reply{Status: lua.Gone}}, false
	}
	o = b.q.voters[i].client.repeatFor(ctx, b.q.base.client, call, nil)
	if o.stray && o.err == nil {
		o.reply.Status = lua.Done // the attempt before may have done it
	}
	return o, stray || o.stray || o.err != nil
}

// undoAt has the home client go on releasing at a master until that must have been enough. What is to stay taken is left alone until then:
// a vote that comes late stands for as long as the others, and then goes on for the rest of a lease.
func (b *ballot) undoAt(i int) {
	b.mu.Lock()
	lease, rest := b.lease, nothing
	if b.rest != nil {
		rest = b.rest
	}
	b.mu.Unlock()
	b.q.base.client.undoAt(b.q.voters[i].client, b.q.base, b.id, rest(), lease, true)
}

// release is [entry.release]: the answer of the majority.
func (b *ballot) release(ctx context.Context, rest func() time.Duration) outcome {
	if rest() > 0 {
		b.stays(rest)
	}
	type heard struct {
		from int
		outcome
	}
	answers := make(chan heard, len(b.votes))
	asked := b.giveBack(ctx, b.q.base.client.publish, func(i int, o outcome) { answers <- heard{i, o} })
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
			return outcome{reply: reply}
		case p.refused() > len(b.votes)-b.q.need || p.count((*answer).holds) >= b.q.need:
			return b.gone(p)
		case missing == 0:
			failure := &quorumError{b.q, p, p.count((*answer).holds)}
			return b.released(outcome{err: failure, stray: failure.open()})
		}
		a := <-answers
		p.answers[a.from] = answer{reply: a.reply, err: a.err}
		if a.err == nil && a.reply.Status == lua.Done && (reply.Status != lua.Done || reply.Text(0) != "") {
			reply = a.reply // of one that announced it, if there is one
		}
	}
}

// withdraw gives a ballot back that is of no use, and returns when the masters that had granted it have released it, or did not answer
// in time; it says how many those are.
//
// It is announced only if others may have seen this owner at a majority, for then they wait to be told. Votes of a minority keep
// nobody from looking again soon, and the first whom such an announcement would wake is the one who withdraws: without end, while
// somebody else holds the lock.
func (b *ballot) withdraw(ctx context.Context) (granted int) {
	if control.Withdraw.Off() {
		return 0
	}
	b.mu.Lock()
	held := b.whereLocked(func(v *vote) bool { return v.held })
	seen := b.whereLocked(func(v *vote) bool { return v.granted || v.stray || v.out > 0 })
	b.mu.Unlock()
	publish := ""
	if len(seen) >= b.q.need || control.Quiet.Off() {
		publish = b.q.base.client.publish
	}
	answers := make(chan int, len(b.votes))
	asked := len(b.giveBack(ctx, publish, func(i int, _ outcome) { answers <- i }))
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

// undoAfter has the home client give back, when the rest of its time is over, what was not released.
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

// undo is [entry.undo].
func (b *ballot) undo(time.Duration, bool) {
	b.q.base.client.tasks.Go(func() { b.withdraw(context.Background()) })
}

// abandon is [entry.abandon].
func (b *ballot) abandon(rest func() time.Duration, lease time.Duration) {
	undo, stray := b.takeUndo()
	switch {
	case !undo:
	case rest() > 0:
		b.undoAfter(rest)
	default:
		b.undo(lease, stray)
	}
}
