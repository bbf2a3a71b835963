package redlock

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
)

// KeepOrRelease is [engine.Entry.KeepOrRelease]. It asks a majority of the masters who listens for a release. If
// nobody else listens, it reserves more tokens at a majority.
func (b *ballot) KeepOrRelease(ctx context.Context, budget remote.SharedBudget, lease time.Duration,
	tokens int,
) remote.Outcome {
	return b.TrackKeepOrRelease(func() remote.Outcome { return b.reserveOrRelease(ctx, budget, lease, tokens) })
}

func (b *ballot) reserveOrRelease(ctx context.Context, budget remote.SharedBudget, lease time.Duration,
	tokens int) remote.Outcome {
	others := b.others(remote.Detach(ctx))
	if others == 0 {
		if o := b.reserve(ctx, lease, tokens); o.Err == nil {
			return o
		}
	}
	o := b.Release(ctx, budget, engine.Nothing)
	if o.Err == nil && o.Reply.Status == lua.Done {
		o.Reply = lua.PassReply{Listeners: int64(others), Unannounced: o.Reply.Unannounced()}.Reply(lua.Denied)
	}
	return o
}

// others is how many other clients listen for a release; -1 if fewer than a majority of the masters
// answer. Waiters listen at all masters that they can reach. A waiter that can be granted the lock
// reaches a majority of the masters, and any two majorities have a master in common. So if a
// majority names no listener, no such waiter exists.
func (b *ballot) others(ctx context.Context) (most int) {
	need, answered, to := b.q.need, 0, func(*voter) bool { return true }
	b.consult(ctx, to, b.listeners, func(n int) bool {
		if n >= 0 {
			answered++
		}
		most = max(most, n)
		return answered == need
	})
	if answered < need {
		return -1
	}
	return most
}

// listeners is how many other clients listen at one master.
func (b *ballot) listeners(ctx context.Context, v *voter) (int, error) {
	channel := b.q.voter.Channel()
	counts, err := numSub(ctx, v.client, channel)
	return max(int(counts[channel])-v.client.Hub().Listens(channel), 0), err
}

// reserve makes further tokens known to a majority. The owner then hands them out.
func (b *ballot) reserve(ctx context.Context, lease time.Duration, tokens int) remote.Outcome {
	e := election{ballot: b, sent: suspend.System.Now(), first: b.q.propose()}
	last := e.first + uint64(tokens) - 1 //nolint:gosec // at least 1
	if !e.tell(remote.Detach(ctx), lease, last) {
		return remote.Outcome{Err: e.err}
	}
	b.q.noteToken(last)
	if b.overtaken(none) {
		return b.gone(nil)
	}
	kept := lua.PassReply{First: strconv.FormatUint(e.first, 10), Last: strconv.FormatUint(last, 10)}
	return remote.Outcome{Sent: e.sent, Reply: kept.Reply(lua.Done)}
}

func numSub(ctx context.Context, c *engine.Client, channel string) (counts map[string]int64, err error) {
	defer panics.Into(&err)
	pipe := c.Redis().Pipeline() // for the timeout of its context
	cmd := pipe.PubSubNumSub(ctx, channel)
	pipeline.Exec(ctx, pipe)
	return cmd.Result()
}
