package faultproxy

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// conn is a client's connection and the server's behind it. A goroutine for each direction ends on close; run joins both.
type conn struct {
	p      *Proxy
	client net.Conn
	once   sync.Once
	closed chan struct{}
	anew   chan net.Conn // connections to a server that was started anew, see [Proxy.KeepConnections]

	// A connection that lost something in one direction loses all that follows: a reply must not pass for an earlier one's.
	deaf atomic.Bool // requests
	mute atomic.Bool // replies

	mu      sync.Mutex
	server  net.Conn   // nil: it has ended, and the client's goes on
	pending []*request // forwarded and not answered, oldest first
	last    bool       // no request is read any more: close when nothing is pending
}

// request is one that was forwarded and waits for its reply.
type request struct {
	rule       *Rule // nil: pass the reply on
	held       <-chan struct{}
	subscribes bool
}

func newConn(p *Proxy, client, server net.Conn) *conn {
	return &conn{p: p, client: client, server: server, closed: make(chan struct{}), anew: make(chan net.Conn, 1)}
}

// close ends both connections. It may be called by anybody, any number of times.
func (c *conn) close() {
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.closed)
		_ = c.client.Close()
		if c.server != nil {
			_ = c.server.Close()
		}
	})
}

func (c *conn) run() {
	var wg sync.WaitGroup
	wg.Go(c.requests)
	wg.Go(c.replies)
	wg.Wait()
}

// requests passes on what the client sends. It reads on when deaf, to notice the close and so that the client can write.
func (c *conn) requests() {
	stay := false
	defer func() {
		if !stay {
			c.close()
		}
	}()
	in := bufio.NewReader(c.client)
	subscribed := false
	for {
		args, raw, err := resp.ReadRequest(in)
		if err != nil {
			return
		}
		if len(args) == 0 {
			continue // an empty line or array, which the server does not answer either
		}
		rule, held := c.p.arrive(args, subscribed, c.deaf.Load())
		c.lose(c.p.standing(), true)
		if c.deaf.Load() {
			continue
		}
		if rule != nil {
			rule.count.Add(1)
			switch rule.action {
			case Cut:
				c.close() // before Fired is, so that who waits for it sees the effect
				rule.done()
				return
			case DropRequest:
				if stay = c.finish(); !stay {
					c.close()
				}
				rule.done()
				return
			case BlackHole:
				c.deaf.Store(true)
				c.mute.Store(true)
				rule.done()
				continue
			case keepRequest:
				c.deaf.Store(true)
				c.mute.Store(true)
				c.p.keep(raw, rule.delay)
				rule.done()
				continue
			case refuse:
				rule.done()
				if !c.wait(rule.delay, held) {
					return
				}
				if _, err := c.client.Write([]byte(rule.refusal)); err != nil {
					return
				}
				continue
			case delayRequest:
				rule.done()
				if !c.wait(rule.delay, held) {
					return
				}
			}
		}
		server := c.upstream(subscribed)
		if server == nil {
			return
		}
		if !subscribed {
			subscribed = isSubscribe(args[0])
			c.mu.Lock()
			c.pending = append(c.pending, &request{rule, held, subscribed}) // before the reply can come
			c.mu.Unlock()
		}
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}

// finish says that no more requests follow. It reports whether replies are due; the last of them closes the connection.
func (c *conn) finish() (due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = true
	return len(c.pending) > 0
}

// replies passes on what the server sends, and the one after it.
func (c *conn) replies() {
	defer c.close()
	for server := c.upstream(true); server != nil && c.pass(server); {
		server = c.next()
	}
}

// pass passes on what a server sends. It is true if the server ended the connection.
func (c *conn) pass(server net.Conn) (ended bool) {
	in := bufio.NewReader(server)
	subscribed := false
	for {
		raw, err := resp.ReadReply(in, nil)
		if err != nil {
			return true
		}
		req, last := c.answered(raw[0] == '>', subscribed)
		subscribed = subscribed || req != nil && req.subscribes
		if req != nil {
			c.lose(c.p.standing(), false)
		}
		if req != nil && req.rule != nil && !c.mute.Load() && !c.apply(req) {
			return false
		}
		// Asked anew: silence may have come while the reply was held.
		now := c.p.standing()
		if req != nil {
			c.lose(now, false)
		}
		if now.all || now.replies || c.mute.Load() {
			if req == nil {
				c.p.noteLost(raw)
			}
			continue
		}
		if _, err := c.client.Write(raw); err != nil || last {
			return false
		}
	}
}

// answered takes the request that a frame answers off the queue: nil for a push message, which answers a request only if that
// is to subscribe, and for all that comes after a subscription. last says that the connection ends with this reply.
func (c *conn) answered(push, subscribed bool) (req *request, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if subscribed || len(c.pending) == 0 || push && !c.pending[0].subscribes {
		return nil, false
	}
	req, c.pending = c.pending[0], c.pending[1:]
	return req, c.last && len(c.pending) == 0
}

// apply does what the rule says to a reply, and says whether the reply is to be passed on.
func (c *conn) apply(req *request) bool {
	switch req.rule.action {
	case DropReply:
		c.close()
		req.rule.done()
		return false
	case delayReply:
		req.rule.done()
		return c.wait(req.rule.delay, req.held)
	case HoldReply:
		req.rule.done()
		select {
		case <-req.held:
		case <-c.closed:
			return false
		}
	}
	return true // the fault was to the request
}

// wait holds something back for so long, or until it is released. It is false when the connection is closed meanwhile.
func (c *conn) wait(delay time.Duration, released <-chan struct{}) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-released:
	case <-c.closed:
		return false
	}
	return true
}

// lose marks what the connection loses when a request, or a reply, meets this outage.
func (c *conn) lose(o outage, request bool) {
	if o.all || request && o.requests {
		c.deaf.Store(true)
	}
	if o.all || !request && o.replies {
		c.mute.Store(true)
	}
}

func isSubscribe(name string) bool {
	switch strings.ToUpper(name) {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR":
		return true
	}
	return false
}
