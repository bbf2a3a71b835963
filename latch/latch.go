// Package latch provides a count-down latch on Redis: Redisson's RCountDownLatch for Go, on the
// same key. A process sets a latch to a count, and any process counts it down. The latch opens when
// the count is zero, and all waiters then go on at once. A latch is not a lock.
//
// What it promises:
//
//   - CountDown counts once, even if its reply is lost and the client repeats the request, or if it
//     comes late. CountDown returns the count that its own call has left. So exactly one of the
//     calls that count a latch down gets 0, unless that call gets no answer. The server remembers a
//     call and its answer for as long as repeats of it may come.
//   - Every waiter learns that the latch is open: after the last CountDown, after Delete, when the
//     latch has ended, and when messages were lost with a connection. A message wakes the waiters,
//     one message for each client, however many wait there.
//   - A latch opens once. It may then be set anew, and repeats of earlier calls do not count.
//   - Every key has an end. A latch without a call of Set or CountDown ends after a day, or after
//     the time that [holdfast.Lease] says. Wait and Count do not prolong it.
//   - A name is a latch or a semaphore. The server refuses the second kind with an error: the key
//     of both is a number, so another key says which of the two it is.
//
// # Not promised
//
//   - That a semaphore of Redisson's is refused, or a latch of Redisson's by a semaphore.
//     Redisson's clients do not record which of the two the number is.
//   - That all have counted when Wait returns nil. An open latch proves nothing: a latch that was
//     never set is open, and so is one that was deleted, that has ended, or that the server has
//     lost. Set it before any process may wait, for instance before you start the workers, and give
//     it a [holdfast.Lease] longer than the work. If you must be sure, check the result of the
//     work.
//   - That CountDown notices that no latch was set. It then counts nothing, and returns 0 and no
//     error, like the call that opens a latch. A latch that is set afterwards begins with its whole
//     count.
//   - That a waiter sees a latch open that is set anew at once. If the waiter first learns that it
//     was set, it waits for the new one.
//   - Anything about the counting processes. If one dies before it has counted, the others wait
//     until their own time is over or the latch ends.
//   - What Redisson's clients do. They send CountDown once. It may be lost, or counted twice if
//     they repeat it themselves. A latch that they set has no end, and gets none here. Their delete
//     announces nothing. Waiters of this library find out within half a minute, when they ask
//     again.
//   - That Redisson's clients learn that a latch is open, if its name has a hash tag and the
//     cluster uses sharded pub/sub. Redisson's own do not work there.
//
// # Cost
//
// Set, CountDown, Count and Delete send one script each. All waiters of a client share a
// subscription and one query of the server. The client sends the query when a waiter comes, when a
// message comes, and every half minute, or every second while it cannot listen.
package latch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/operr"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "latch"

var ops = operr.Kind{Name: kindName, New: "Latch; make one with latch.New"}

// defaultStay is how long a latch stays without Set or CountDown.
const defaultStay = 24 * time.Hour

// Latch is a latch by name. Any number of Latches, in any number of processes, with one name on one
// Redis are the same. Make one with [New]; it holds no resources and needs no closing. All methods
// are safe for concurrent use.
type Latch struct {
	asker engine.Asker
	keys  keys.Latch
	stay  time.Duration
}

// New makes the latch called name on a client. [holdfast.Lease] says how long the latch stays without
// a call of Set or CountDown; the default is 24 h. All other options are refused; [holdfast.Wait] is for
// [Latch.Wait]. New sends nothing. For an invalid name, option or client, the first operation returns
// the error.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "orders:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *Latch {
	client := (*engine.Client)(c)
	name = client.InRedis(name)
	l := &Latch{keys: keys.ForLatch(name)}
	l.asker = engine.NewAsker(client, name, l.explain)
	cfg := engine.WithoutHold(defaultStay)
	if err := cfg.AddWithoutHold(kindName, engine.GivenLease, opts); err != nil && l.asker.Err == nil {
		l.asker.Err = err
	}
	l.stay = cfg.Lease
	return l
}

// Name is the name of the latch in Redis.
func (l *Latch) Name() string {
	if l == nil {
		return ""
	}
	return l.keys.Name
}

// Set sets the count, at least 1, if the latch is not set, and reports whether it did. False means
// that the latch is already set, and not open yet.
//
// Errors:
//   - [holdfast.ErrInvalid] for a count below 1, and other bad arguments;
//   - [holdfast.ErrUnavailable] if Redis did not answer, together with [holdfast.ErrUncertain] if the
//     server may have set the latch all the same;
//   - [holdfast.ErrClosed] if the client was closed;
//   - otherwise an error of Redis.
func (l *Latch) Set(ctx context.Context, count int) (bool, error) {
	if count < 1 || count > math.MaxInt32 {
		return false, l.fail("set", errs.Invalid("count is %d; set a latch to a number from 1 to %d", count, math.MaxInt32))
	}
	if err := l.checkLength("set"); err != nil {
		return false, err
	}
	r, err := l.change(ctx, "set", lua.LatchSet, count)
	return r.Changed, err
}

// CountDown counts down by one, and returns the count that this call has left, even if it was repeated
// after others had counted. 0 means that this call has opened the latch, or that none was set and
// nothing was counted. Errors are those of [Latch.Set]. With [holdfast.ErrUncertain] the call may have
// counted: call it again only if counting twice does no harm.
func (l *Latch) CountDown(ctx context.Context) (left int, err error) {
	r, err := l.change(ctx, "count down", lua.LatchCount, 0)
	if err != nil {
		return 0, err
	}
	if r.Unannounced != "" {
		return 0, l.fail("count down", unannouncedError(r.Unannounced))
	}
	return r.Left, nil
}

// Count returns the count that is left; 0 if the latch is open or was never set.
func (l *Latch) Count(ctx context.Context) (int, error) {
	if err := l.check("count"); err != nil {
		return 0, err
	}
	left, _, err := l.query(ctx)
	return left, l.fail("count", err)
}

// Delete removes the latch, which opens it for all waiters. It reports whether the latch was set.
// Errors are those of [Latch.Set].
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	r, err := l.change(ctx, "delete", lua.LatchDelete, 0)
	if err != nil {
		return false, err
	}
	if r.Unannounced != "" {
		return r.Changed, l.fail("delete", unannouncedError(r.Unannounced))
	}
	return r.Changed, nil
}

// unannouncedError is the error of a latch that is open, but whose announcement was refused.
func unannouncedError(refused string) error {
	return fmt.Errorf("done, but the waiters could not be told, and find out within %v: %s", rest, refused)
}

// change runs a script that changes the latch, with the arguments that all of them take. A repeat of the
// call has the same id. With an error the reply is zero.
func (l *Latch) change(ctx context.Context, op string, script *lua.Script, count int) (r lua.LatchReply, err error) {
	if err := l.check(op); err != nil {
		return r, err
	}
	if err := l.asker.MayAsk(ctx); err != nil {
		return r, l.fail(op, err)
	}
	c := l.asker.Client
	server, this := c.Server(), l.keys.Call(c.NewOwnerID(false))
	more := kind.Millis(2*c.Session().Budget()) + 10_000
	o, err := l.asker.Query(ctx, engine.Changes, func(publish string) lua.Call {
		return script.Call(l.keys.Name, this, l.keys.Counts, count, kind.Millis(l.stay), server.Clock.Limit(), more, publish, l.channel())
	})
	if err != nil {
		return r, l.fail(op, err)
	}
	r = o.Reply.Latch()
	server.Clock.Saw(o.Sent, r.Time)
	return r, nil
}

// channel is where the client's server announces.
func (l *Latch) channel() string {
	if l.asker.Client.Server().Publish == "SPUBLISH" {
		return l.keys.Sharded
	}
	return l.keys.Channel
}

// query asks what is left, and how long the latch lasts without Set or CountDown; negative: it does not
// end.
func (l *Latch) query(ctx context.Context) (left int, lasts time.Duration, err error) {
	o, err := l.ask(ctx)
	if err != nil {
		return 0, 0, err
	}
	r := o.Reply.LatchLook()
	return r.Left, remote.Remaining(r.Millis), nil
}

func (l *Latch) ask(ctx context.Context) (remote.Outcome, error) {
	return l.asker.Query(ctx, engine.Reads, func(string) lua.Call { return lua.LatchLook.Call(l.keys.Name, l.keys.Counts) })
}

// check returns an error for a zero or nil Latch, so that its methods do not panic.
func (l *Latch) check(op string) error {
	return ops.Check(op, l != nil && (l.asker.Client != nil || l.asker.Err != nil))
}

// checkLength is check for what begins something under the name.
func (l *Latch) checkLength(op string) error {
	if err := l.check(op); err != nil {
		return err
	}
	return l.fail(op, l.asker.CheckLength(l.keys.Name))
}

// explain says which key an error of Redis is about.
func (l *Latch) explain(err error) error {
	return remote.Explain(err, l.keys.Name, "a latch", l.keys.Counts)
}

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (l *Latch) fail(op string, err error) error { return ops.Fail(op, l.Name(), err) }

// notOpen says what is left to count.
func notOpen(left int) error {
	return errs.Both(errs.ErrNotAcquired, errors.New(strconv.Itoa(left)+" to count"))
}

// unknown is the error of a waiter who leaves before a look for it has ended. Its kind is what is known of
// the server.
func (l *Latch) unknown(wait context.Context, begun time.Time) error {
	server := l.asker.Client.Server()
	if !server.Silent(l.keys.Name, server.Patience(wait, begun)) {
		return errs.ErrNotAcquired
	}
	return errs.Both(errs.ErrUnavailable, server.NoAnswer(l.keys.Name))
}
