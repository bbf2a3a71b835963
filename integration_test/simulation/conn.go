package simulation

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

var errReset = &net.OpError{Op: "read", Net: "sim", Err: syscall.ECONNRESET}

// conn is one connection of a client. Requests travel up and replies travel down, each on a lane with a goroutine's help, so
// that neither end ever waits for the other to read, as it is with the buffers of real sockets.
//
// go-redis writes one command or one pipeline per Write and the server one reply per write, so the
// messages of the two lanes are what faults happen to; nothing needs to understand them.
type conn struct {
	net    *network
	server net.Conn // our end of the pipe to the server
	up     lane
	down   lane

	mu       sync.Mutex // guards the rest
	deadline time.Time  // of reads
	closed   bool       // by the client
	broken   error      // what reads return; nil while it works
	mute     bool       // nothing more arrives in either direction, and nobody is told
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.broken != nil:
		return 0, &net.OpError{Op: "write", Net: "sim", Err: syscall.EPIPE}
	case c.mute:
		return len(p), nil
	}
	c.sendLocked(append([]byte(nil), p...))
	return len(p), nil
}

// sendLocked decides what becomes of a request.
func (c *conn) sendLocked(data []byte) {
	n := c.net
	p, rng := n.profile(), n.moment('u', len(data))
	switch {
	case rng.chance(p.loseRequest):
		n.count(LostRequest)
		c.breakLocked(rng)
		return
	case rng.chance(p.delayRequest):
		n.count(DelayedRequest)
		c.up.send(data, n.latency(rng)+rng.random(p.delay))
	case rng.chance(p.holdRequest): // its client takes another connection
		n.count(HeldRequest)
		c.up.send(data, n.latency(rng)+n.w.round(time.Duration(rng.Float64()*float64(n.w.Lease))))
	default:
		c.up.send(data, n.latency(rng))
	}
	if rng.chance(p.loseReply) {
		n.count(LostReply)
		c.breakLocked(rng) // what is under way to the server still arrives
	}
}

// breakLocked ends what the client can hear: with an error in one half of the cases, in the other without a word.
func (c *conn) breakLocked(rng source) {
	c.mute = true
	c.up.end()
	if rng.chance(0.5) {
		time.AfterFunc(c.net.latency(rng), func() { c.reset(errReset) })
	}
}

// reset breaks the connection so that the client is told.
func (c *conn) reset(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
	c.up.end()
	if c.broken == nil {
		c.broken = err
	}
	c.down.change()
}

// cut breaks the connection at both ends at once; requests that are under way are lost.
func (c *conn) cut() {
	c.up.clear()
	c.reset(errReset)
}

// carry brings requests to the server. It goes on after the client closed the connection, as a kernel does.
func (c *conn) carry() {
	defer c.server.Close()
	for {
		data, ok := c.up.next()
		if !ok {
			return
		}
		if _, err := c.server.Write(data); err != nil {
			return
		}
	}
}

// collect takes replies from the server and sends them on their way.
func (c *conn) collect() {
	buf := make([]byte, 4<<10)
	for {
		n, err := c.server.Read(buf)
		if err != nil {
			c.reset(io.EOF)
			return
		}
		c.mu.Lock()
		if !c.mute && !c.closed {
			rng := c.net.moment('r', n)
			delay := c.net.latency(rng)
			if p := c.net.profile(); rng.chance(p.delayReply) {
				c.net.count(DelayedReply)
				delay += rng.random(p.delay)
			}
			c.down.send(append([]byte(nil), buf[:n]...), delay)
		}
		c.mu.Unlock()
	}
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		changed := c.down.watch()
		n, due, err := c.poll(p)
		if n > 0 || err != nil {
			return n, err
		}
		wait(changed, due)
	}
}

// poll takes what has arrived. With nothing it says when to look again.
func (c *conn) poll(p []byte) (n int, left time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left = idle
	if !c.deadline.IsZero() {
		left = time.Until(c.deadline)
	}
	switch {
	case c.closed:
		return 0, 0, net.ErrClosed
	case left <= 0:
		return 0, 0, &net.OpError{Op: "read", Net: "sim", Err: os.ErrDeadlineExceeded}
	case c.broken != nil && (c.down.empty() || !errors.Is(c.broken, io.EOF)):
		return 0, 0, c.broken
	case c.mute && c.broken == nil:
		return 0, left, nil
	}
	n, due := c.down.take(p)
	return n, min(left, due), nil
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.up.end()
	c.down.change()
	c.net.forget(c)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.down.change()
	return nil
}

// SetWriteDeadline does nothing: a Write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) LocalAddr() net.Addr  { return address }
func (c *conn) RemoteAddr() net.Addr { return address }

var address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379}
