package holdfasttest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

const network = "memory"

// address is where the server seems to be. It is an IP literal: go-redis looks other names up, by a
// real socket, which keeps the time of a bubble from passing.
var address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379}

// conn is a client's end of a connection, as go-redis has it, and what lies between that and the
// server. Two goroutines carry requests up and replies down. They take the requests apart, so that
// a fault hits one command, and pair replies with them.
type conn struct {
	net    *wires
	server net.Conn // our end of the pipe to the server
	up     *stream
	down   *stream

	mu      sync.Mutex // guards the rest
	pending []*pair    // forwarded, or answered by us, and not yet passed on: oldest first
	broken  error      // what the client reads when nothing is pending any more; nil: it goes on
	// messages and answers cannot be told apart from here on
	subscribed bool
}

// pair is a request whose reply is still to come.
type pair struct {
	hit    *Injected // nil: the reply is passed on
	answer []byte    // in place of the server's, which was not asked
}

var _ net.Conn = (*conn)(nil)

func (c *conn) Read(p []byte) (int, error)  { return c.down.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.up.Write(p) }

// Close lets what was written arrive, as a kernel does.
func (c *conn) Close() error {
	c.up.finish(io.EOF)
	c.down.finish(net.ErrClosed)
	return nil
}

func (c *conn) LocalAddr() net.Addr                { return address }
func (c *conn) RemoteAddr() net.Addr               { return address }
func (c *conn) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { c.down.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(_ time.Time) error { return nil } // a Write never waits

// carry brings requests to the server until the client has closed and all have arrived.
func (c *conn) carry() {
	defer c.server.Close()
	in, deaf := bufio.NewReader(c.up), false
	for {
		args, raw, err := resp.ReadRequest(in)
		switch {
		case err != nil:
			return
		case len(args) == 0, deaf: // what was sent before may still be answered
		case !c.net.waitSilence():
			return
		default:
			deaf = !c.request(args, raw)
		}
	}
}

// request does with one request what is to become of it. It returns false where no other can
// follow.
func (c *conn) request(args []string, raw []byte) bool {
	hit, refusal := c.net.faults.find(args)
	switch {
	case refusal != "":
		return c.answer(refusal)
	case hit != nil && !hit.f.After:
		if !hit.delay(c.net.done) {
			return false
		}
		if text, ok := answered(hit.f.Err); ok {
			hit.done()
			return c.answer(text)
		}
		if hit.breaks() {
			c.breakOff(hit.cause())
			hit.done()
			return false
		}
		hit.done()
		hit = nil
	}
	c.net.tick()
	c.mu.Lock()
	if !c.subscribed {
		c.subscribed = isSubscribe(args[0])
	}
	if !c.subscribed {
		c.pending = append(c.pending, &pair{hit: hit})
	}
	c.mu.Unlock()
	_, err := c.server.Write(raw)
	return err == nil
}

// answer gives the client an error of the server's, when the replies before that have been passed
// on.
func (c *conn) answer(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, &pair{answer: []byte("-" + text + "\r\n")})
	c.settleLocked()
	return true
}

// breakOff ends the connection for the client when the replies before that have been passed on.
func (c *conn) breakOff(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = why
	c.settleLocked()
}

// settleLocked passes on what needs no word of the server's.
func (c *conn) settleLocked() {
	for len(c.pending) > 0 && c.pending[0].answer != nil {
		_, _ = c.down.Write(c.pending[0].answer) // who has closed the connection does not read it
		c.pending = c.pending[1:]
	}
	if len(c.pending) == 0 && c.broken != nil {
		c.down.finish(c.broken)
	}
}

// collect takes replies from the server and passes them on.
func (c *conn) collect() {
	in := bufio.NewReader(c.server)
	for {
		raw, err := resp.ReadReply(in, nil)
		if err != nil {
			c.down.finish(io.EOF)
			c.up.finish(io.EOF)
			return
		}
		if !c.reply(plain(raw)) {
			break
		}
	}
	_, _ = io.Copy(io.Discard, in) // what comes for nobody must not hold up the server
	c.up.finish(io.EOF)
}

// scriptError is the emulation's text of an error of a command that a script lets through.
var scriptError = regexp.MustCompile(`^-ERR Error compiling script \(new function\): :(\d+): ([A-Z]{3,} .*?)\s+stack traceback:`)

// plain gives an error the code with which a server answers: by that the library tells what it means.
func plain(raw []byte) []byte {
	if m := scriptError.FindSubmatch(raw); m != nil {
		return fmt.Appendf(nil, "-%s script: on @user_script:%s.\r\n", m[2], m[1])
	}
	return raw
}

// reply passes on one reply, or does what becomes of it. It returns false where no other can
// follow.
func (c *conn) reply(raw []byte) bool {
	c.mu.Lock()
	var hit *Injected
	own := !c.subscribed && raw[0] != '>'
	if own && len(c.pending) > 0 {
		hit = c.pending[0].hit
	}
	c.mu.Unlock()
	if hit != nil {
		open := hit.delay(c.net.done)
		if !open || hit.breaks() {
			c.down.finish(hit.cause())
			hit.done()
			return false
		}
		hit.done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.down.Write(raw) // who has closed the connection does not read it
	if own && len(c.pending) > 0 {
		c.pending = c.pending[1:]
		c.settleLocked()
	}
	return true
}

func isSubscribe(command string) bool {
	switch strings.ToLower(command) {
	case "subscribe", "psubscribe", "ssubscribe":
		return true
	}
	return false
}
