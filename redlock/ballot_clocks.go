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
	answers, asked := make(chan struct{}, len(b.votes)), 0
	for _, v := range b.q.voters {
		if v.client.Context().Err() != nil || v.IsMet() && v.client.Server().Clock.At(time.Now()) > 0 {
			continue
		}
		if send, _ := v.Begin(b.patience); send {
			asked++
			b.q.base.Client.Tasks().Often(func() {
				ctx, cancel := v.client.Server().Within(remote.Detach(ctx), b.patience)
				defer cancel()
				v.Asks()
				err := v.Meet(ctx)
				if unanswered(err) == nil {
					err = v.client.Server().LearnClock(ctx)
				}
				v.End(unanswered(err))
				answers <- struct{}{}
			})
		}
	}
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	for ; asked > 0; asked-- {
		select {
		case <-answers:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
