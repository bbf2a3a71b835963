package remote

import (
	"context"
	"errors"
	"os"
	"time"

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
	pulse   pulse             // of a server that is alone
	nodes   pulses            // of the masters of a cluster
	alone   *combine.Combiner // Single, if it is one
	hasty   lua.Processor     // the same, for callers that leave at the deadline of a context

	lateness lag // of the callers of this client
}

// isReady reports whether a command that is sent now can be expected to be answered at once.
func (s *Server) isReady() bool {
	return s.alone != nil && s.pulse.prompt() && s.alone.IsReady() && s.hasConnection()
}

// hasConnection reports whether a command need not wait for a connection, in all likelihood.
func (s *Server) hasConnection() bool { return s.redis.PoolStats().IdleConns > 0 }

// Gathers reports whether commands that are sent at the same time travel together.
func (s *Server) Gathers() bool { return s.alone != nil }

// Silent reports whether the server that has a name is silent: it has never answered, a command has failed or a
// connection was refused since the last answer, or it has answered nothing for so long, and was asked for half of that.
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

// send sends a call once. In haste it returns soon after the deadline of the context; where go-redis heeds contexts
// (ContextTimeoutEnabled), in any case. That is no answer, and the error is then why the context has ended.
func (s *Session) send(ctx context.Context, at *Server, call lua.Call, haste bool) (lua.Reply, error) {
	p, via := &at.pulse, at.Single
	switch {
	case at.Cluster != nil:
		p = at.nodes.get(at.MasterOf(call.Key()))
		if haste && at.outlasts(ctx) {
			return s.sendAside(ctx, at, call, p)
		}
	case haste && at.hasty != nil:
		via = at.hasty
	}
	return at.run(ctx, via, call, p)
}

// run is send, when it is clear by which way.
func (s *Server) run(ctx context.Context, via lua.Processor, call lua.Call, p *pulse) (lua.Reply, error) {
	b := p.begin()
	reply, err := lua.Run(ctx, via, call)
	if err != nil && s.isLate(ctx, err) {
		p.leave(b)
		return reply, errs.Both(ctx.Err(), err)
	}
	p.end(b, err)
	return reply, err
}

// isLate reports whether a caller did not wait for an answer because its time is over.
func (s *Server) isLate(ctx context.Context, err error) bool {
	if !combine.IsUnanswered(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	awaitDeadline(ctx)
	return ctx.Err() != nil
}

// outlasts reports whether go-redis may wait longer for an answer of a cluster than a context lasts.
func (s *Server) outlasts(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	read := s.Cluster.Options().ReadTimeout
	left, _ := class(max(time.Until(end), least))
	return ok && (read <= 0 || left < read)
}

// sendAside is send in a goroutine, for a cluster: its clients have no timeouts for single commands.
func (s *Session) sendAside(ctx context.Context, at *Server, call lua.Call, p *pulse) (lua.Reply, error) {
	type answer struct {
		lua.Reply
		error
	}
	answered := make(chan answer, 1)
	s.Tasks.Go(func() {
		reply, err := at.run(ctx, at.Single, call, p)
		answered <- answer{reply, err}
	})
	select {
	case a := <-answered:
		return a.Reply, a.error
	case <-ctx.Done():
		return lua.Reply{}, ctx.Err()
	}
}

// NewServer is for a client of go-redis. Nothing is sent. With classic it uses no sharded pub/sub in a
// cluster, as pubsub's Classic has it.
func NewServer(rdb redis.UniversalClient, classic bool) *Server {
	s := &Server{redis: rdb, Single: rdb, Publish: "PUBLISH", Clock: newClock(rdb)}
	s.watchDials()
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
		s.alone = combine.New(r, newTimeouts(r).left, r.Options().PoolSize, new(lua.Packer).Send)
		s.Single, s.hasty = s.alone, combine.Hasty{Combiner: s.alone}
	}
	return s
}
