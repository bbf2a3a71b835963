// Package master knows of one server of a quorum what its vote is worth: whether the server
// answers, and whether it may have forgotten what it granted because it was started, or took over,
// a short time ago.
//
// Sources: "Distributed Locks with Redis" of the Redis documentation, its section on crash
// recovery: an instance that restarts without its data must not take part for as long as locks of
// before may count.
//
// Not promised: that every such start is noticed. The server tells the age of its process in whole
// seconds by its own clock, which may have been set: then it seems older than it is, and the others
// younger beside it. And a failover behind an address is seen only by who had been talking to the
// server before.
package master

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// Master is one server, as a go-redis client reaches it. Make it with [New], once for a client. It
// is used concurrently.
type Master struct {
	rdb redis.UniversalClient

	dials atomic.Uint64       // connections that were made, or not
	run   atomic.Pointer[Run] // as of the last look
	met   atomic.Bool         // it was asked for its run, whatever came of that

	out    atomic.Int64 // questions under way
	silent atomic.Int64 // since when questions that were sent got no answer, as nanoseconds since epoch; 0: the last one did
	last   atomic.Int64 // when the last answer was there, in the same way; 0: never

	pace    atomic.Int64          // how long answers take, in nanoseconds, smoothed; 0: not known
	failure atomic.Pointer[error] // why the last connection or question came to nothing, or was refused; nil after an answer
}

var epoch = time.Now()

// New makes a master of the server that rdb reaches. It adds a hook to rdb that counts connections:
// a server that starts anew ends those it had, so while no connection was made nothing can have
// happened to it, unless a proxy keeps them; so votes bring INFO with them, see [Master.Heard].
func New(rdb redis.UniversalClient) *Master {
	m := &Master{rdb: rdb}
	rdb.AddHook(dials{m})
	return m
}

// dials is the hook.
type dials struct{ m *Master }

// DialHook counts when the connection is there: what uses it finds it counted. It also notes why
// there is none. go-redis dials several times before it says so, and questions are not waited for
// so long. A dial that is called off says nothing of the server: go-redis does that when whoever wanted
// the connection has another one by then, or has left.
func (d dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer d.m.dials.Add(1)
		conn, err := next(ctx, network, addr)
		if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			d.m.failure.Store(&err)
		}
		return conn, err
	}
}

// ProcessHook changes nothing.
func (dials) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dials) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Begin notes that a question is about to be sent. silent says that earlier ones have had no answer
// for longer than patience, so it is of no use to wait for this one; send, whether to send it all
// the same: one at a time is enough to find out that the server is back. After send, [Master.End]
// has to be called, and [Master.Asks] before. For a question that is not sent after all, call
// [Master.Probe] in its place if silent was true, and [Master.Unsent] if it was not.
func (m *Master) Begin(patience time.Duration) (send, silent bool) {
	silent = m.Silence() > patience
	if m.out.Add(1) > 1 && silent {
		m.out.Add(-1)
		return false, true
	}
	return true, silent
}

// Asks notes that a question is sent now. A question that waits for its turn, in a process that has no time
// for it, does not make the server silent.
func (m *Master) Asks() { m.silent.CompareAndSwap(0, max(int64(time.Since(epoch)), 1)) }

// End notes what became of a question: nil if there was an answer, which an error of the server is
// too, else why there was none.
func (m *Master) End(failure error) {
	if failure == nil {
		m.silent.Store(0)
		m.last.Store(max(int64(time.Since(epoch)), 1))
		m.failure.Store(nil)
	} else {
		m.failure.Store(&failure)
	}
	m.out.Add(-1)
}

// Refused notes why the server has answered that it serves nobody, or not this client. Until it serves,
// it is silent, see [Master.Silent]. It is asked as often as one that answers.
func (m *Master) Refused(why error) { m.failure.Store(&why) }

// Unsent ends a question in place of [Master.End] that was not sent after all, which says nothing of
// the server. It is for a server that was not silent when the question began.
func (m *Master) Unsent() { m.out.Add(-1) }

// Probe asks a silent server something that changes nothing, in place of a question that is not sent
// after all. [Master.Begin] allows one question at a time. If callers left before each of these was
// sent, nothing would find out that the server is back.
func (m *Master) Probe(ctx context.Context) {
	m.Asks()
	_, err := m.info(ctx)
	if errs.IsReply(err) {
		err = nil
	}
	m.End(err)
}

// Took notes how long an answer took.
func (m *Master) Took(d time.Duration) {
	pace := m.pace.Load()
	if pace == 0 {
		pace = int64(d)
	}
	m.pace.Store(max(pace+(int64(d)-pace)/4, 1)) // of two that are noted at once, one counts
}

// Pace is how long answers took lately, 0 if that is not known.
func (m *Master) Pace() time.Duration { return time.Duration(m.pace.Load()) }

// Failure is why the server was not reached the last time, nil if it answered since, or if nothing
// is known but its silence.
func (m *Master) Failure() error {
	if failure := m.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// Silent reports whether the server is silent: the last question has failed, or the server has answered nothing for a time,
// and was asked for half of that. The time is known, or fresh if it has never answered; 0: that is enough. A question that
// was not answered in the time that it had is no such failure: a process without time for its callers has none for answers.
func (m *Master) Silent(known, fresh time.Duration) bool {
	if failure := m.Failure(); failure != nil && !isContext(failure) {
		return true
	}
	last := m.last.Load()
	if last == 0 {
		return fresh == 0 || m.Silence() > 0 && m.Silence() >= fresh/2
	}
	return time.Since(epoch)-time.Duration(last) >= known && m.Silence() >= known/2
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Silence is for how long the server has not answered what it was asked, 0 if it has.
func (m *Master) Silence() time.Duration {
	if since := time.Duration(m.silent.Load()); since != 0 {
		return time.Since(epoch) - since
	}
	return 0
}
