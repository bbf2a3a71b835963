package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrClosed is the error of every [Subscription] of a hub that has been closed.
var ErrClosed = errors.New("pubsub: hub is closed")

// Options of a [Hub]. A field that is zero or negative has its default.
type Options struct {
	// Linger is how long a subscription stays on the server after its last waiter has gone, and
	// then the connection after its last subscription. Both take up to a quarter more, because the
	// hub looks for idle channels in groups. Default 2 s.
	Linger time.Duration
	// Ping is the time without a message after which the hub pings a subscribed connection. After
	// as long again without an answer the hub replaces the connection. So it notices a dead server
	// within two periods. Ping also bounds each write. Default 5 s.
	Ping time.Duration
	// Classic makes a cluster's channels classic ones, even if its servers know SSUBSCRIBE. All of
	// them are then on one connection, to any of the servers.
	Classic bool
	// Changed is called when a connection is lost, or cannot be opened at first. It is called again
	// when there is a new connection to the same address, or when nobody needs one any more: its
	// waiters have gone, or wait at another server. It is not called for further failures in
	// between, nor for the end of a connection that was not lost. A goroutine that keeps a
	// connection calls Changed, without a mutex. Changed must not block. Default: none.
	Changed func(Connection)
}

// Connection is a change of the connection to a server.
type Connection struct {
	Server string // its address, as the options of go-redis have it
	Up     bool   // there is one again, or none is needed
	Err    error  // why it was lost; nil if it is up
}

func (o Options) withDefaults() Options {
	if o.Linger <= 0 {
		o.Linger = 2 * time.Second
	}
	if o.Ping <= 0 {
		o.Ping = 5 * time.Second
	}
	return o
}

// Stats is what a [Hub] keeps at one moment.
type Stats struct {
	Connections int // established subscriber connections
	Channels    int // channels subscribed, being subscribed, or lingering
	Subscribers int // subscriptions that have not been closed
	Goroutines  int // goroutines of the hub
}

// Hub shares the subscriber connections of one client between all its waiters. Make it with [New];
// it is safe for concurrent use.
//
// One mutex guards all of the bookkeeping, of the hub, its links and their topics. It is never held
// over a network call or while sending on a channel that might block. Rejected: a mutex per link.
// Routing moves topics between links, which needs an order of locks or both at once, and the
// critical sections are short compared with a message from the network.
type Hub struct {
	rdb    redis.UniversalClient
	opts   Options
	home   route // the route of everything that needs no routing
	moves  bool  // whether servers may be replaced unseen
	dials  *dials
	routed bool            // whether channels have servers of their own (cluster, ring)
	ctx    context.Context // ends with Close; the parent of every dial
	cancel context.CancelFunc
	idle   chan struct{} // closed when the hub is closed and its last goroutine has ended
	moved  chan struct{} // tells the router of new work; one token is enough, it looks at the whole list

	mu          sync.Mutex // guards what follows and, where they say so, links and topics
	closed      bool
	goroutines  int
	connections int
	subscribers int
	topics      map[string]*topic
	links       map[route]*link
	routing     []*topic           // topics without a link, for the router
	router      bool               // whether the router goroutine runs
	classic     map[node]time.Time // nodes without SSUBSCRIBE -> when that was seen
	swept       int                // how many idle topics were looked at; for tests
	broken      map[string]bool    // addresses of lost connections, if somebody wants to know
}

// New makes a hub. It sends nothing and starts nothing before the first [Hub.Subscribe]. The client
// stays the caller's. Close it after the hub.
func New(rdb redis.UniversalClient, opts Options) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{
		rdb:     rdb,
		opts:    opts.withDefaults(),
		home:    route{node: &wholeClient{rdb}},
		routed:  needsRouting(rdb),
		moves:   moves(rdb),
		dials:   new(dials),
		ctx:     ctx,
		cancel:  cancel,
		idle:    make(chan struct{}),
		moved:   make(chan struct{}, 1),
		topics:  make(map[string]*topic),
		links:   make(map[route]*link),
		classic: make(map[node]time.Time),
		broken:  make(map[string]bool),
	}
}

// Subscribe joins the waiters for messages on channel. It never blocks and never uses the network:
// the hub asks the server in the background, and reports the result by [Subscription.Wake]. Close
// the subscription at the end.
func (h *Hub) Subscribe(channel string) *Subscription {
	return h.subscribe(channel, &Subscription{wake: make(chan struct{}, 1)})
}

// Listen is Subscribe for a caller that needs the content of the messages. The subscription has no
// Wake.
func (h *Hub) Listen(channel string, l Listener) *Subscription {
	return h.subscribe(channel, &Subscription{hears: l})
}

func (h *Hub) subscribe(channel string, s *Subscription) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, wake := h.topics[channel], false
	switch {
	case h.closed:
		t, wake = &topic{hub: h, channel: channel}, true // its own: a closed hub keeps no topics
		t.err.Store(&ErrClosed)
	case t == nil:
		t = &topic{hub: h, channel: channel}
		h.topics[channel] = t
		h.placeLocked(t)
	case t.state == confirmed:
		wake = true
	}
	t.addLocked(s)
	if wake {
		s.signal()
	}
	return s
}

// Listens returns how many connections of the hub are subscribed to a channel, as far as it knows:
// 1 or 0.
func (h *Hub) Listens(channel string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[channel]; t != nil && t.state == confirmed {
		return 1
	}
	return 0
}

// Unlinger ends the subscription of a channel that only lingers, and does not wait for that. If the
// channel has subscribers, nothing happens.
func (h *Hub) Unlinger(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil || t.subs != nil || t.link == nil {
		return
	}
	t.idleAt = t.idleAt.Add(-h.opts.Linger)
	t.link.idle.hurry(t)
	t.link.sweeping = true
	kick(t.link.work)
}

// Close ends all connections and waits for the hub's goroutines, but not longer than ctx. All
// subscribers wake and find [ErrClosed], and so do later subscribers. Closing twice is harmless.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		for _, t := range h.topics {
			h.failLocked(t, ErrClosed)
		}
		h.routing = nil
		if h.goroutines == 0 {
			close(h.idle)
		}
	}
	h.mu.Unlock()
	h.cancel()
	select {
	case <-h.idle:
		return nil
	default:
	}
	select {
	case <-h.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pubsub: connections still closing: %w", context.Cause(ctx))
	}
}

// Stats counts what the hub keeps now.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{
		Connections: h.connections,
		Channels:    len(h.topics),
		Subscribers: h.subscribers,
		Goroutines:  h.goroutines,
	}
}

// goLocked starts a goroutine that Close waits for. The hub must not be closed. Callers hold mu.
func (h *Hub) goLocked(f func()) {
	h.goroutines++
	go func() {
		defer h.exit()
		f()
	}()
}

func (h *Hub) exit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.goroutines--
	if h.closed && h.goroutines == 0 {
		close(h.idle)
	}
}

// deliver wakes everybody who waits for channel. It does not ask which link the message came by: a
// message that arrives by a connection the topic has just left is as good a hint as any.
func (h *Hub) deliver(channel, payload string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[channel]; t != nil {
		for s := t.subs; s != nil; s = s.next {
			s.message(payload)
		}
	}
}

// placeLocked gives a topic that has no link its place: at once where there is only one server,
// else by the router.
func (h *Hub) placeLocked(t *topic) {
	if !h.routed {
		h.attachLocked(t, h.home)
		return
	}
	t.link, t.state = nil, unrouted
	h.routing = append(h.routing, t)
	if !h.router {
		h.router = true
		h.goLocked(h.route)
	}
	kick(h.moved)
}

// attachLocked queues t on the link of route r and makes the link if there is none.
func (h *Hub) attachLocked(t *topic, r route) {
	l := h.links[r]
	if l == nil {
		l = newLink(h, r)
		h.links[r] = l
		h.goLocked(l.keep)
	}
	t.link = l
	l.topics[t.channel] = t
	l.queueLocked(t)
}

// failLocked ends t for good. The next Subscribe of its channel makes a new topic and asks the
// server again.
func (h *Hub) failLocked(t *topic, err error) {
	t.err.Store(&err)
	h.forgetLocked(t)
	t.signalLocked()
}

func (h *Hub) forgetLocked(t *topic) {
	if h.topics[t.channel] == t {
		delete(h.topics, t.channel)
	}
	if t.link != nil {
		t.link.removeLocked(t)
	}
	t.state = gone
}

// kick leaves a token in a 1-buffered channel: the receiver looks at all of its work, so one is
// enough.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
