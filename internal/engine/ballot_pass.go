package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// pass is [entry.pass]. A majority of the masters is asked who listens for a release. If nobody else does, a majority is told of more
// tokens.
func (b *ballot) pass(ctx context.Context, lease time.Duration, tokens int) outcome {
	return b.passed(func() outcome { return b.reserveOrRelease(ctx, lease, tokens) })
}

func (b *ballot) reserveOrRelease(ctx context.Context, lease time.Duration, tokens int) outcome {
	others := b.others(detach(ctx))
	if others == 0 {
		if o := b.reserve(ctx, lease, tokens); o.err == nil {
			return o
		}
	}
	o := b.release(ctx, nothing)
	if o.err == nil && o.reply.Status == lua.Done {
		o.reply = lua.NewReply(lua.Denied, int64(others), o.reply.Text(0))
	}
	return o
}

// others is how many other clients listen for a release; -1 if fewer than a majority of the masters tell. Waiters listen at all masters that
// they can reach. Whoever can be granted the lock reaches a majority of them, and any two majorities have a master in common: so the most
// that a majority says is none only if there is none.
func (b *ballot) others(ctx context.Context) (most int) {
	voters, need, asked := b.q.voters, b.q.need, 0
	if control.Listeners.Off() {
		voters, need = voters[:1], 1
	}
	answers := make(chan int, len(voters))
	for _, v := range voters {
		if send, _ := v.Begin(b.patience); send {
			asked++
			b.q.base.client.tasks.Often(func() { answers <- b.listeners(ctx, v) })
		}
	}
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	for told := 0; told < need; asked-- {
		if asked == 0 {
			return -1
		}
		select {
		case n := <-answers:
			if n >= 0 {
				told++
			}
			most = max(most, n)
		case <-timer.C:
			return -1
		}
	}
	return most
}

// listeners is how many other clients listen at one master, -1 if it does not tell.
func (b *ballot) listeners(ctx context.Context, v *voter) int {
	channel := b.q.voter.Channel()
	counts, err := v.client.numSub(ctx, channel)
	v.End(unanswered(err))
	if err != nil {
		return -1
	}
	return max(int(counts[channel])-v.client.hub.Listens(channel), 0)
}

// reserve tells a majority of tokens to come, which the owner then hands out.
func (b *ballot) reserve(ctx context.Context, lease time.Duration, tokens int) outcome {
	e := election{ballot: b, sent: suspend.System.Now(), first: b.q.propose()}
	last := e.first + uint64(tokens) - 1 //nolint:gosec // at least 1
	if !e.tell(detach(ctx), lease, last) {
		return outcome{err: e.err}
	}
	b.q.saw(last)
	if b.overtaken(none) {
		return b.gone(nil)
	}
	return outcome{sent: e.sent, reply: lua.NewReply(lua.Done, strconv.FormatUint(e.first, 10), strconv.FormatUint(last, 10))}
}

func (c *Client) numSub(ctx context.Context, channel string) (counts map[string]int64, err error) {
	defer panics.Into(&err)
	return c.rdb.PubSubNumSub(ctx, channel).Result()
}
