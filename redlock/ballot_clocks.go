package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
)

// learnClocks asks the masters for their clocks and who they are, until all have answered or the patience is over. It does
// nothing if enough clocks are known to propose a token by them, and each master was asked who it is, so only the first
// election of a client asks. (Rejected: to go on as soon as enough clocks are known. If one clock is wrong, the
// distance of the masters would decide which clock a token is made by. Also rejected: to leave it to the votes who the
// masters are. A majority may have voted before the second client of one server has its answer.)
func (b *ballot) learnClocks(ctx context.Context) {
	if b.q.majorityTime(time.Now()) > 0 && !slices.ContainsFunc(b.q.voters, func(v *voter) bool { return !v.IsMet() }) {
		return
	}
	unknown := func(v *voter) bool {
		return v.client.Context().Err() == nil && (!v.IsMet() || v.client.Server().Clock.At(time.Now()) <= 0)
	}
	b.consult(ctx, unknown, func(ctx context.Context, v *voter) (int, error) {
		err := v.Meet(ctx)
		if unanswered(err) == nil {
			err = v.client.Server().LearnClock(ctx)
		}
		return 0, err
	}, func(int) bool { return false })
}

// consult asks some masters for a number at the same time, but not those that are known to be silent. It passes each answer to
// enough, -1 for an error, and returns when that is true, when all have answered, when the patience is over, or when ctx ends.
func (b *ballot) consult(ctx context.Context, to func(*voter) bool, ask func(context.Context, *voter) (int, error),
	enough func(n int) bool) {
	answers, asked := make(chan int, len(b.votes)), 0
	for _, v := range b.q.voters {
		if !to(v) {
			continue
		}
		if send, _ := v.Begin(b.patience); send {
			asked++
			b.q.base.Client.Tasks().Often(func() {
				ctx, cancel := v.client.Server().Within(remote.Detach(ctx), b.patience) // nobody waits longer
				defer cancel()
				v.Asks()
				n, err := ask(ctx, v)
				if v.ended(err); err != nil {
					n = -1
				}
				answers <- n
			})
		}
	}
	await(ctx, b.patience, answers, asked, enough)
}

// await passes each answer to enough. It returns when that is true, when none is missing, when the patience is over, or when
// ctx ends.
func await[T any](ctx context.Context, patience time.Duration, answers <-chan T, missing int, enough func(T) bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for ; missing > 0; missing-- {
		select {
		case a := <-answers:
			if enough(a) {
				return
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
