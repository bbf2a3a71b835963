package engine

import "github.com/holdfast-go/holdfast/internal/kind"

// oneServer is the backend of a lock that the client's own server grants.
type oneServer struct {
	base     *Base
	client   *Client
	protocol kind.Protocol
	queuer   kind.Queuer // the protocol, if its waiters have places at the server
	hander   kind.Hander // the protocol, if its holders hand the lock to others of this client
}

var _ backend = (*oneServer)(nil)

func newOneServer(b *Base, p kind.Protocol) backend {
	s := &oneServer{base: b, client: b.client, protocol: p}
	s.queuer, _ = p.(kind.Queuer)
	s.hander, _ = p.(kind.Hander)
	if s.queuer != nil {
		return queueServer{s}
	}
	return s
}

// traits is [backend.traits].
func (s *oneServer) traits() traits { return traits{handsOff: s.hander != nil} }

// check is [backend.check].
func (s *oneServer) check(cfg *config) error { return cfg.replicas.check(cfg.lease) }

// listen is [backend.listen].
func (s *oneServer) listen() listening { return s.client.hub.Subscribe(s.protocol.Channel()) }

// explain is [backend.explain].
func (s *oneServer) explain(err error) error { return explain(err, s.protocol.Name(), s.queuer != nil) }

// renewer is [backend.renewer].
func (s *oneServer) renewer() renewer { return s.client }

// newBid is [backend.newBid].
func (s *oneServer) newBid(owner string) bid { return &field{server: s, id: owner} }

// queueServer is oneServer for a kind whose waiters have places in a queue there.
type queueServer struct{ *oneServer }

var _ waiter = queueServer{}

// wait is [waiter.wait].
func (queueServer) wait(g *grant) (*Hold, error) { return g.standInLine() }
