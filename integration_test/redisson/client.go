// Package redisson has tests in Go use Redisson itself, so that what is said of fleets of Go and Java is tested with both. A
// [Worker] is a process of Java that does what it is told, line by line over its standard input and output; a [Client] in it is
// a RedissonClient with an id and settings of its own, and a [Thread] of that is an owner of locks.
//
// The worker is built by Maven into the directory target beside its source, once, and again when the source has changed. Where
// there is no Java or no Maven tests are skipped, loudly, and fail if CI=true.
//
// With HOLDFAST_IDLE_WORKER the tests get a worker that does nothing, and says that all went well.
// None of them may pass with it; TestNothingPassesWithoutJava checks that.
//
// Not here: what Redisson does on the wire, command for command. The scripts' rows and the tests
// redisson_*_test.go one folder up play that as it was recorded.
package redisson

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Client is a RedissonClient.
type Client struct {
	ID string // its UUID, with which the owners of its threads begin

	w    *Worker
	name string
	main *Thread // connects and shuts down
}

// Connect makes a client of a topology as its default user, fills in where servers are, and shuts it down when the test ends.
func (w *Worker) Connect(tb testing.TB, top topology.Topology, s Settings) *Client {
	s.Mode = top.Kind().String()
	if s.Addrs == nil {
		s.Addrs = topology.Addrs(top)
	}
	if top.Kind() == topology.Sentinel {
		s.Master = redistest.SentinelMaster
	}
	c := &Client{w: w, name: w.name("client")}
	c.main = &Thread{c: c, name: w.name("main")}
	r := c.main.Start(Ask{Op: "connect", Settings: &s}).within(tb, 6*Patience) // Java starts slowly on a busy machine
	require.NoError(tb, r.Err(), "redisson: connect")
	c.ID = r.Text()
	tb.Cleanup(func() { c.shutdown(tb) })
	return c
}

// shutdown ends the client, unless its process has ended, but not its locks: Redisson leaves them to the end of the lease.
func (c *Client) shutdown(tb testing.TB) {
	tb.Helper()
	select {
	case <-c.w.ended:
		return
	default:
	}
	if err := c.main.Do(tb, Ask{Op: "shutdown"}).Err(); err != nil {
		tb.Errorf("redisson: shutdown: %v", err)
	}
	c.main.leave()
}

// Thread is one thread that uses the client, and so one owner. It does one command after the other.
type Thread struct {
	Owner string // as it stands in Redis

	c    *Client
	name string
}

// Thread starts a thread, which ends with the test.
func (c *Client) Thread(tb testing.TB) *Thread {
	t := &Thread{c: c, name: c.w.name("thread")}
	t.Owner = c.ID + ":" + strconv.FormatInt(t.Do(tb, Ask{Op: "ping"}).Thread, 10)
	tb.Cleanup(t.leave)
	return t
}

// leave ends the thread when it has done all that it was asked. Nobody answers that.
func (t *Thread) leave() {
	p := t.Start(Ask{Op: "leave"})
	t.c.w.mu.Lock()
	defer t.c.w.mu.Unlock()
	delete(t.c.w.pending, p.ask.ID)
}

// Start has the thread do something; it does not wait for the answer.
func (t *Thread) Start(a Ask) *Pending {
	a.Client, a.Thread = t.c.name, t.name
	return t.c.w.send(t, a)
}

// Do has the thread do something and returns the answer; none within [Patience] and the ask's own wait fails the test.
func (t *Thread) Do(tb testing.TB, a Ask) Reply { return t.Start(a).Reply(tb) }

// Call is Do for goroutines, which cannot end a test: what was thrown is an error, and so is no answer before ctx ends.
func (t *Thread) Call(ctx context.Context, a Ask) (Reply, error) {
	p := t.Start(a)
	select {
	case <-p.Done:
		if p.err != nil {
			return Reply{}, p.err
		}
		return p.reply, p.reply.Err()
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("redisson: no answer to %s of %s: %w", a.Op, t.Owner, context.Cause(ctx))
	}
}

// Interrupt interrupts what the thread is doing.
func (t *Thread) Interrupt(tb testing.TB) {
	require.NoError(tb, t.Do(tb, Ask{Op: "interrupt"}).Err())
}

// Sleeps reports whether the thread waits for a message: it was refused, looked again when it listened, and began to wait.
func (p *Pending) Sleeps(tb testing.TB) bool { return p.thread.Do(tb, Ask{Op: "sleeps"}).Yes() }

// Reply waits for the answer.
func (p *Pending) Reply(tb testing.TB) Reply { return p.within(tb, Patience+time.Duration(p.ask.Wait)) }

// within is Reply for another patience.
func (p *Pending) within(tb testing.TB, patience time.Duration) Reply {
	tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.Done:
	case <-timer.C:
		tb.Fatalf("redisson: no answer to %s %s %s of %s", p.ask.Op, p.ask.Kind, p.ask.Name, p.thread.Owner)
	}
	if p.err != nil {
		tb.Fatalf("redisson: %s: %v", p.ask.Op, p.err)
	}
	return p.reply
}

// Answered reports whether there is an answer.
func (p *Pending) Answered() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Idle makes this process a worker that does nothing, if started as one, and reports whether it was. TestMain calls it first.
func Idle() bool {
	says := os.Getenv(idleProcess)
	if says == "" {
		return false
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var a Ask
		if json.Unmarshal(in.Bytes(), &a) != nil || a.Op == "leave" {
			continue
		}
		value := "true"
		switch {
		case a.Op == "connect":
			value = `"00000000-0000-0000-0000-000000000000"`
		case says == "no" && a.Op != "shutdown" && a.Op != "interrupt":
			value = "false"
		}
		fmt.Printf("{\"id\":%d,\"thread\":%d,\"value\":%s}\n", a.ID, len(a.Thread), value)
	}
	return true
}
