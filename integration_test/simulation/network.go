package simulation

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// source is a stream of random numbers of its own for each actor: its draws do not depend on the order in which others run.
type source struct{ *rand.Rand }

func newSource(seed uint64, path ...uint64) source {
	a, b := seed, uint64(0x9e3779b97f4a7c15)
	for _, p := range path {
		a, b = b^(p+1)*0xbf58476d1ce4e5b9, a*0x94d049bb133111eb+p+1
	}
	return source{rand.New(rand.NewPCG(a, b))} //nolint:gosec // a simulation
}

func (s source) chance(p float64) bool { return p > 0 && s.Float64() < p }

// random is a duration with this mean; many are short and few are long.
func (s source) random(mean time.Duration) time.Duration {
	return time.Duration(min(s.ExpFloat64(), 6) * float64(mean))
}

// between is a duration between two, spread evenly over their magnitudes.
func (s source) between(low, high time.Duration) time.Duration {
	ratio := float64(high) / float64(low)
	return time.Duration(float64(low) * math.Pow(ratio, s.Float64()))
}

// profile is what may happen to a message, as probabilities, and how long a delayed one takes on the average.
type profile struct {
	loseRequest, loseReply, delayRequest, delayReply, holdRequest float64
	delay                                                         time.Duration
	// by how many times latency is greater; 0: not
	slow float64
}

// network is the way of one client to the server.
type network struct {
	w      *World
	client uint64
	far    time.Duration // one way, beside the latency

	mu     sync.Mutex // guards the rest; never held while a conn's is taken
	now    profile
	silent time.Time // until when nothing arrives
	dead   bool      // the client has crashed
	conns  []*conn   // in the order of their dials
}

func newNetwork(w *World, client int) *network {
	n := &network{w: w, client: uint64(client)} //nolint:gosec // not negative
	if w.Apart {
		n.far = distances[newSource(w.Seed, 'f', n.client).IntN(len(distances))]
	}
	return n
}

// moment is what chance has for an event now, whatever else happens at this moment, and on whichever idle connection it does.
func (n *network) moment(what uint64, size int) source {
	return newSource(n.w.Seed, what, n.client, uint64(n.w.Now()), uint64(size)) //nolint:gosec // not negative
}

func (n *network) profile() profile {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// disturb sets what happens to messages from now on.
func (n *network) disturb(p profile) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = p
}

// silence keeps all messages back for a time, as a network does that sends them again until they are through.
func (n *network) silence(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = time.Now().Add(d)
}

// hold is by how much longer a message that should have arrived is under way.
func (n *network) hold() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if left := time.Until(n.silent); left > 0 {
		return n.w.round(left + n.moment('h', 0).random(n.w.Latency))
	}
	return 0
}

// latency is how long a message is under way.
func (n *network) latency(rng source) time.Duration {
	d := n.far + n.w.Latency/2 + rng.random(n.w.Latency/2)
	if p := n.profile(); p.slow > 0 {
		d = time.Duration(float64(d) * p.slow)
	}
	return n.w.round(d)
}

func (n *network) count(f Fault) { n.w.faults[f].Add(1) }

// dial is what go-redis connects with.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	failed := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "sim", Addr: address, Err: err}
	}
	for delay := 2 * n.latency(n.moment('d', 0)); delay > 0; delay = n.hold() {
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return failed(os.ErrDeadlineExceeded)
		}
	}
	if n.w.down() {
		return failed(syscall.ECONNREFUSED)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return failed(syscall.ENETUNREACH)
	}
	server, err := n.w.server.Dial()
	if err != nil {
		return failed(err)
	}
	c := &conn{net: n, server: server}
	c.up.hold, c.down.hold = n.hold, n.hold
	c.up.stale, c.down.stale = n.w.stale(), n.w.stale()
	n.conns = append(n.conns, c)
	n.w.traffic.Go(c.carry)
	n.w.traffic.Go(c.collect)
	return c, nil
}

func (n *network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = slices.DeleteFunc(n.conns, func(other *conn) bool { return other == c })
}

func (n *network) open() []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.conns)
}

// cut breaks all connections.
func (n *network) cut() {
	for _, c := range n.open() {
		c.cut()
	}
}

// crash cuts the client off for good. What it has sent may still arrive.
func (n *network) crash() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	for _, c := range n.open() {
		c.reset(errReset)
	}
}

// lane is one direction of a connection: messages that arrive in the order in which they were sent, each after its time.
type lane struct {
	hold  func() time.Duration // by how much longer the network keeps what is due
	stale time.Duration        // how long a message may be under way that was not sent to be longer

	mu       sync.Mutex // guards the rest
	messages []message
	ended    bool          // no more will be sent
	changed  chan struct{} // closed at the next change, nil unless somebody waits for it
}

type message struct {
	data []byte
	at   time.Time // when it arrives
	last time.Time // after that it does not any more
}

const idle = time.Hour

// send puts a message on its way. It does not overtake.
func (l *lane) send(data []byte, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	now := time.Now()
	at := now.Add(delay)
	if n := len(l.messages); n > 0 && l.messages[n-1].at.After(at) {
		at = l.messages[n-1].at
	}
	l.messages = append(l.messages, message{data, at, latest(at, now.Add(l.stale))})
	l.changeLocked()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// end lets what is on its way arrive, and nothing after it.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.changeLocked()
}

// clear loses what is on its way.
func (l *lane) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = nil
}

// change has who waits look again.
func (l *lane) change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changeLocked()
}

func (l *lane) changeLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// watch is for who is going to look and then wait: what changes in between is not missed.
func (l *lane) watch() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func wait(changed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (l *lane) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages) == 0
}

// dueLocked is in what time the first message is there, 0 if it is.
func (l *lane) dueLocked() time.Duration {
	if len(l.messages) == 0 {
		return idle
	}
	m := &l.messages[0]
	d := time.Until(m.at)
	if d > 0 {
		return d
	}
	if time.Now().After(m.last) { // with all that is behind it: a stream has no gaps
		l.messages, l.ended = nil, true
		return idle
	}
	if d = l.hold(); d > 0 {
		m.at = time.Now().Add(d)
	}
	return max(d, 0)
}

// take moves what has arrived into p. With nothing it returns when the next message is due.
func (l *lane) take(p []byte) (n int, due time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n < len(p) {
		if due = l.dueLocked(); due > 0 {
			return n, due
		}
		m := &l.messages[0]
		k := copy(p[n:], m.data)
		n += k
		if m.data = m.data[k:]; len(m.data) == 0 {
			l.messages = l.messages[1:]
		}
	}
	return n, 0
}

// next waits for the next message to arrive. It is false when the lane has ended.
func (l *lane) next() ([]byte, bool) {
	for {
		changed := l.watch()
		data, due, over := l.pop()
		if data != nil || over {
			return data, !over
		}
		wait(changed, due)
	}
}

func (l *lane) pop() (data []byte, due time.Duration, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if due = l.dueLocked(); due > 0 {
		return nil, due, l.ended && len(l.messages) == 0
	}
	data = l.messages[0].data
	l.messages = l.messages[1:]
	return data, 0, false
}
