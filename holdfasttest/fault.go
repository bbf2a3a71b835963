package holdfasttest

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Fault is what happens to commands of locks. Its zero value loses the next command of any lock
// before it reaches the server.
type Fault struct {
	// Name is the name of the lock in Redis: with the Prefix of the client, if there is one. Empty:
	// any lock.
	Name string
	// Op selects the commands. Empty: any script of a lock, which leaves out [Listen].
	Op Op
	// Skip is how many commands that match pass first.
	Skip int
	// Times is how many commands the fault hits, of any client, one after the other. 0 means 1. A
	// negative number means all of them, until [Injected.Stop].
	Times int
	// After makes the server run the command first. The fault then hits the reply.
	After bool
	// Delay is how long the command, or its reply, is delayed. Whatever follows on its connection
	// waits behind it, as in a network. [UntilStopped] delays until [Injected.Stop]. A command that
	// is only delayed arrives. To make it late and lost, set Err too.
	Delay time.Duration
	// Err is the error that the client gets. An [Answer] is the server's answer to a command that
	// it did not run, so it contradicts After. Any other error is the connection's, which breaks:
	// the client does not know whether the command has run. nil means io.EOF if Delay is 0, and
	// otherwise no error.
	Err error
}

// UntilStopped is a [Fault.Delay] without an end of its own.
const UntilStopped time.Duration = -1

// Answer is an error that the server answers, for [Fault.Err] and [Server.Fail]. Its text begins
// with a code, as in "OOM command not allowed when used memory > 'maxmemory'.". It is an error of
// go-redis.
func Answer(text string) error { return answerError(text) }

type answerError string

func (e answerError) Error() string { return string(e) }

// RedisError makes it an error of go-redis.
func (answerError) RedisError() {}

// answered is the text of an error that the server is to answer.
func answered(err error) (text string, ok bool) {
	var answer redis.Error
	if errors.As(err, &answer) {
		return answer.Error(), true
	}
	return "", false
}

// check refuses what cannot be.
func (f Fault) check() error {
	switch _, answer := answered(f.Err); {
	case answer && f.After:
		return errors.New("holdfasttest: a server that answers an error has done nothing; leave After out, or use an error of " +
			"the connection's, such as io.EOF")
	case f.Op == Listen && f.After:
		return errors.New("holdfasttest: answers to Listen cannot be hit; leave After out")
	case f.Skip < 0:
		return errors.New("holdfasttest: Skip is negative; it is how many commands are let through first")
	case f.Delay < 0 && f.Delay != UntilStopped:
		return errors.New("holdfasttest: Delay is negative; use UntilStopped for one without an end of its own")
	case !f.Op.known():
		return errors.New("holdfasttest: Op is " + string(f.Op) + "; use one of the constants")
	}
	return nil
}

// Injected is a [Fault] that waits for its command, or has hit it.
type Injected struct {
	f       Fault
	fired   chan struct{} // closed when the first command was hit
	stopped chan struct{} // closed by Stop

	mu    sync.Mutex // guards the rest
	seen  int
	hits  int
	ended bool
	quiet bool // fired is closed
}

// Fired returns a channel that is closed when the fault has hit the first command: with
// [Fault.After] when the server has run it. A delay begins then.
func (i *Injected) Fired() <-chan struct{} { return i.fired }

// Hits returns how many commands the fault has hit.
func (i *Injected) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Stop ends the fault, and lets the commands that it delays go on. A second call does nothing.
func (i *Injected) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.ended {
		i.ended = true
		close(i.stopped)
	}
}

// take sees a command that fits and says whether it is hit.
func (i *Injected) take() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.spentLocked() {
		return false
	}
	i.seen++
	if i.seen <= i.f.Skip {
		return false
	}
	i.hits++
	return true
}

func (i *Injected) spentLocked() bool {
	return i.ended || i.f.Times >= 0 && i.hits >= max(i.f.Times, 1)
}

// isActive reports whether it may hit one more.
func (i *Injected) isActive() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.spentLocked()
}

// delay holds up the command. It returns false when the server is gone.
func (i *Injected) delay(gone <-chan struct{}) bool {
	if i.f.Delay == 0 {
		return true
	}
	i.done()
	var over <-chan time.Time
	if i.f.Delay > 0 {
		timer := time.NewTimer(i.f.Delay)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-i.stopped:
	case <-gone:
		return false
	}
	return true
}

// breaks reports whether the connection breaks, and cause why.
func (i *Injected) breaks() bool { return i.f.Err != nil || i.f.Delay == 0 }

func (i *Injected) cause() error {
	if i.f.Err == nil {
		return io.EOF
	}
	return i.f.Err
}

// done notes that the first one was hit.
func (i *Injected) done() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.quiet {
		i.quiet = true
		close(i.fired)
	}
}

// faults are those of one server.
type faults struct {
	mu   sync.Mutex // guards the rest
	list []*Injected
}

func (fs *faults) add(f Fault) *Injected {
	i := &Injected{f: f, fired: make(chan struct{}), stopped: make(chan struct{})}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = append(fs.list, i)
	return i
}

// alone is the answer to a script for many locks while there are faults: it is an error, so that
// the client asks again for each of them, and a fault hits one lock and not others beside it. Real
// servers give such an answer to a user who may not use one of the keys.
const alone = "NOPERM of this test double: while faults are injected it wants the scripts of each lock for themselves"

// find is the oldest fault that a command meets, or a refusal. All faults count the command.
func (fs *faults) find(args []string) (hit *Injected, refusal string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = active(fs.list)
	if len(fs.list) == 0 {
		return nil, ""
	}
	c := commandOf(args)
	if c.many {
		return nil, alone
	}
	for _, i := range fs.list {
		if hit == nil && c.fits(i.f) && i.take() {
			hit = i
		}
	}
	return hit, ""
}

func active(list []*Injected) (left []*Injected) {
	for _, i := range list {
		if i.isActive() {
			left = append(left, i)
		}
	}
	return left
}

// stop ends all.
func (fs *faults) stop() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, i := range fs.list {
		i.Stop()
	}
}
