package pubsub

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/panics"
)

const (
	// lookGap is how often a link looks where commands go.
	lookGap = time.Second
	// followGap and maxFollowGap bound how often a connection is replaced because of that. Each
	// time costs an attempt of everybody who waits.
	followGap    = 3 * time.Second
	maxFollowGap = time.Minute
)

// moves reports whether a server may be replaced by another one without an end of the connections
// to it: behind Sentinel, and wherever else a client was given the map of its servers.
func moves(rdb redis.UniversalClient) bool {
	switch rdb := rdb.(type) {
	case *redis.Client:
		// as redis.NewFailoverClient writes: it asks Sentinel at each dial
		return rdb.Options().Addr == "FailoverClient"
	case *redis.ClusterClient:
		return rdb.Options().ClusterSlots != nil
	}
	return false
}

// dials remembers where a client's last connection went that is not one of the hub's own. It is a
// hook of the client, which keeps it for good; so it keeps nothing of the hub alive.
type dials struct {
	once sync.Once // adds the hook

	mu   sync.Mutex // guards the rest
	addr string     // remote address
	at   time.Time  // when it was opened
}

// ownDial is the key in a context under which one of our own dials takes note of its remote
// address, a *string.
type ownDial struct{}

// note has the context of a dial by the hub note the address in *addr.
func (d *dials) note(ctx context.Context, rdb redis.UniversalClient, addr *string) context.Context {
	d.once.Do(func() { rdb.AddHook(d) })
	return context.WithValue(ctx, ownDial{}, addr)
}

// DialHook is [redis.Hook].
func (d *dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil || conn == nil || conn.RemoteAddr() == nil {
			return conn, err
		}
		remote := conn.RemoteAddr().String()
		if own, ok := ctx.Value(ownDial{}).(*string); ok {
			*own = remote
			return conn, nil
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.addr, d.at = remote, time.Now()
		return conn, nil
	}
}

// ProcessHook changes nothing.
func (*dials) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (*dials) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// elsewhere reports whether a connection was opened, later than one of ours to addr was begun, to
// another server: it is the newer one that Sentinel named last.
func (d *dials) elsewhere(addr string, begun time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return addr != "" && d.addr != "" && d.addr != addr && d.at.After(begun)
}

// follower looks, for a link, where commands go. It is the keeper's.
type follower struct {
	looked time.Time     // when it looked last
	moved  time.Time     // when a connection was replaced last
	gap    time.Duration // at least so long before the next one is
}

// may reports whether a connection may be replaced now, and notes that it is. If that goes on, it
// may be ever more rarely.
func (f *follower) may(now time.Time) bool {
	since := now.Sub(f.moved)
	switch {
	case f.moved.IsZero() || since >= 10*f.gap:
		f.gap = followGap
	case since < f.gap:
		return false
	default:
		f.gap = min(2*f.gap, maxFollowGap)
	}
	f.moved = now
	return true
}

// follow looks after where commands go, if it is time to. It returns whether the connection is to
// be replaced, and when to call again.
func (l *link) follow(c *conn) (replace bool, wait time.Duration) {
	h, now := l.hub, time.Now()
	if !h.moves && !l.route.sharded {
		return false, h.opts.Ping
	}
	if h.dials.elsewhere(c.addr, c.born) && l.follower.may(now) {
		return true, 0
	}
	if l.follower.looked.Before(c.born) {
		l.follower.looked = c.born // where it went: most waits are over before the first look
	}
	if wait = l.follower.looked.Add(lookGap).Sub(now); wait > 0 {
		return false, wait
	}
	l.follower.looked = now
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers > 0 && !l.looking {
		for channel := range l.topics { // any: a server that is replaced is so for all of them
			l.looking = true
			h.goLocked(func() { l.look(channel) })
			break
		}
	}
	return false, lookGap
}

// look finds out where commands go. It may wait for the network, so it is not the keeper's
// business.
func (l *link) look(channel string) {
	moved := false
	if l.route.sharded { // when a single slot moves, the server says so
		moved = errors.Is(l.hub.checkMaster(l.route.node), errReplica)
	} else if r, err := l.hub.whereNow(channel); err == nil {
		moved = r.node != l.route.node
	}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.looking = false
	l.doubted = l.doubted || moved
	kick(l.work)
}

// whereNow is the route of a channel by now. A client of one server is given a reason to open a
// connection, if it has none to the server that it knows of by now; where that went, the hook sees.
func (h *Hub) whereNow(channel string) (r route, err error) {
	defer panics.Into(&err)
	if h.routed {
		return h.find(h.ctx, channel)
	}
	ctx, cancel := context.WithTimeout(h.ctx, h.opts.Ping)
	defer cancel()
	_ = h.rdb.Process(ctx, lookPing{redis.NewStatusCmd(ctx, "ping"), h.opts.Ping}) // the answer says nothing
	return h.home, nil
}

// lookPing is PING, sent once: the next look sends another.
type lookPing struct {
	*redis.StatusCmd
	within time.Duration
}

// NoRetry is asked by go-redis.
func (lookPing) NoRetry() bool { return true }

// SetTimeout and TakeTimeout bound the wait for its answer where the client waits for ever, see package combine.
func (lookPing) SetTimeout(time.Duration) {}

// TakeTimeout is how long its answer is waited for.
func (p lookPing) TakeTimeout() time.Duration { return p.within }

// errReplica is why a channel is not subscribed at a node to which it was routed.
var errReplica = errors.New("pubsub: the node is a replica by now")

// checkMaster asks a node of a cluster for its role. It returns errReplica, nil if the node is a master or does
// not say, and an error of the network.
func (h *Hub) checkMaster(n node) (err error) {
	defer panics.Into(&err)
	client, ok := n.(*redis.Client)
	if !ok {
		return nil
	}
	cmd := redis.NewCmd(h.ctx, "hello")
	err = client.WithTimeout(h.opts.Ping).Process(h.ctx, lookHello{cmd})
	switch {
	case err != nil && !isReply(err):
		return err
	case master.IsReplica(cmd.Val()):
		return errReplica
	}
	return nil
}

// lookHello is HELLO, sent once.
type lookHello struct{ *redis.Cmd }

// NoRetry is asked by go-redis.
func (lookHello) NoRetry() bool { return true }
