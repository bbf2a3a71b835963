package pubsub

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// changed tells that the link's connection was lost, or is up or not needed any more, if that is news.
func (l *link) changed(up bool, err error) {
	h := l.hub
	if h.opts.Changed == nil {
		return
	}
	server := l.route.address()
	h.mu.Lock()
	news := h.broken[server] == up
	if up {
		delete(h.broken, server)
	} else {
		h.broken[server] = true
	}
	h.mu.Unlock()
	if news {
		h.opts.Changed(Connection{Server: server, Up: up, Err: err})
	}
}

// address is that of the route's server; of several servers it is all that are known.
func (r route) address() string {
	n := r.node
	if whole, ok := n.(*wholeClient); ok {
		n = whole.UniversalClient
	}
	switch n := n.(type) {
	case *redis.Client:
		return n.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(n.Options().Addrs, ",")
	}
	return ""
}
