package holdfast

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// pass is [server.pass]. One master is asked who listens for a release: the lock's waiters listen at all of them. If nobody else
// does, a majority is told of more tokens.
func (b *ballot) pass(ctx context.Context, t *tenure, lease time.Duration, tokens int) outcome {
	others := b.others(detach(ctx))
	if others == 0 {
		if o := b.reserve(ctx, t, lease, tokens); o.err == nil {
			return o
		}
	}
	o := b.release(ctx, t.base, nil)
	if o.err == nil && o.reply.Status == lua.Done {
		o.reply = lua.NewReply(lua.Denied, int64(others), o.reply.Text(0))
	}
	return o
}

// others is how many other clients listen for a release; -1 if no master tells.
func (b *ballot) others(ctx context.Context) int {
	lead, ok := b.q.lead(b.patience)
	if !ok {
		return -1
	}
	v, channel := b.q.voters[lead], b.q.voter.Channel()
	if send, _ := v.Begin(b.patience); !send {
		return -1
	}
	heard := make(chan int, 1)
	b.q.base.client.tasks.Go(func() {
		counts, err := v.client.rdb.PubSubNumSub(ctx, channel).Result()
		v.End(err == nil || isReply(err))
		if err != nil {
			heard <- -1
			return
		}
		heard <- max(int(counts[channel])-v.client.hub.Listens(channel), 0)
	})
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	select {
	case n := <-heard:
		return n
	case <-timer.C:
		return -1
	}
}

// reserve tells a majority of tokens to come, which the owner then hands out.
func (b *ballot) reserve(ctx context.Context, t *tenure, lease time.Duration, tokens int) outcome {
	e := election{ballot: b, sent: time.Now(), first: b.q.propose()}
	last := e.first + uint64(tokens) - 1 //nolint:gosec // at least 1
	if !e.tell(detach(ctx), lease, last) {
		return outcome{err: e.err}
	}
	b.q.saw(last)
	return outcome{sent: e.sent, reply: lua.NewReply(lua.Done, strconv.FormatUint(e.first, 10), strconv.FormatUint(last, 10))}
}
