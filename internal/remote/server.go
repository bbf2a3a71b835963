package remote

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/lua"
)

// Server is a Redis, or a cluster of them, as a client reaches it.
type Server struct {
	redis   redis.UniversalClient
	Cluster *redis.ClusterClient // redis if it is one, else nil
	Single  lua.Processor        // sends single operations: redis, or a combiner on it
	Publish string               // command that announces a release
	Clock   Clock
	pulse   pulse
	alone   *combine.Combiner // Single, if it is one
}

// isReady reports whether a command that is sent now can be expected to be answered at once.
func (s *Server) isReady() bool {
	return s.alone != nil && s.pulse.prompt() && s.alone.IsReady() && s.redis.PoolStats().IdleConns > 0
}

// Gathers reports whether commands that are sent at the same time travel together.
func (s *Server) Gathers() bool { return s.alone != nil }

// send sends a call once.
func (s *Server) send(ctx context.Context, call lua.Call) (lua.Reply, error) {
	b := s.pulse.begin()
	reply, err := lua.Run(ctx, s.Single, call)
	s.pulse.end(b, err == nil || errs.IsReply(err))
	return reply, err
}

// NewServer is for a client of go-redis. Nothing is sent. With classic it uses no sharded pub/sub in a
// cluster, as pubsub's Classic has it.
func NewServer(rdb redis.UniversalClient, classic bool) *Server {
	s := &Server{redis: rdb, Single: rdb, Publish: "PUBLISH", Clock: newClock(rdb)}
	switch r := rdb.(type) {
	case *redis.ClusterClient:
		s.Cluster = r
		switch {
		case r.Options().ClusterSlots != nil: // as pubsub has it
		case classic:
			s.Publish = lua.PublishClassic
		default:
			s.Publish = "SPUBLISH"
		}
	case *redis.Client:
		s.alone = combine.New(r, r.Options().PoolSize, new(lua.Packer).Send)
		s.Single = s.alone
	}
	return s
}
