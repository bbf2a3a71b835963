// Package combine lets commands that are sent at the same time travel together. Many commands of
// many goroutines then need one write, one read and one wake-up at each end.
//
// It never waits for further commands. While few commands are under way, each is sent at once and
// alone, as it would be without this package. Only while several are under way are the next ones
// gathered. When one of those under way returns, the caller of one of the gathered commands sends
// all of them. The package has no goroutine of its own: the callers send, each its own command
// among others. (Rejected: go-redis's AutoPipeline, which waits for more and made one goroutine five
// times slower.)
//
// A caller gets what it would get alone: the answer to its own command, or the error that this
// command met. A command is sent at most as often as by go-redis alone: together, the commands are
// a pipeline, and go-redis repeats a pipeline only if every command in it allows that.
//
// The commands of callers who begin together, and say so, do wait for each other: see [Group].
//
// A caller that must leave at the deadline of its context sends by [Hasty]. It does not wait for
// any answer longer than for its own. It takes only those commands along whose callers leave no
// later than it does. And it leaves a sending that goes on for other callers.
//
// Commands that travel together may be put into fewer commands, by the function that [New] takes.
// Hooks of the user see those commands, in one pipeline.
//
// Not promised: that a command which travelled with others and has an error of the network got no
// answer. If a connection breaks between two answers, go-redis drops the earlier answers, too. Nor
// does the package promise any order between the commands of two goroutines.
package combine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/pipeline"
)

const (
	// fewSendings is how many sendings may be under way before others are gathered, if the server is
	// near. Measured on two cores, shared with the server: 4 were a fifth faster for 8 goroutines, and
	// up to a fifth slower for 64 on a busy machine.
	fewSendings = 2
	// manySendings is the same if the server is far. There a command that waits for another's return
	// loses more time than its own sending would cost: with 4, 16 goroutines were a quarter slower
	// than when each sent alone, at 2 ms. Each sending needs a connection.
	manySendings = 16
	// perSending is the distance of the server, as the time of a quick sending, for which one more
	// sending is allowed.
	perSending = 150 * time.Microsecond
	// maxBatch is the most commands that travel together, so that the first does not wait long for the
	// last.
	maxBatch = 128
	// patience is how long others wait for a sending. A sending that takes longer, on a slow network
	// or a dead connection, does not count any more. Then the waiting commands use another connection,
	// as they would without this package.
	patience = 2 * time.Millisecond
	// Grace is how long a caller in haste still waits after the end of its context. The answer may be
	// under way, and without it nobody knows what the command has done.
	Grace = 50 * time.Millisecond
)

var errAborted = errors.New("the goroutine that sent this command panicked before it was done")

// Client is the part of a go-redis client that sends.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Carry sends commands. It calls send for each round trip, with some of the commands. It may send
// other commands in their place, and some commands again. When it returns, each command has its own
// answer.
type Carry func(cmds []redis.Cmder, send func(cmds []redis.Cmder))

// Combiner sends commands. It can be used concurrently, and needs no closing.
type Combiner struct {
	rdb      Client
	timeout  func(until time.Time) time.Duration // for a caller who waits until a time; 0: the client's own
	conns    int
	carry    Carry
	patience time.Duration

	// mu guards the rest. It is never held while something is sent.
	mu         sync.Mutex
	sending    []*call       // the senders under way, without those that take too long
	quick      time.Duration // the least time that a sending has taken lately
	collecting bool          // a call was told to send and has not begun: it will collect the waiting calls
	waiting    []*call       // oldest first
	timer      *time.Timer
	armed      bool    // timer will fire
	free       []*call // for the next callers
}

// call is one command and the caller that waits for it.
type call struct {
	ctx    context.Context
	cmd    redis.Cmder
	until  time.Time // when the caller leaves; zero: when there is an answer
	left   bool      // the caller has left; guarded by the combiner's mu
	landed bool      // there is an answer, or an error, and the caller has left; likewise
	then   func()    // is called when it has landed; likewise
	begun  time.Time // when the call was told to send
	others []*call   // that it sends beside its own command
	cmds   []redis.Cmder
	// turn has room for one value, and a call gets at most one. true tells a waiting call to send.
	// false says that its command has been sent and has its answer.
	turn chan bool
}

// New makes a combiner for a client that sends all commands to one server, over at most conns
// connections. (A pipeline of a ClusterClient ends with its slowest server. One server that is
// stalled would hold up callers who ask the others.) For callers in haste, timeout says how long a
// client must wait for an answer until a time. A hook of the client applies that, by [Hurried] and
// [TakeTimeout]. carry sends the commands that travel together.
func New(rdb Client, timeout func(until time.Time) time.Duration, conns int, carry Carry) *Combiner {
	return &Combiner{rdb: rdb, timeout: timeout, conns: max(conns, 1), carry: carry, patience: patience}
}

// Process sends a command, alone or with others. It returns the command's error, which the command
// keeps too. The error is a [NotSentError] if ctx ended while the command waited to be sent. Once
// the command is under way, go-redis decides whether it heeds the context, as for a command that is
// sent alone. Among other commands the context does not count at all.
func (c *Combiner) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.process(ctx, cmd, time.Time{})
}

// Hasty sends like the combiner, for callers that leave at the deadline of their context, or a
// little later. If another caller sends the command, they also leave [Grace] after their context
// was cancelled. The error is an [UnansweredError] then, and the caller must not touch the command
// any more.
type Hasty struct{ *Combiner }

// Process is [Combiner.Process].
func (h Hasty) Process(ctx context.Context, cmd redis.Cmder) error {
	until, _ := ctx.Deadline()
	return h.process(ctx, cmd, until)
}

func (c *Combiner) process(ctx context.Context, cmd redis.Cmder, until time.Time) error {
	if own := c.joinGroup(ctx, cmd, until); own != nil {
		return c.wait(own, false)
	}
	c.mu.Lock()
	own := c.newCall(ctx, cmd, until)
	if len(c.sending) >= c.limit() {
		c.waiting = append(c.waiting, own)
		c.startTimer()
		c.mu.Unlock()
		return c.wait(own, true)
	}
	c.begin(own)
	c.collect(own)
	c.mu.Unlock()
	defer c.finish(own) // also if a hook of the user panics
	return c.send(own)
}

// wait is the rest of process for a call that waits for its turn. With collects, the call takes
// other waiting calls along when it sends.
func (c *Combiner) wait(own *call, collects bool) error {
	cmd := own.cmd
	switch lead, err := c.awaitTurn(own); {
	case err != nil:
		return err
	case !lead:
		c.recycle(own)
		return cmd.Err()
	}
	if collects {
		c.mu.Lock()
		c.collecting = false
		c.collect(own)
		c.mu.Unlock()
	}
	defer c.finish(own) // also if a hook of the user panics
	return c.send(own)
}

// newCall returns an unused call. The caller holds mu.
func (c *Combiner) newCall(ctx context.Context, cmd redis.Cmder, until time.Time) *call {
	var k *call
	if n := len(c.free); n > 0 {
		k, c.free = c.free[n-1], c.free[:n-1]
	} else {
		k = &call{turn: make(chan bool, 1)}
	}
	k.ctx, k.cmd, k.until = ctx, cmd, until
	return k
}

// begin makes a call a sender. The caller holds mu.
func (c *Combiner) begin(k *call) {
	k.begun = time.Now()
	c.sending = append(c.sending, k)
}

// limit returns how many sendings may be under way before others are gathered. The caller holds mu.
func (c *Combiner) limit() int {
	return min(max(fewSendings, int(c.quick/perSending)), manySendings, c.conns)
}

// noteDuration notes how long a sending took. A longer one, among many or on a busy machine, counts
// for little. The caller holds mu.
func (c *Combiner) noteDuration(d time.Duration) {
	if c.quick == 0 || d < c.quick {
		c.quick = d
		return
	}
	c.quick += (d - c.quick) / 256
}

// collect gives a sender the waiting calls. Calls that do not fit are sent with the next sender. So
// are calls that wait longer for an answer than the sender does. The caller holds mu.
func (c *Combiner) collect(lead *call) {
	n, kept := min(len(c.waiting), maxBatch-1), 0
	for _, o := range c.waiting[:n] {
		if lead.outlasts(o) {
			lead.others = append(lead.others, o)
			continue
		}
		c.waiting[kept] = o
		kept++
	}
	c.waiting = slices.Delete(c.waiting, kept, n)
	c.promote()
}

// outlasts reports whether k waits for an answer for as long as o does, or nearly.
func (k *call) outlasts(o *call) bool {
	return k.until.IsZero() || !o.until.IsZero() && !o.until.After(k.until.Add(Grace))
}

// mostPatient returns the first of some calls that outlasts all others.
func mostPatient(calls []*call) (at int) {
	for i, k := range calls {
		if !calls[at].outlasts(k) {
			at = i
		}
	}
	return at
}

// promote tells one of the waiting calls to send, if it may. The caller holds mu.
func (c *Combiner) promote() {
	if len(c.waiting) == 0 || len(c.sending) >= c.limit() || c.collecting {
		return
	}
	at := mostPatient(c.waiting[:min(len(c.waiting), maxBatch)])
	lead := c.waiting[at]
	c.waiting = slices.Delete(c.waiting, at, at+1)
	c.collecting = true
	c.begin(lead)
	lead.turn <- true
}

// send sends the commands of a sender and of the calls that it has collected. It returns the error
// of the sender's own command.
func (c *Combiner) send(lead *call) error {
	var timeout time.Duration
	if !lead.until.IsZero() {
		timeout = c.timeout(lead.until)
	}
	if len(lead.others) == 0 {
		if h, ok := lead.cmd.(Hurried); ok {
			h.SetTimeout(timeout)
		}
		return c.rdb.Process(lead.ctx, lead.cmd)
	}
	lead.add(lead)
	for _, o := range lead.others {
		lead.add(o)
	}
	if len(lead.cmds) > 0 {
		ctx, cancel := lead.sharedContext()
		defer cancel()
		if timeout > 0 {
			ctx = WithTimeout(ctx, timeout)
		}
		c.carry(lead.cmds, func(cmds []redis.Cmder) {
			pipe := c.rdb.Pipeline()
			_ = pipe.BatchProcess(ctx, cmds...)
			pipeline.Exec(ctx, pipe)
		})
	}
	lead.cmds = lead.cmds[:0] // all have their answers
	return lead.cmd.Err()
}

// sharedContext returns the context for all commands of a sender. The deadline of one caller must
// not fail the others, so the context ends at the last of their deadlines, if all have one. Hooks
// see the pipeline as a part of what the sender does.
func (k *call) sharedContext() (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(k.ctx)
	last, all := k.ctx.Deadline()
	for _, o := range k.others {
		end, ok := o.ctx.Deadline()
		if all = all && ok; end.After(last) {
			last = end
		}
	}
	if !all {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, last)
}

// add takes the command of another call along, unless its caller has left.
func (k *call) add(o *call) {
	if o.ctx.Err() != nil {
		o.cmd.SetErr(&NotSentError{o.cause()})
		return
	}
	k.cmds = append(k.cmds, o.cmd)
}

// finish ends a sending. The next sender may begin, and the callers whose commands were sent go on.
func (c *Combiner) finish(lead *call) {
	c.mu.Lock()
	if i := slices.Index(c.sending, lead); i >= 0 {
		c.sending = slices.Delete(c.sending, i, i+1)
	}
	c.noteDuration(time.Since(lead.begun))
	c.promote()
	c.mu.Unlock()
	for _, cmd := range lead.cmds {
		cmd.SetErr(errAborted) // only after a panic, which the sender must handle
	}
	c.tellSent(lead.others)
	c.recycle(lead)
}

// recycle keeps a call for the next caller.
func (c *Combiner) recycle(k *call) {
	clear(k.others)
	clear(k.cmds[:cap(k.cmds)])
	k.ctx, k.cmd, k.until, k.others, k.cmds = nil, nil, time.Time{}, k.others[:0], k.cmds[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < maxBatch {
		c.free = append(c.free, k)
	}
}

// startTimer starts the timer for the waiting calls, unless it runs. The caller holds mu.
func (c *Combiner) startTimer() {
	switch {
	case c.armed:
		return
	case c.timer == nil:
		// Its goroutine runs overtake once and ends. It needs no owner: it touches nothing but the
		// combiner, and is not started again when no call waits.
		c.timer = time.AfterFunc(c.patience, c.overtake)
	default:
		c.timer.Reset(c.patience)
	}
	c.armed = true
}

// overtake drops the sendings that take too long, so that the waiting calls go on without them. One
// timer for all of them is enough: each call waits for its sender, and overtake looks at the
// senders.
func (c *Combiner) overtake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	if len(c.waiting) == 0 {
		return
	}
	late := time.Now().Add(-c.patience)
	c.sending = slices.DeleteFunc(c.sending, func(k *call) bool { return !k.begun.After(late) })
	c.promote()
	c.startTimer()
}
