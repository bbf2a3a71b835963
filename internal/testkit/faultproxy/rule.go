package faultproxy

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// Action is what a rule does to the request that fires it.
type Action int

// The actions.
const (
	// DropReply lets the server run the request, swallows the reply and then closes the connection: a lost reply.
	DropReply Action = iota + 1
	// DropRequest is a lost request: it is not forwarded, and the connection is closed once all replies still due have passed.
	DropRequest
	// Cut closes the connection at once, before forwarding; replies still due may be lost.
	Cut
	// HoldReply lets the server run the request and holds the connection's replies from this one on until [Rule.Release].
	HoldReply
	// BlackHole swallows the request and everything after it on the connection, which stays open without a word.
	BlackHole

	// Those with a duration have methods of their own.
	delayRequest
	delayReply
	keepRequest
	refuse
)

// String names the action.
func (a Action) String() string {
	names := [...]string{
		"none", "DropReply", "DropRequest", "Cut", "HoldReply", "BlackHole", "DelayRequest", "DelayReply",
		"KeepRequest", "Refuse",
	}
	if int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// Rule is a fault that waits for its request.
type Rule struct {
	match  func(args []string) bool
	nth    int
	action Action
	delay  time.Duration
	count  atomic.Int64

	refusal string // of Refuse, as it is sent

	mu      sync.Mutex
	seen    int
	cleared bool
	fired   chan struct{} // closed by the first firing
	hold    chan struct{} // closed by Release
}

func newRule(match func(args []string) bool, nth int, action Action) *Rule {
	return &Rule{match: match, nth: nth, action: action, fired: make(chan struct{}), hold: make(chan struct{})}
}

// Fired is closed by the first effect: for a rule about replies when the request has run, else when it is caught. Delays begin.
func (r *Rule) Fired() <-chan struct{} { return r.fired }

// Count is how many requests the rule has caught. It rises before the fault is felt: a client that saw an error is counted.
func (r *Rule) Count() int { return int(r.count.Load()) }

// Release passes on what HoldReply or a delay holds. With nth 0 the rule holds later ones; any other holds nothing any more.
func (r *Rule) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
	if r.nth == 0 && !r.cleared {
		r.hold = make(chan struct{})
	}
}

// Clear ends the rule and releases what it holds. The request being handled may still be hit.
func (r *Rule) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleared = true
	r.release()
}

func (r *Rule) release() {
	select {
	case <-r.hold:
	default:
		close(r.hold)
	}
}

// hit sees a request and says whether it is the rule's. held is what its reply waits for.
func (r *Rule) hit(args []string) (hit bool, held <-chan struct{}) {
	if !r.match(args) {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	return !r.cleared && (r.nth == 0 || r.seen == r.nth), r.hold
}

// done records that the rule has taken effect.
func (r *Rule) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.fired:
	default:
		close(r.fired)
	}
}

// Command matches requests by name, in any case.
func Command(names ...string) func(args []string) bool {
	return func(args []string) bool {
		return len(args) > 0 && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, args[0]) })
	}
}

// Script matches EVALSHA with this hash, and EVAL with the text that has it; not the read-only variants.
func Script(sha string) func(args []string) bool {
	return func(args []string) bool {
		switch {
		case len(args) < 2:
			return false
		case strings.EqualFold(args[0], "EVALSHA"):
			return strings.EqualFold(args[1], sha)
		case strings.EqualFold(args[0], "EVAL"):
			sum := sha1.Sum([]byte(args[1])) //nolint:gosec // Redis names scripts by their SHA-1
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		}
		return false
	}
}

// Arg matches requests by their i-th word: 0 is the command; of a script 1 is the hash or text, 2 the number of keys, 3 a key.
func Arg(i int, val string) func(args []string) bool {
	return func(args []string) bool { return i < len(args) && args[i] == val }
}

// All matches requests that all the matchers match: All(Script(sha), Arg(3, "orders")).
func All(matchers ...func(args []string) bool) func(args []string) bool {
	return func(args []string) bool {
		return !slices.ContainsFunc(matchers, func(m func([]string) bool) bool { return !m(args) })
	}
}

// Any matches every request. On a connection of go-redis the first is HELLO.
func Any(args []string) bool { return true }

// KeepConnections makes the proxy keep its clients' connections when the server ends its own, as one that pools connections
// does: the next request makes a new connection to the server. A client whose request has no answer yet is cut off all the
// same, for it could not tell what became of that; and one that has subscribed hears nothing more until it says something, and
// is cut off then.
func (p *Proxy) KeepConnections() { p.keeps.Store(true) }

// comeback is for how long a server that was started anew is waited for.
const comeback = time.Second

// upstream is the connection to the server; if that has ended a new one, but not after a subscription; nil if there is none.
func (c *conn) upstream(subscribed bool) net.Conn {
	c.mu.Lock()
	server := c.server
	c.mu.Unlock()
	if server != nil || subscribed {
		return server
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < comeback; {
		if s, err := net.DialTimeout("tcp", c.p.upstream, comeback); err == nil {
			return c.adopt(s)
		}
		select {
		case <-tick.C:
		case <-c.closed:
			return nil
		}
	}
	return nil
}

// adopt takes a new connection to the server into use.
func (c *conn) adopt(server net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		_ = server.Close()
		return nil
	default:
	}
	c.server = server
	c.anew <- server // there is room: the one before it was taken
	return server
}

// next waits for the connection after one that the server has ended; nil if the client's ends with it.
func (c *conn) next() net.Conn {
	if !c.p.keeps.Load() {
		return nil
	}
	c.mu.Lock()
	if len(c.pending) > 0 || c.last {
		c.mu.Unlock()
		return nil
	}
	if c.server != nil {
		_ = c.server.Close()
		c.server = nil
	}
	c.mu.Unlock()
	select {
	case server := <-c.anew:
		return server
	case <-c.closed:
		return nil
	}
}

// KeepRequest adds a rule like On that keeps the request for so long and then sends it on a connection of its own, whatever has
// become of client and rule: a packet that a network sends again. The client's connection is silent from then on.
func (p *Proxy) KeepRequest(match func(args []string) bool, nth int, delay time.Duration) *Rule {
	return p.add(match, nth, keepRequest, delay)
}

// Deliver hands over all requests that are kept, and returns when the server has answered them.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	now := p.deliver
	p.deliver = make(chan struct{})
	p.mu.Unlock()
	close(now)
	p.late.Wait()
}

func (p *Proxy) keep(raw []byte, delay time.Duration) {
	p.mu.Lock()
	now := p.deliver
	p.mu.Unlock()
	p.late.Go(func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-now:
		}
		server, err := net.DialTimeout("tcp", p.upstream, comeback)
		if err != nil {
			return // then it is lost
		}
		defer func() { _ = server.Close() }()
		if _, err = server.Write(raw); err == nil {
			_ = server.SetReadDeadline(time.Now().Add(patient))
			_, _ = resp.ReadReply(bufio.NewReader(server), nil)
		}
	})
}

// patient is for how long a server that got a late request is waited for.
const patient = 5 * time.Second

// outage is what does not pass while it lasts, on any connection.
type outage struct{ all, requests, replies bool }

// Silence makes the proxy a black hole while it is on: connections are accepted and stay open, and nothing passes either way.
// Silence(false) ends it for new connections and for those that lost no request and no reply meanwhile; the others stay mute
// until they are closed, as a later reply would be taken for an earlier one's. Lost pub/sub messages are just lost.
func (p *Proxy) Silence(on bool) { p.change(func(o *outage) { o.all = on }) }

// LoseRequests makes requests vanish while it is on; replies still due and pub/sub messages pass. Like [Proxy.Silence] it ends
// for new connections and for those that lost no request. The others lose all further requests until they are closed.
func (p *Proxy) LoseRequests(on bool) { p.change(func(o *outage) { o.requests = on }) }

// LoseReplies makes replies and pub/sub messages vanish while it is on, not requests. It ends as [Proxy.LoseRequests] does.
func (p *Proxy) LoseReplies(on bool) { p.change(func(o *outage) { o.replies = on }) }

// Lost reports whether a pub/sub message that contains this text did not pass.
func (p *Proxy) Lost(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.lost, func(message string) bool { return strings.Contains(message, text) })
}

func (p *Proxy) noteLost(message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = append(p.lost, string(message))
}

func (p *Proxy) change(f func(*outage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.outage)
}

func (p *Proxy) standing() outage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outage
}
