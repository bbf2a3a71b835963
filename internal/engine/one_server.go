package engine

import (
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// oneServer is the backend of a lock that the client's own server grants.
type oneServer struct {
	base     *Base
	client   *Client
	protocol kind.Protocol
	queuer   kind.Queuer // the protocol, if its waiters have places at the server
	hander   kind.Hander // the protocol, if its holders hand the lock to others of this client
}

var _ Backend = (*oneServer)(nil)

func newOneServer(b *Base, p kind.Protocol) Backend {
	s := &oneServer{base: b, client: b.Client, protocol: p}
	s.queuer, _ = p.(kind.Queuer)
	s.hander, _ = p.(kind.Hander)
	if s.queuer != nil {
		return queueServer{s}
	}
	return s
}

// Traits is [Backend.Traits].
func (s *oneServer) Traits() Traits { return Traits{HandsOff: s.hander != nil} }

// Check is [Backend.Check].
func (s *oneServer) Check(cfg *Settings) error { return checkReplicas(cfg.Replicas, cfg.Lease) }

// Listen is [Backend.Listen].
func (s *oneServer) Listen() Listening { return s.client.hub.Subscribe(s.protocol.Channel()) }

// Explain is [Backend.Explain].
func (s *oneServer) Explain(err error) error {
	return remote.Explain(err, s.protocol.Name(), s.queuer != nil)
}

// Renewer is [Backend.Renewer].
func (s *oneServer) Renewer() Renewer { return s.client }

// NewBid is [Backend.NewBid].
func (s *oneServer) NewBid(owner string) Bid { return &field{server: s, id: owner} }

// queueServer is oneServer for a kind whose waiters have places in a queue there.
type queueServer struct{ *oneServer }

var _ waiter = queueServer{}

// enter is [waiter.enter].
func (s queueServer) enter(g *grant) bool {
	return !g.asked.once && !s.client.lines.isFirst(g.base) && g.prepare() == nil
}

// wait is [waiter.wait].
func (queueServer) wait(g *grant) (*Hold, error) { return g.standInLine() }

// replicated is the server where replicas have to confirm what is written.
func (s *oneServer) replicated(want remote.Replicas) *remote.Replicated {
	c := s.client
	return remote.NewReplicated(c.session, c.server, s.protocol.Name(), want)
}
