// Package combine lets commands that are sent at the same time travel together: one write, one read
// and one wake-up at each end for many commands of many goroutines.
//
// It never waits for company. While few commands are under way each is sent at once and alone, as
// it would be without this package. Only while several are under way do the next ones gather; the
// first of them takes all that have gathered along when one of those returns. There is no goroutine
// of the package's own: the callers send, each with its own command among those that it sends.
// (Rejected: go-redis's AutoPipeline, which waits for more and made one goroutine five times
// slower.)
//
// What a caller gets is what it would get alone: the answer to its own command, or the error that
// it met. A command is sent at most as often as by go-redis alone: together they are a pipeline,
// which go-redis repeats only if every command in it allows that.
//
// Callers who begin together, and say so, do travel together: see [Company].
//
// A caller that has to leave at the deadline of its context sends by [Combiner.Hasty]. It waits for
// nobody's answer longer than for its own: it takes only such commands along whose callers leave
// no later, and leaves a sending that goes on for others.
//
// What travels together may be put into fewer commands, by the function that [New] takes. Hooks of
// the user see those, in one pipeline.
//
// Not promised: that a command which travelled with others and has an error of the network got no
// answer. If a connection breaks between two answers, go-redis takes back those before, too. Nor
// any order between the commands of two goroutines.
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
	// fewFlights is how many sendings may be under way before others gather, where the server is
	// near. Measured on two cores, shared with the server: 4 were a fifth faster for 8 goroutines,
	// and up to a fifth slower for 64 on a busy machine.
	fewFlights = 2
	// manyFlights is the same where the server is far. There what waits for another's return loses
	// more time than its own sending would cost: with 4, 16 goroutines were a quarter slower than
	// without company, at 2 ms. Each needs a connection.
	manyFlights = 16
	// perFlight is the distance of the server, as the time of a quick sending, for which one more
	// is allowed.
	perFlight = 150 * time.Microsecond
	// maxBatch is how many commands travel together at most, so that the first does not wait long
	// for the last.
	maxBatch = 128
	// patience is how long a sending is waited for. One that takes longer, on a slow network or a
	// dead connection, does not count any more: those who wait take another connection, as they
	// would without this package.
	patience = 2 * time.Millisecond
	// Grace is for how long after the end of its context a caller in haste still waits: the answer may be
	// under way, and without it nobody knows what the command has done.
	Grace = 50 * time.Millisecond
)

var errAborted = errors.New("the goroutine that sent this command panicked before it was done")

// Client is the part of a go-redis client that sends.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Carry sends commands by a function that sends some of them in one round trip. It may send others in
// their place, and some again. Then each has its own answer.
type Carry func(cmds []redis.Cmder, send func(cmds []redis.Cmder))

// Combiner sends commands. It is used concurrently, and needs no closing.
type Combiner struct {
	rdb      Client
	timeout  func(until time.Time) time.Duration // for an answer that is waited for until a time; 0: the client's
	conns    int
	carry    Carry
	patience time.Duration

	// mu guards the rest. It is never held while something is sent.
	mu       sync.Mutex
	flights  []*seat       // under way, without those that take too long; named by the one who sends
	quick    time.Duration // what a sending takes at least, of late
	boarding bool          // one of them was told to send and has not begun: it will take along those who wait
	waiting  []*seat       // oldest first
	timer    *time.Timer
	armed    bool    // timer will fire
	free     []*seat // for the next callers
}

// seat is one command on its way through.
type seat struct {
	ctx    context.Context
	cmd    redis.Cmder
	until  time.Time // when its caller leaves; zero: when there is an answer
	left   bool      // the caller has; guarded by the combiner's mu
	begun  time.Time // when it was told to send
	others []*seat   // that it sends beside its own command
	cmds   []redis.Cmder
	// turn has room for one word and gets at most one in a journey: true tells a waiting one to
	// send, false that its command has been sent and carries the answer.
	turn chan bool
}

// New makes a combiner for a client that sends all commands to one server, over at most so many
// connections. (A pipeline of a ClusterClient ends with its slowest server: one that is stalled
// would hold up those who ask the others.) For callers in haste timeout says how long a client is to
// wait for an answer until a time; a hook of the client sees to that, by [Hurried] and [TakeTimeout].
// What travels together is sent by carry.
func New(rdb Client, timeout func(until time.Time) time.Duration, conns int, carry Carry) *Combiner {
	return &Combiner{rdb: rdb, timeout: timeout, conns: max(conns, 1), carry: carry, patience: patience}
}

// Process sends a command, alone or with others, and returns its error, which the command keeps
// too. It is [NotSentError] if ctx ended while it waited to be sent. Once it is under way the
// context counts no more than go-redis makes it count for one that is sent alone; among others it
// does not count at all.
func (c *Combiner) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.process(ctx, cmd, time.Time{})
}

// Hasty sends as the combiner does, for callers that leave when the deadline of their context is over,
// or a little later, and [Grace] after their context was cancelled if another one sends the command.
// The error is an [UnansweredError] then, and the command is not the caller's any more.
type Hasty struct{ *Combiner }

// Process is [Combiner.Process].
func (h Hasty) Process(ctx context.Context, cmd redis.Cmder) error {
	until, _ := ctx.Deadline()
	return h.process(ctx, cmd, until)
}

func (c *Combiner) process(ctx context.Context, cmd redis.Cmder, until time.Time) error {
	if s := c.join(ctx, cmd, until); s != nil {
		return c.ride(s, false)
	}
	c.mu.Lock()
	s := c.seat(ctx, cmd, until)
	if len(c.flights) >= c.limit() {
		c.waiting = append(c.waiting, s)
		c.arm()
		c.mu.Unlock()
		return c.ride(s, true)
	}
	c.begin(s)
	c.board(s)
	c.mu.Unlock()
	defer c.land(s) // also if a hook of the user panics
	return c.send(s)
}

// ride is the rest of Process for one that waits for its turn. One that waits among those of the
// combiner takes others along.
func (c *Combiner) ride(s *seat, boards bool) error {
	cmd := s.cmd
	switch lead, err := c.turn(s); {
	case err != nil:
		return err
	case !lead:
		c.leave(s)
		return cmd.Err()
	}
	if boards {
		c.mu.Lock()
		c.boarding = false
		c.board(s)
		c.mu.Unlock()
	}
	defer c.land(s) // also if a hook of the user panics
	return c.send(s)
}

// turn waits until a seat is told to send, or that its command has been sent. It fails when the caller
// leaves. Then nobody uses the seat again.
func (c *Combiner) turn(s *seat) (lead bool, err error) {
	if s.until.IsZero() {
		return <-s.turn, nil
	}
	select {
	case lead = <-s.turn:
		return lead, nil
	case <-s.ctx.Done():
	}
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case lead = <-s.turn:
		return lead, nil
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case lead = <-s.turn:
		return lead, nil
	default:
	}
	if i := slices.Index(c.waiting, s); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		s.cmd.SetErr(&NotSentError{context.Cause(s.ctx)})
		return false, s.cmd.Err()
	}
	s.left = true // another one sends the command, or soon will
	return false, &UnansweredError{context.Cause(s.ctx)}
}

// IsReady reports whether a command that is sent now would be sent at once, and alone.
func (c *Combiner) IsReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.flights) < c.limit() && len(c.waiting) == 0
}

// seat returns an unused seat. The caller holds mu.
func (c *Combiner) seat(ctx context.Context, cmd redis.Cmder, until time.Time) *seat {
	var s *seat
	if n := len(c.free); n > 0 {
		s, c.free = c.free[n-1], c.free[:n-1]
	} else {
		s = &seat{turn: make(chan bool, 1)}
	}
	s.ctx, s.cmd, s.until = ctx, cmd, until
	return s
}

// begin makes a seat one that sends. The caller holds mu.
func (c *Combiner) begin(s *seat) {
	s.begun = time.Now()
	c.flights = append(c.flights, s)
}

// limit is how many may be under way before others gather. The caller holds mu.
func (c *Combiner) limit() int {
	return min(max(fewFlights, int(c.quick/perFlight)), manyFlights, c.conns)
}

// took notes how long a sending took. A longer one, among many or on a busy machine, counts for
// little. The caller holds mu.
func (c *Combiner) took(d time.Duration) {
	if c.quick == 0 || d < c.quick {
		c.quick = d
		return
	}
	c.quick += (d - c.quick) / 256
}

// board gives s those who wait. What does not fit goes with the next, and so does who waits longer
// for an answer than s does. The caller holds mu.
func (c *Combiner) board(s *seat) {
	n, kept := min(len(c.waiting), maxBatch-1), 0
	for _, o := range c.waiting[:n] {
		if s.takes(o) {
			s.others = append(s.others, o)
			continue
		}
		c.waiting[kept] = o
		kept++
	}
	c.waiting = slices.Delete(c.waiting, kept, n)
	c.promote()
}

// takes reports whether s waits for an answer for as long as o does, or nearly.
func (s *seat) takes(o *seat) bool {
	return s.until.IsZero() || !o.until.IsZero() && !o.until.After(s.until.Add(Grace))
}

// foremost is the first of some seats that takes all others.
func foremost(seats []*seat) (at int) {
	for i, s := range seats {
		if !seats[at].takes(s) {
			at = i
		}
	}
	return at
}

// promote tells one of those who wait to send, if that may be. The caller holds mu.
func (c *Combiner) promote() {
	if len(c.waiting) == 0 || len(c.flights) >= c.limit() || c.boarding {
		return
	}
	at := foremost(c.waiting[:min(len(c.waiting), maxBatch)])
	s := c.waiting[at]
	c.waiting = slices.Delete(c.waiting, at, at+1)
	c.boarding = true
	c.begin(s)
	s.turn <- true
}

// send sends what boarded, and returns the error of the sender's own command.
func (c *Combiner) send(s *seat) error {
	var timeout time.Duration
	if !s.until.IsZero() {
		timeout = c.timeout(s.until)
	}
	if len(s.others) == 0 {
		if h, ok := s.cmd.(Hurried); ok {
			h.SetTimeout(timeout)
		}
		return c.rdb.Process(s.ctx, s.cmd)
	}
	s.add(s)
	for _, o := range s.others {
		s.add(o)
	}
	if len(s.cmds) > 0 {
		ctx, cancel := s.patient()
		defer cancel()
		if timeout > 0 {
			ctx = context.WithValue(ctx, timeoutKey{}, timeout)
		}
		c.carry(s.cmds, func(cmds []redis.Cmder) {
			pipe := c.rdb.Pipeline()
			_ = pipe.BatchProcess(ctx, cmds...)
			pipeline.Exec(ctx, pipe)
		})
	}
	s.cmds = s.cmds[:0] // all have their answers
	return s.cmd.Err()
}

// patient is the context for all that a sender takes along. One caller's impatience must not fail
// the others, so it ends when the last of their deadlines is over, if all have one. Hooks see the
// pipeline as a part of what its sender does.
func (s *seat) patient() (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(s.ctx)
	last, all := s.ctx.Deadline()
	for _, o := range s.others {
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

// add takes the command of a seat along, unless its caller has left.
func (s *seat) add(o *seat) {
	if o.ctx.Err() != nil {
		o.cmd.SetErr(&NotSentError{context.Cause(o.ctx)})
		return
	}
	s.cmds = append(s.cmds, o.cmd)
}

// land ends a sending: the next may begin, and those who were sent go on.
func (c *Combiner) land(s *seat) {
	c.mu.Lock()
	if i := slices.Index(c.flights, s); i >= 0 {
		c.flights = slices.Delete(c.flights, i, i+1)
	}
	c.took(time.Since(s.begun))
	c.promote()
	c.mu.Unlock()
	for _, cmd := range s.cmds {
		cmd.SetErr(errAborted) // only after a panic, which is the sender's to deal with
	}
	c.tell(s.others)
	c.leave(s)
}

// tell tells callers that their commands have been sent.
func (c *Combiner) tell(seats []*seat) {
	if len(seats) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range seats {
		if !s.left {
			s.turn <- false
		}
	}
}

// leave gives a seat back.
func (c *Combiner) leave(s *seat) {
	clear(s.others)
	clear(s.cmds[:cap(s.cmds)])
	s.ctx, s.cmd, s.until, s.others, s.cmds = nil, nil, time.Time{}, s.others[:0], s.cmds[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < maxBatch {
		c.free = append(c.free, s)
	}
}

// arm has the waiting looked after. The caller holds mu.
func (c *Combiner) arm() {
	switch {
	case c.armed:
		return
	case c.timer == nil:
		// Its goroutine lives for one look. It needs no owner: it touches nothing but the combiner,
		// and is not started again when nobody waits.
		c.timer = time.AfterFunc(c.patience, c.look)
	default:
		c.timer.Reset(c.patience)
	}
	c.armed = true
}

// look lets those who wait go on without the sendings that take too long. One timer for all of them
// is enough: each waits for its sender, and that one is looked after here.
func (c *Combiner) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	if len(c.waiting) == 0 {
		return
	}
	late := time.Now().Add(-c.patience)
	c.flights = slices.DeleteFunc(c.flights, func(s *seat) bool { return !s.begun.After(late) })
	c.promote()
	c.arm()
}
