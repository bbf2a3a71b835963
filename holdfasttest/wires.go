package holdfasttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// wires are the connections of one server.
type wires struct {
	server *miniredis.Miniredis
	faults faults
	done   chan struct{} // closed when the server is gone
	group  sync.WaitGroup
	ran    sync.Map                         // hashes of the library's scripts that were executed
	plain  func(name string) (owner string) // of who occupies a name with a plain lock; empty: nobody does
	bubble bool                             // the server was made in one
	stray  func() error                     // fails the test, once, and returns errStray

	mu     sync.Mutex    // guards the rest
	mute   int           // how many silences there are
	silent chan struct{} // closed when there are none any more; nil: there is none
	shift  time.Duration // by how much the server's clock is ahead
	told   time.Time     // what the server's clock said last
}

// errStray is for a server that was made outside of a bubble and is used inside. The runtime would end the test
// binary: its wait groups and channels belong to one side.
var errStray = errors.New("holdfasttest: the server was made outside of this bubble; call New inside synctest.Test")

// isStray reports whether the caller is in a bubble and the server is not.
func (w *wires) isStray() bool {
	_, inside := goroutine()
	return inside && !w.bubble
}

// dial connects to the server, also while it is silent: so does the kernel of a process that is
// stopped.
func (w *wires) dial(_ context.Context, _, _ string) (net.Conn, error) {
	select {
	case <-w.done:
		return nil, &net.OpError{Op: "dial", Net: network, Addr: address, Err: net.ErrClosed}
	default:
	}
	if w.isStray() {
		return nil, w.stray()
	}
	server, err := w.server.Dial()
	if err != nil {
		return nil, err
	}
	c := &conn{net: w, server: server, up: newStream(), down: newStream()}
	w.group.Go(c.carry)
	w.group.Go(c.collect)
	return c, nil
}

// direct connects to the server past its silence and all faults, for the test's own hand.
func (w *wires) direct(context.Context, string, string) (net.Conn, error) {
	if w.isStray() {
		return nil, w.stray()
	}
	server, err := w.server.Dial()
	return ticking{server, w}, err
}

// ticking is a connection whose commands have the server's clock go on.
type ticking struct {
	net.Conn
	net *wires
}

func (t ticking) Write(p []byte) (int, error) {
	t.net.tick()
	return t.Conn.Write(p)
}

// waitSilence waits while the server is silent. It returns false when the server is gone.
func (w *wires) waitSilence() bool {
	for {
		w.mu.Lock()
		silent := w.silent
		w.mu.Unlock()
		if silent == nil {
			return true
		}
		select {
		case <-silent:
		case <-w.done:
			return false
		}
	}
}

// beginSilence makes the server silent until restore is called. Several may overlap: the server answers when all
// are over.
func (w *wires) beginSilence() (restore func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute++; w.mute == 1 {
		w.silent = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.mute--; w.mute == 0 {
			close(w.silent)
			w.silent = nil
		}
	})
}

// move moves the server's clock. Where it goes back, times to live grow, because a server stores
// when a key ends, and the emulation how long it has left.
func (w *wires) move(d time.Duration) {
	w.mu.Lock()
	w.shift += d
	w.told = time.Time{} // it may go back
	w.mu.Unlock()
	w.tick()
	if d < 0 {
		w.server.FastForward(d)
	}
}

// clock is what the server's clock says.
func (w *wires) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.shift)
}

// tick sets the server's clock to what it has to say to the next command: never what it said to the
// last one. In a bubble no time passes between two commands. On a real server some does, so that
// tokens grow even after it has forgotten the last one.
func (w *wires) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now().Add(w.shift).Truncate(time.Microsecond)
	if least := w.told.Add(time.Microsecond); now.Before(least) {
		now = least
	}
	w.told = now
	w.server.SetTime(now)
}

// close ends all connections and waits for their goroutines.
func (w *wires) close() {
	close(w.done)
	w.server.Close()
	w.group.Wait()
}

// speak ends all silences.
func (w *wires) speak() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent != nil {
		close(w.silent)
		w.silent = nil
	}
	w.mute = -1 << 30 // what restores them later does nothing
}

// toWrite makes who has a plain lock one who writes. A lock that is occupied is a plain one until a
// script for read-write locks asks for it: before that nobody can know what it is to be.
const toWrite = `
local call, name, owner = redis.call, KEYS[1], ARGV[1]
if call('HLEN', name) ~= 1 or call('HEXISTS', name, owner) == 0 then return end
call('HSET', name, 'mode', 'write', owner .. ':write', 1)
call('HDEL', name, owner)`

// runs counts the servers: each has a run_id of its own, as every start of a server does.
var runs atomic.Int64

// prepare has the server know the scripts of the library from the start, as one does that has been
// in use for a while: else the first fault would hit the answer that a script is not known. It says
// so, too, since a quorum lock does not take the vote of a server that has just started. And
// scripts that may only read are run as any others, because the emulation takes commands for
// writing that are not, such as TIME.
func (w *wires) prepare() error {
	first, err := w.server.Dial() // which starts it
	if err != nil {
		return err
	}
	srv := w.server.Server()
	uptime := fmt.Sprintf("# Server\r\nrun_id:%040x\r\nuptime_in_seconds:%d\r\n", runs.Add(1), int((30 * 24 * time.Hour).Seconds()))
	srv.SetPreHook(func(from *server.Peer, name string, args ...string) bool {
		if name == "INFO" && len(args) == 1 && strings.EqualFold(args[0], "server") {
			from.WriteBulk(uptime)
			return true
		}
		plain, readOnly := strings.CutSuffix(name, "_RO")
		if plain == "EVALSHA" && len(args) > 0 {
			if text, ours := texts[args[0]]; ours {
				run := func(command ...string) { srv.Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), command) }
				if _, done := w.ran.LoadOrStore(args[0], true); !done {
					run("SCRIPT", "LOAD", text)
				}
				if len(args) > 2 && readWrite[args[0]] {
					if owner := w.plain(args[2]); owner != "" {
						run("EVAL", toWrite, "1", args[2], owner)
					}
				}
			}
		}
		if readOnly = readOnly && strings.HasPrefix(plain, "EVAL"); readOnly {
			srv.Dispatch(from, append([]string{plain}, args...))
		}
		return readOnly
	})
	return first.Close()
}
