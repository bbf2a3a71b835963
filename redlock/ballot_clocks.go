package redlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
)

// learnClocks asks the masters for their clocks, until all have answered or the patience is over. It does
// nothing if enough clocks are known to propose a token by them, so only the first election of a
// client asks. (Rejected: to go on as soon as enough clocks are known. If one clock is wrong, the
// distance of the masters would decide which clock a token is made by.)
func (b *ballot) learnClocks(ctx context.Context) {
	if b.q.majorityTime(time.Now()) > 0 {
		return
	}
	answers, asked := make(chan struct{}, len(b.votes)), 0
	for _, v := range b.q.voters {
		if v.client.Context().Err() != nil {
			continue
		}
		if send, _ := v.Begin(b.patience); send {
			asked++
			b.q.base.Client.Tasks().Often(func() {
				v.End(unanswered(v.client.Server().LearnClock(remote.Detach(ctx))))
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
