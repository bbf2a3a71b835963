package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
)

// meet has the client know its server's clock: it asks for it once, and returns why it could not. (Rejected for quorums: to send what may not
// be executed, as single servers are, so that the refusal tells the time. A token has to be proposed before the first vote is sent.)
func (c *Client) meet(ctx context.Context) (err error) {
	if c.clock.isKnown() {
		return nil
	}
	defer panics.Into(&err)
	sent, cmd := time.Now(), askTime{redis.NewTimeCmd(ctx, "time")}
	_ = c.rdb.Process(ctx, cmd) // the command keeps its error
	shown, err := cmd.Result()
	if err == nil {
		c.clock.saw(sent, strconv.FormatInt(shown.UnixMicro(), 10))
	}
	return err
}

// askTime is TIME, sent once: what go-redis sends again takes longer than an answer is waited for, and tells less of the time.
type askTime struct{ *redis.TimeCmd }

// NoRetry is asked by go-redis.
func (askTime) NoRetry() bool { return true }

// meet asks the masters for their clocks, until all have answered, or it took too long. It does nothing once so many are known that a token can
// be proposed by them: only the first election of a client asks. (Rejected: to go on as soon as so many are known. Where one of them is
// wrong, which of two a token goes by would be up to who is nearer.)
func (b *ballot) meet(ctx context.Context) {
	if b.q.shown(time.Now()) > 0 {
		return
	}
	answers, asked := make(chan struct{}, len(b.votes)), 0
	for _, v := range b.q.voters {
		if v.client.ctx.Err() != nil {
			continue
		}
		if send, _ := v.Begin(b.patience); send {
			asked++
			b.q.base.client.tasks.Often(func() {
				v.End(unanswered(v.client.meet(detach(ctx))))
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
