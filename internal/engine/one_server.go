package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/pubsub"
)

// oneServer is the backend of a lock that the client's own server grants.
type oneServer struct {
	base     *Lock
	client   *Client
	protocol kind.Protocol
	hander   kind.Hander // the protocol, if its holders hand the lock to others of this client
	places   kind.Places // of waiters, at the server
}

var _ Backend = (*oneServer)(nil)

func newOneServer(b *Lock, p kind.Protocol) Backend {
	s := &oneServer{base: b, client: b.Client, protocol: p, places: kind.NoPlaces}
	s.hander, _ = p.(kind.Hander)
	if q, ok := p.(kind.Placer); ok {
		s.places = q.Places()
	}
	return s
}

// Traits is [Backend.Traits].
func (s *oneServer) Traits() Traits {
	_, recalls := s.protocol.(kind.Recaller)
	_, sided := s.protocol.(kind.Sided)
	_, strings := s.protocol.(kind.Neighbour)
	return Traits{HandsOff: s.hander != nil, Recalls: recalls, Sided: sided, Strings: strings}
}

// Calls is [Recaller.Calls].
func (s *oneServer) Calls(l pubsub.Listener) interface{ Close() } {
	return s.client.hub.Listen(s.protocol.(kind.Recaller).Mailbox(s.client.id), l)
}

// Check is [Backend.Check].
func (s *oneServer) Check(cfg *Settings) error { return checkReplicas(cfg.Replicas, cfg.Lease) }

// Listen is [Backend.Listen].
func (s *oneServer) Listen() Listening { return s.client.hub.Subscribe(s.protocol.Channel()) }

// Silent is [Backend.Silent].
func (s *oneServer) Silent(patience time.Duration) bool {
	return s.client.server.Silent(s.protocol.Name(), patience)
}

// Unreached is [Backend.Unreached].
func (s *oneServer) Unreached() error { return s.client.server.Unreached(s.protocol.Name()) }

// Explain is [Backend.Explain].
func (s *oneServer) Explain(err error) error { return remote.Explain(err, s.protocol.Name(), false) }

// Renewer is [Backend.Renewer].
func (s *oneServer) Renewer() Renewer { return s.client }

// detached sends an operation that its caller cannot cancel.
func (s *oneServer) detached(ctx context.Context, op remote.Operation) remote.Outcome {
	return s.client.session.Detached(ctx, s.client.server, op)
}

// replicated is the server where replicas have to confirm what is written.
func (s *oneServer) replicated(want remote.Replicas) *remote.Replicated {
	c := s.client
	return remote.NewReplicated(c.session, c.server, s.protocol.Name(), want)
}

// NewLock is for the kinds of this module. Errors in its arguments are returned by the first
// operation.
func NewLock(c *Client, p kind.Protocol, opts ...Option) *Lock {
	b := NewBare(c, p, opts)
	b.protocol = p
	if b.Err == nil {
		b.Use(newOneServer(b, p))
	}
	return b
}
