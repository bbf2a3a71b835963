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

// source is a stream of random numbers of its own for everything that happens by itself: what one
// of them draws does not depend on the order in which the others run.
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

// profile is what may happen to a message, as probabilities, and how long a delayed one takes on
// the average.
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

// moment is what chance has for something that happens now. It does not depend on what else happens
// at this moment, nor on the connection on which it does, which is any that is idle.
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

// silence keeps all messages back for a time, as a network does that sends them again until they
// are through.
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
