package remote

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/lua"
)

// Server is a Redis, or a cluster of them, as a client reaches it.
type Server struct {
	redis   redis.UniversalClient
	Cluster *redis.ClusterClient // redis if it is one, else nil
	Single  lua.Processor        // sends single operations: redis, or a combiner on it
	Publish string               // command that announces a release
	Clock   Clock
	pulse   pulse             // of a server that is alone
	nodes   pulses            // of the masters of a cluster
	alone   *combine.Combiner // Single, if it is one

	lateness lag // of the callers of this client
}

// isReady reports whether a command that is sent now can be expected to be answered at once.
func (s *Server) isReady() bool {
	return s.alone != nil && s.pulse.prompt() && s.alone.IsReady() && s.redis.PoolStats().IdleConns > 0
}

// Gathers reports whether commands that are sent at the same time travel together.
func (s *Server) Gathers() bool { return s.alone != nil }

// Silent reports whether the server that has a name is silent: it has never answered, the last command has
// failed, or it has answered nothing for so long, and was asked for half of that.
func (s *Server) Silent(name string, patience time.Duration) bool {
	return s.pulseOf(s.MasterOf(name)).isSilent(patience)
}

func (s *Server) pulseOf(master *redis.Client) *pulse {
	if s.Cluster == nil {
		return &s.pulse
	}
	return s.nodes.get(master)
}

// Asking notes that a master is being asked; nil is a server that is alone. The function that it returns
// is called with what came of that: nil for an answer.
func (s *Server) Asking(master *redis.Client) (ended func(error)) {
	p := s.pulseOf(master)
	b := p.begin()
	return func(err error) { p.end(b, err) }
}

// send sends a call once.
func (s *Server) send(ctx context.Context, call lua.Call) (lua.Reply, error) {
	p := &s.pulse
	if s.Cluster != nil {
		p = s.nodes.get(s.MasterOf(call.Key()))
	}
	b := p.begin()
	reply, err := lua.Run(ctx, s.Single, call)
	p.end(b, err)
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
