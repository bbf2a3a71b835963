package holdfast

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Delays between the attempts of one operation: doubling from the first to the last, each shortened at random so that
// clients that failed together do not come back together.
const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = 250 * time.Millisecond
	// closingBudget is the retry budget of a client that is closing: long enough for connections that a restart of the
	// server left behind, short enough not to hold up a process that ends.
	closingBudget = time.Second
)

// outcome is what one operation, with all its attempts, came to.
type outcome struct {
	reply lua.Reply
	sent  time.Time // when the last attempt was sent: what is trusted is counted from here, never from the reply
	stray bool      // an attempt was sent that nobody answered: it may have run, and may still
	err   error
}

// operation builds the call of an attempt; again says that an earlier one may have been executed.
type operation func(again bool) lua.Call

// server is what operations are sent to: that of a client, or several masters of which the majority decides.
type server interface {
	// repeat runs an operation until there is an answer, the retry budget is spent or ctx ends. Between attempts it gives up; during
	// one it may not be able to. Each failure is left in failed, if that is given, for a caller that does not wait for the end.
	repeat(ctx context.Context, op operation, failed *atomic.Pointer[error]) outcome
	// pass keeps the lock for this client's next holder, or releases it if others want it. The outcome is as [kind.Hander] has it.
	pass(ctx context.Context, t *tenure, lease time.Duration, tokens int) outcome
	// release gives the lock back. The caller cannot cancel it.
	release(ctx context.Context, b *Base, names kind.Names) outcome
	// undo gives back what may have been granted to an owner id that nobody uses any more, nor will. It is for the background.
	// Without a straggler one release is enough.
	undo(b *Base, names kind.Names, lease time.Duration, stray bool)
}

// repeat runs an operation until the server answers, the retry budget is spent or ctx ends. Between attempts it gives
// up; during one it cannot, because go-redis does not interrupt a read. [Client.call] can.
func (c *Client) repeat(ctx context.Context, op operation, failed *atomic.Pointer[error]) outcome {
	return c.repeatFor(ctx, c, op, failed)
}

// repeatFor is repeat for a lock whose holds belong to the home client: its options and its end count.
func (c *Client) repeatFor(ctx context.Context, home *Client, op operation, failed *atomic.Pointer[error]) outcome {
	return c.persist(ctx, home, op, failed, func(ctx context.Context, call lua.Call) (lua.Reply, error) {
		return lua.Run(ctx, c.single, call)
	})
}

// persist is repeatFor with another way of running an attempt.
func (c *Client) persist(ctx context.Context, home *Client, op operation, failed *atomic.Pointer[error],
	run func(context.Context, lua.Call) (lua.Reply, error),
) (o outcome) {
	start := time.Now()
	o.sent = start
	for delay := firstBackoff; ; delay = min(2*delay, lastBackoff) {
		o.reply, o.err = run(ctx, op(o.stray))
		if o.err == nil {
			return o
		}
		if failed != nil {
			err := o.err
			failed.Store(&err)
		}
		sent, passing := classify(o.err)
		o.stray = o.stray || sent
		if !passing || control.Resend.Off() || time.Since(start)+delay > home.budget() {
			return o
		}
		if !isReply(o.err) && c.cluster != nil {
			// A ClusterClient asks a dead master again for up to a minute unless it is told to look.
			c.cluster.ReloadState(ctx)
		}
		select {
		case <-time.After(spread(delay)):
		case <-ctx.Done():
			return o
		}
		o.sent = time.Now()
	}
}

// budget is for how long an operation may go on.
func (c *Client) budget() time.Duration {
	if c.ctx.Err() != nil {
		return min(c.opts.RetryBudget, closingBudget)
	}
	return c.opts.RetryBudget
}

// classify tells of an error whether the command may have run all the same, and whether it is worth another attempt.
func classify(err error) (sent, passing bool) {
	if isReply(err) {
		for _, prefix := range []string{
			"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "NOREPLICAS", "BUSY ", "MOVED", "ASK",
			"max number of clients", "UNBLOCKED", "WAIT cannot", "WAITAOF cannot", // the last three: it was demoted
		} {
			if lua.IsError(err, prefix) {
				return false, true // the server did not begin; soon it may
			}
		}
		return false, false
	}
	var op *net.OpError
	var unsent *combine.NotSentError
	switch {
	case errors.Is(err, ErrNotReplicated):
		return false, false // an answer too
	case errors.As(err, &unsent):
		return false, true
	case isHandshake(err):
		return false, false // certificates do not change by waiting
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return false, true // it never left
	case errors.Is(err, redis.ErrClosed):
		return false, false // the user closed the go-redis client
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true, false // may come from the wait for a connection or from the read; assume the worse
	}
	return true, true
}

// isHandshake tells whether TLS failed before anything else was sent: we do not trust the server, or it told us that it does
// not trust us, or it does not speak TLS.
func isHandshake(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var op *net.OpError
	return errors.As(err, &untrusted) || errors.As(err, &plain) || errors.As(err, &op) && op.Op == "remote error"
}

// call runs an operation for a caller who leaves when ctx ends, at once even if go-redis sits in a read. The operation
// then goes on in the background and late is called with what came of it, in place of a return from call.
//
// Without ok the outcome is only why the operation had failed so far, if it had.
//
// A context that cannot end costs nothing; for the others the operation runs in a goroutine of its own, because there
// is no other way to leave a read. (Rejected: go-redis's ContextTimeoutEnabled. It is the user's setting, and it covers
// deadlines but not cancellation.)
func (c *Client) call(ctx context.Context, s server, op operation, late func(outcome)) (o outcome, ok bool) {
	if ctx.Done() == nil {
		return s.repeat(ctx, op, nil), true
	}
	var failed atomic.Pointer[error]
	var settled atomic.Bool // by the first of the two: result delivered, or caller gone
	result := make(chan outcome, 1)
	c.tasks.Go(func() {
		o := s.repeat(ctx, op, &failed)
		if settled.CompareAndSwap(false, true) {
			result <- o
			return
		}
		late(o)
	})
	select {
	case o = <-result:
		return o, true
	case <-ctx.Done():
	}
	if settled.CompareAndSwap(false, true) {
		if err := failed.Load(); err != nil {
			o.err = *err
		}
		return o, false
	}
	return <-result, true
}

// detached runs an operation that its caller cannot cancel, and returns when it is done or the retry budget is spent.
// The last attempt may end later, by go-redis's ReadTimeout. (Rejected: a goroutine and a timer, as in call, which would
// bound it to the millisecond. They cost every unlock a sixth of its time.)
func detached(ctx context.Context, s server, op operation) outcome {
	if !control.Detach.Off() {
		ctx = detach(ctx)
	}
	return s.repeat(ctx, op, nil)
}

// detach is a context that does not end with the one given.
func detach(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx // spares what a wrapper costs
	}
	return context.WithoutCancel(ctx)
}

// pass is [server.pass].
func (c *Client) pass(ctx context.Context, t *tenure, lease time.Duration, tokens int) outcome {
	return detached(ctx, c, func(bool) lua.Call { return t.base.hander.Pass(t.known(), lease, tokens, c.publish) })
}

// release is [server.release].
func (c *Client) release(ctx context.Context, b *Base, names kind.Names) outcome {
	return detached(ctx, c, b.release(names))
}

// renew is the watchdog's access to the server: one pipeline for all that are due, and few scripts in it. What got no answer
// keeps the verdict [watchdog.Unknown].
func (c *Client) renew(ctx context.Context, batch []watchdog.Renewal) {
	calls, names, changes := make([]lua.Call, len(batch)), make([]string, len(batch)), make([]uint64, len(batch))
	for i, r := range batch {
		calls[i], names[i], changes[i] = r.Owner.(*tenure).renewal(r.Length)
	}
	run := lua.RunAll
	if _, one := c.rdb.(*redis.Client); one {
		// (Not in a cluster: a script's keys share a slot, and there are so many slots that those of names are rarely the same.)
		run = lua.RenewAll
	}
	silent := false
	for i, result := range run(ctx, c.rdb, calls) {
		t := batch[i].Owner.(*tenure)
		switch {
		case result.Err == nil && result.Reply.Status == lua.Done:
			batch[i].Verdict = watchdog.Renewed
			t.renewed(names[i])
			if t.refusal.Load() != nil {
				t.refusal.Store(nil)
			}
		case result.Err == nil && !t.believes(changes[i]):
			// It looked for a name that was changed meanwhile: it is asked again.
		case result.Err == nil, lua.IsError(result.Err, "WRONGTYPE"):
			batch[i].Verdict = watchdog.Gone // somebody else's hash, none, or no hash at all
		case isReply(result.Err):
			refusal := explain(t.base, result.Err)
			t.refusal.Store(&refusal)
		default:
			silent = true
		}
	}
	if silent && c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}
