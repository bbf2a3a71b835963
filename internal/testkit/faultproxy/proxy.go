// Package faultproxy is a TCP proxy between a client and a real Redis server that breaks
// connections at chosen commands: "the server runs this one, and its reply is lost".
//
// It reads the requests of each connection (pipelined, or in pieces, as they come) and pairs the replies with them in order, so
// that a fault hits one command and not one packet. A [Rule] says which request and what happens. Where a test shows that the
// library survives a fault, a control without that protection shows that the fault is real.
//
// Not promised: pairing after CLIENT REPLY OFF or SKIP. A connection that has subscribed is passed on frame by frame: rules for
// its requests still hold, but those for replies (DropReply, HoldReply, [Proxy.DelayReply]) do not, as its answers and messages
// cannot be told apart under RESP2. Throttling is not offered.
package faultproxy

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy passes connections on to one server. All methods may be called from any goroutine.
type Proxy struct {
	upstream string
	addr     string      // never changes
	keeps    atomic.Bool // connections, when the server ends its own

	mu      sync.Mutex // guards what follows; never held during I/O except the instant closes
	ln      net.Listener
	conns   map[*conn]struct{}
	rules   []*Rule
	log     [][]string
	outage  outage
	lost    []string      // pub/sub messages
	deliver chan struct{} // closed by Deliver

	wg   sync.WaitGroup // the accept loop and the connections' goroutines
	late sync.WaitGroup // requests that are kept
}

// New starts a proxy to a server on its own port. At the test's end it closes all connections and waits for its goroutines.
func New(tb testing.TB, upstreamAddr string) *Proxy {
	p := &Proxy{upstream: upstreamAddr, conns: make(map[*conn]struct{}), deliver: make(chan struct{})}
	addr, release, err := reserve()
	require.NoError(tb, err, "faultproxy")
	ln, err := net.Listen("tcp", addr)
	require.NoError(tb, err, "faultproxy")
	p.addr = ln.Addr().String()
	p.open(ln)
	tb.Cleanup(func() {
		p.Clear()
		p.Stop()
		release()
		p.Deliver()
	})
	return p
}

// Addr is the address to connect to in place of the server's, an IP literal with port. It never changes.
func (p *Proxy) Addr() string { return p.addr }

func (p *Proxy) open(ln net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ln = ln
	p.wg.Add(1)
	go p.accept(ln)
}

func (p *Proxy) accept(ln net.Listener) {
	defer p.wg.Done()
	for {
		client, err := ln.Accept()
		if err != nil {
			return // closed by Stop
		}
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.serve(ln, client)
		}()
	}
}

// serve runs one connection until either side closes it.
func (p *Proxy) serve(ln net.Listener, client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, 10*time.Second)
	if err != nil {
		_ = client.Close() // the server is down: so are we
		return
	}
	c := newConn(p, client, server)
	p.mu.Lock()
	if p.ln != ln { // stopped while we dialled
		p.mu.Unlock()
		c.close()
		return
	}
	p.conns[c] = struct{}{}
	p.mu.Unlock()

	c.run()

	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// Stop refuses and closes connections and waits for all goroutines. It keeps the port, lest another test's server answers.
func (p *Proxy) Stop() {
	p.mu.Lock()
	ln := p.ln
	p.ln = nil
	p.mu.Unlock()
	if ln != nil {
		_ = ln.Close()
	}
	p.CutAll()
	p.wg.Wait()
}

// Start accepts again on the same port after [Proxy.Stop]. It tries for 5 s: a starting process may hold the old listener.
func (p *Proxy) Start() {
	p.mu.Lock()
	running := p.ln != nil
	p.mu.Unlock()
	if running {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var err error
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-tick.C {
		var ln net.Listener
		if ln, err = net.Listen("tcp", p.addr); err == nil {
			p.open(ln)
			return
		}
	}
	panic("faultproxy: " + err.Error())
}

// CutAll closes all open connections at once. New ones are accepted.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// On adds a rule: the nth request (1 is the next) that match matches from now on, on any connection, is subject to the action;
// with nth 0 every one is, until Clear. A rule with nth > 0 fires once. Where several rules want the same request, the oldest
// has it, but all count it. match gets the words of the request, the command's name first.
func (p *Proxy) On(match func(args []string) bool, nth int, action Action) *Rule {
	return p.add(match, nth, action, 0)
}

// DelayRequest is like On, but passes the request on later. What follows on the connection waits too, so delays add up.
func (p *Proxy) DelayRequest(match func(args []string) bool, nth int, delay time.Duration) *Rule {
	return p.add(match, nth, delayRequest, delay)
}

// DelayReply is DelayRequest for the reply: the server runs the request at once.
func (p *Proxy) DelayReply(match func(args []string) bool, nth int, delay time.Duration) *Rule {
	return p.add(match, nth, delayReply, delay)
}

// Refuse is like On: after a delay the proxy itself answers with an error, such as "LOADING the dataset", and the server gets nothing.
// That is for connections on which no other reply is due.
func (p *Proxy) Refuse(match func(args []string) bool, nth int, delay time.Duration, text string) *Rule {
	r := newRule(match, nth, refuse)
	r.delay, r.refusal = delay, "-"+text+"\r\n"
	return p.put(r)
}

func (p *Proxy) add(match func([]string) bool, nth int, action Action, delay time.Duration) *Rule {
	r := newRule(match, nth, action)
	r.delay = delay
	return p.put(r)
}

func (p *Proxy) put(r *Rule) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Clear ends all rules and releases the replies they hold.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		r.Clear()
	}
	p.rules = nil
}

// Seen is how many requests match, of all that arrived in the proxy's life, which is a test's, whatever became of them.
func (p *Proxy) Seen(match func(args []string) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, args := range p.log {
		if match(args) {
			n++
		}
	}
	return n
}

// Calm reports whether nothing can happen to a request: there is no outage, and each rule was cleared.
func (p *Proxy) Calm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ln != nil && p.outage == outage{} && !slices.ContainsFunc(p.rules, func(r *Rule) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.cleared
	})
}

// Requests returns a copy of all requests so far, in the order of their arrival.
func (p *Proxy) Requests() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// arrive records a request and finds the rule for it, if any. A subscribed connection has only rules for requests. A deaf one
// has none, and its requests are not among those that rules count: nothing more could happen to them.
func (p *Proxy) arrive(args []string, subscribed, deaf bool) (rule *Rule, held <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, args)
	if deaf {
		return nil, nil
	}
	for _, r := range p.rules {
		if subscribed && (r.action == DropReply || r.action == HoldReply || r.action == delayReply) {
			continue
		}
		if hit, h := r.hit(args); hit && rule == nil {
			rule, held = r, h
		}
	}
	return rule, held
}

// window is how many pieces may be on the way in one direction: of what a lock sends, more than ever are.
const window = 1024

// Distance returns an address that is farther from upstream, a server or [Proxy]: everything arrives oneWay later, each way, in
// order, at no lower speed. At the test's end connections are closed and goroutines waited for.
func Distance(tb testing.TB, upstream string, oneWay time.Duration) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err, "faultproxy")
	d := &distance{upstream: upstream, oneWay: oneWay, ended: make(chan struct{})}
	d.wg.Go(func() { d.accept(ln) })
	tb.Cleanup(func() {
		close(d.ended)
		_ = ln.Close()
		d.wg.Wait()
	})
	return ln.Addr().String()
}

type distance struct {
	upstream string
	oneWay   time.Duration
	ended    chan struct{}  // closed at the end
	wg       sync.WaitGroup // of all goroutines
}

func (d *distance) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return // closed
		}
		d.wg.Go(func() { d.serve(client) })
	}
}

// serve runs one connection until either side, or the test, ends it.
func (d *distance) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.DialTimeout("tcp", d.upstream, 10*time.Second)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	over := make(chan error, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		pieces := make(chan piece, window)
		d.wg.Go(func() { d.read(way[0], pieces) })
		d.wg.Go(func() {
			err := d.write(way[1], pieces)
			if err == nil { // the other side has said all, and all of that has arrived
				err = way[1].(*net.TCPConn).CloseWrite()
			}
			over <- err
		})
	}
	for range 2 {
		select {
		case err := <-over:
			if err != nil {
				return
			}
		case <-d.ended:
			return
		}
	}
}

// piece is what is on its way.
type piece struct {
	due   time.Time
	bytes []byte
}

func (d *distance) read(from net.Conn, pieces chan<- piece) {
	defer close(pieces)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case pieces <- piece{time.Now().Add(d.oneWay), buf[:n]}:
		case <-d.ended:
			return
		}
	}
}

// write passes on what arrives until nothing comes any more.
func (d *distance) write(to net.Conn, pieces <-chan piece) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p := range pieces {
		timer.Reset(time.Until(p.due))
		select {
		case <-timer.C:
		case <-d.ended:
			return nil
		}
		if _, err := to.Write(p.bytes); err != nil {
			return err
		}
	}
	return nil
}
