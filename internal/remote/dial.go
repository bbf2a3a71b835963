package remote

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// dials is a hook that notes why connections to a server, or to one node of a cluster, are not opened.
// go-redis dials several times, with pauses, before a command fails for that: many callers have left by
// then, and it may have been the only one that asked for all of them. So a refusal counts as a failed command does,
// until there is an answer: another connection may have one.
type dials struct{ pulses []*pulse }

// DialHook notes how it ended. That go-redis has ended it itself, because nobody waits any more, says nothing.
func (d dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		begun := time.Now()
		conn, err := next(ctx, network, addr)
		over := ctx.Err()
		if err == nil || !errors.Is(over, context.Canceled) {
			for _, p := range d.pulses {
				p.dialled(begun, err, over)
			}
		}
		return conn, err
	}
}

// ProcessHook changes nothing.
func (dials) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dials) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// watchDials adds the hook. Each node of a cluster also counts for names whose master go-redis does not
// know, as when it has reached none.
func (s *Server) watchDials() {
	switch r := s.redis.(type) {
	case *redis.Client:
		r.AddHook(dials{[]*pulse{&s.pulse}})
	case *redis.ClusterClient:
		r.OnNewNode(func(node *redis.Client) {
			node.AddHook(dials{[]*pulse{s.nodes.get(node), s.nodes.get(nil)}})
		})
	}
}

// Unreached is why the last connection to the server that has a name was not opened; nil if one was since
// then, or if there was an answer.
func (s *Server) Unreached(name string) error { return s.pulseOf(s.MasterOf(name)).whyUnreached() }
