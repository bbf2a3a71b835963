package faultproxy

import (
	"slices"
	"strings"
)

// outage is what does not pass while it lasts, on any connection.
type outage struct{ all, requests, replies bool }

// Silence makes the proxy a black hole while it is on: connections are accepted and stay open, and
// nothing passes either way. Silence(false) ends it for new connections and for those that lost no
// request and no reply meanwhile; the others stay mute until they are closed, as a later reply
// would be taken for an earlier one's. Lost pub/sub messages are just lost.
func (p *Proxy) Silence(on bool) { p.change(func(o *outage) { o.all = on }) }

// LoseRequests makes requests vanish while it is on; replies still due and pub/sub messages pass.
// Like [Proxy.Silence] it ends for new connections and for those that lost no request. The others
// lose all further requests until they are closed.
func (p *Proxy) LoseRequests(on bool) { p.change(func(o *outage) { o.requests = on }) }

// LoseReplies makes replies and pub/sub messages vanish while it is on; the server gets and runs
// the requests. It ends for new connections and for those that lost no reply. The others lose all
// further replies until they are closed.
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
