package pubsub

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
)

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = 250 * time.Millisecond

	// classicFor is how long a node is taken for one without SSUBSCRIBE. Not for ever: in a rolling
	// upgrade the same node soon has it, and is then published to with SPUBLISH.
	classicFor = time.Minute
)

// node is what a link connects to: a client of one server, or a whole client. A pointer, to be a
// key of maps.
type node interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// wholeClient makes a comparable node of any UniversalClient, also of a caller's own that is not a
// pointer.
type wholeClient struct{ redis.UniversalClient }

// route says which connection carries a channel and by which command.
type route struct {
	node    node
	sharded bool // SSUBSCRIBE
}

func needsRouting(rdb redis.UniversalClient) bool {
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return true
	}
	return false
}

// find asks the client where channel belongs. In a cluster whose state has not been loaded yet that
// is network I/O.
func (h *Hub) find(ctx context.Context, channel string) (r route, err error) {
	defer panics.Into(&err)
	switch rdb := h.rdb.(type) {
	case *redis.ClusterClient:
		n, err := rdb.MasterForKey(ctx, channel)
		if err != nil {
			return route{}, err
		}
		// servers that are no Redis Cluster: each hears what is published on itself
		if rdb.Options().ClusterSlots != nil {
			return route{node: n}, nil
		}
		if h.opts.Classic || h.isClassic(n) {
			return h.home, nil
		}
		return route{node: n, sharded: true}, nil
	case *redis.Ring:
		n, err := rdb.GetShardClientForKey(channel)
		return route{node: n}, err
	}
	return h.home, nil
}

// reload has the state of the cluster loaded again, in the background: network errors do not make
// go-redis do it, and its own interval is a minute. It returns before the new state is there, so
// routing is tried again and again.
func (h *Hub) reload() {
	if cc, ok := h.rdb.(*redis.ClusterClient); ok {
		cc.ReloadState(h.ctx)
	}
}

func (h *Hub) isClassic(n node) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen, ok := h.classic[n]
	if ok && time.Since(seen) > classicFor {
		delete(h.classic, n)
		return false
	}
	return ok
}

// rerouteLocked takes t off its link and lets the router place it, after a delay that grows with
// every attempt since the last confirmation.
func (h *Hub) rerouteLocked(t *topic) {
	if t.link != nil {
		t.link.removeLocked(t)
	}
	t.attempts++
	t.due = time.Now().Add(backoff(t.attempts))
	h.placeLocked(t)
	t.interruptLocked()
}

// route is the router: a goroutine that lives while there are topics without a link. It is not the
// callers' business, because it may wait for the network, and not a keeper's, because a keeper
// belongs to a server and the question is which one.
func (h *Hub) route() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for h.ctx.Err() == nil {
		due, wait, more := h.takeDue()
		again := make(map[route][]*topic)
		for _, t := range due {
			r, err := h.find(h.ctx, t.channel)
			if err == nil && r.sharded && t.attempts > 0 {
				again[r] = append(again[r], t)
				continue
			}
			h.settle(t, r, err)
		}
		h.settleAtMasters(again)
		if len(due) > 0 {
			continue
		}
		if !more {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-h.moved:
		case <-h.ctx.Done():
		}
	}
}

// takeDue takes the topics that may be routed now; wait is the time until the next one may be. When
// there are none at all the router is over, which is decided under the same lock as the adding of
// topics.
func (h *Hub) takeDue() (due []*topic, wait time.Duration, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	wait = backoffMax
	var later []*topic
	for _, t := range h.routing {
		switch {
		case t.state != unrouted: // gone meanwhile
		case t.subs == nil: // nothing is subscribed on any server: nothing to linger for
			h.forgetLocked(t)
		case t.due.After(now):
			later = append(later, t)
			wait = min(wait, t.due.Sub(now))
		default:
			due = append(due, t)
		}
	}
	h.routing = later
	h.router = len(due)+len(later) > 0
	return due, wait, h.router
}

// settleAtMasters settles topics that were at a node before, if where they are routed now is a master. After
// a failover the client's map of slots names the old master for a moment, which may be a replica by now. That
// accepts an SSUBSCRIBE, and the new master does not count it among those who listen. A node that hangs
// delays its own topics only.
func (h *Hub) settleAtMasters(again map[route][]*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r, topics := range again {
		if h.closed { // all topics have been told
			return
		}
		h.goLocked(func() {
			err := h.checkMaster(r.node)
			for _, t := range topics {
				h.settle(t, r, err)
			}
		})
	}
}

func (h *Hub) settle(t *topic, r route, err error) {
	if err != nil && !permanent(err) {
		h.reload()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed || t.state != unrouted:
	case err == nil:
		h.attachLocked(t, r)
		if t.subs == nil { // they left while it was routed
			t.link.leftLocked(t)
		}
	case permanent(err):
		h.failLocked(t, err)
	default:
		h.rerouteLocked(t)
	}
}

// backoff grows from backoffMin to backoffMax; the random half of it keeps the clients of a server
// that comes back from arriving together.
func backoff(attempt int) time.Duration {
	d := backoffMax
	if attempt < 7 {
		d = min(d, backoffMin<<max(attempt-1, 0))
	}
	return d/2 + rand.N(d/2+1)
}
