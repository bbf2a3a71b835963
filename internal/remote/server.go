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

// Server is a Redis server or cluster as a client reaches it.
type Server struct {
	redis    redis.UniversalClient
	Cluster  *redis.ClusterClient // redis if it is a cluster, else nil
	Single   lua.Processor        // sends single operations: redis, or a combiner on it
	Publish  string               // command that announces a release
	Clock    Clock
	latency  latency           // of a single server
	nodes    latencies         // of the masters of a cluster
	combiner *combine.Combiner // Single, if it is a combiner
	hasty    lua.Processor     // the combiner, for callers that leave at the deadline of a context
	timeouts *timeouts         // nil: a cluster has none
	lateness lateness          // of the callers of this client
}

// NewServer makes a Server of a go-redis client. It sends nothing. With classic it uses no sharded
// pub/sub in a cluster, like pubsub's Classic. budget is how long an operation may take.
func NewServer(rdb redis.UniversalClient, classic bool, budget time.Duration) *Server {
	s := &Server{redis: rdb, Single: rdb, Publish: "PUBLISH", Clock: newClock(rdb)}
	s.watchDials()
	switch r := rdb.(type) {
	case *redis.ClusterClient:
		s.Cluster = r
		switch {
		case r.Options().ClusterSlots != nil: // as in pubsub
		case classic:
			s.Publish = lua.PublishClassic
		default:
			s.Publish = "SPUBLISH"
		}
	case *redis.Client:
		s.timeouts = newTimeouts(r, budget)
		s.combiner = combine.New(r, s.timeouts.left, r.Options().PoolSize, new(lua.Packer).Send)
		s.Single, s.hasty = s.combiner, combine.Hasty{Combiner: s.combiner}
	}
	return s
}

// Within returns the context of a pipeline that takes no longer than d. Without it, a pipeline takes as long as
// go-redis waits for an answer, which can be for ever. A cluster's nodes are waited for as long as go-redis does.
func (s *Server) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(d)
	ctx, cancel := context.WithDeadlineCause(ctx, end, ErrBudget)
	if s.timeouts != nil {
		if timeout := s.timeouts.left(end); timeout > 0 {
			ctx = combine.WithTimeout(ctx, timeout)
		}
	}
	return ctx, cancel
}

// isPrompt reports whether a command that is sent now will probably be answered at once. It does not matter whether
// the command has to wait for a connection, or for its turn in the combiner: a caller can leave both.
func (s *Server) isPrompt() bool { return s.combiner != nil && s.latency.isPrompt() }

// hasConnection reports whether a command probably need not wait for a connection. Of a cluster one master stands for all:
// its own PoolStats would ask a server, for as long as that takes, where it does not know any.
func (s *Server) hasConnection() bool {
	rdb := s.redis
	if s.Cluster != nil {
		master := s.MasterOf("")
		if master == nil {
			return false
		}
		rdb = master
	}
	return rdb.PoolStats().IdleConns > 0
}

// Gathers reports whether commands that are sent at the same time travel together.
func (s *Server) Gathers() bool { return s.combiner != nil }

func (s *Server) latencyOf(master *redis.Client) *latency {
	if s.Cluster == nil {
		return &s.latency
	}
	return s.nodes.get(master)
}

// Asking notes that a master is being asked; nil stands for a single server. The caller calls the
// returned function with the result: nil for an answer.
func (s *Server) Asking(master *redis.Client) (ended func(error)) {
	l := s.latencyOf(master)
	c := l.begin()
	return func(err error) { l.end(c, err) }
}

// send sends a call once. In haste it returns soon after the deadline of the context. Where
// go-redis heeds contexts (ContextTimeoutEnabled), it does so in any case. Such a return is not an
// answer, and the error is then why the context has ended.
func (s *Session) send(ctx context.Context, at *Server, call lua.Call, haste bool) (lua.Reply, error) {
	l, via := &at.latency, at.Single
	switch {
	case at.Cluster != nil:
		l = at.nodes.get(at.MasterOf(call.Key()))
		if haste && at.outlasts(ctx) {
			return s.sendInBackground(ctx, at, call, l)
		}
	case haste && at.hasty != nil:
		via = at.hasty
	}
	return at.sendVia(ctx, via, call, l)
}

// sendVia is send by a given way.
func (s *Server) sendVia(ctx context.Context, via lua.Processor, call lua.Call, l *latency) (lua.Reply, error) {
	c := l.begin()
	reply, err := lua.Run(ctx, via, call)
	if err != nil && s.isLate(ctx, err) {
		l.timeOut(c)
		return reply, errs.Both(ctx.Err(), err)
	}
	l.end(c, err)
	return reply, err
}

// isLate reports whether a caller did not wait for an answer because the caller's time is over.
func (s *Server) isLate(ctx context.Context, err error) bool {
	if !combine.IsUnanswered(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	awaitDeadline(ctx)
	return ctx.Err() != nil
}

// outlasts reports whether go-redis may wait longer for an answer of a cluster than a context
// lasts.
func (s *Server) outlasts(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	read := s.Cluster.Options().ReadTimeout
	left, _ := class(max(time.Until(end), least))
	return ok && (read <= 0 || left < read)
}

// sendInBackground is send in a goroutine. A cluster needs that, because its clients have no
// timeouts for single commands.
func (s *Session) sendInBackground(ctx context.Context, at *Server, call lua.Call, l *latency) (lua.Reply, error) {
	type answer struct {
		lua.Reply
		error
	}
	answered := make(chan answer, 1)
	s.Tasks.Go(func() {
		reply, err := at.sendVia(ctx, at.Single, call, l)
		answered <- answer{reply, err}
	})
	select {
	case a := <-answered:
		return a.Reply, a.error
	case <-ctx.Done():
		return lua.Reply{}, ctx.Err()
	}
}

// Commands for many names go to each master of a cluster in a pipeline of its own. One pipeline for
// several masters ends with the slowest of them. A master that hangs would hold up answers that the
// other masters gave long ago.

// NoAnswer says that the server that has a name has not answered, and why no connection to it was opened, if that is why. If
// it serves nobody, or not this client, NoAnswer returns what it said.
func (s *Server) NoAnswer(name string) error {
	if why := s.Unreached(name); why != nil {
		return errs.Both(ErrSilent, why)
	}
	if why := s.latencyOf(s.MasterOf(name)).whyRefused(); why != nil {
		return Explain(why, name, ALock)
	}
	return errs.Reworded(ErrSilent.Error()+s.from(name), ErrSilent)
}

// NoAnswerTo says why a caller who leaves now has no answer: no connection was opened, or the server was silent, see
// [Server.Patience]. It is nil if neither is known.
func (s *Server) NoAnswerTo(wait context.Context, begun time.Time, name string) error {
	if why := s.Unreached(name); why != nil {
		return why
	}
	if s.Silent(name, s.Patience(wait, begun)) {
		return s.NoAnswer(name)
	}
	return nil
}

// from names the server for errors. It is empty if its address is not known, as with Sentinel.
func (s *Server) from(name string) string {
	master, _ := s.redis.(*redis.Client)
	if master == nil {
		master = s.MasterOf(name)
	}
	if master == nil || master.Options().Addr == "FailoverClient" {
		return ""
	}
	return " from " + master.Options().Addr
}

// MasterOf returns the master of a name, as far as go-redis knows. It returns nil if there is only
// one master, or if go-redis does not know. It asks no server, so it may be called with a mutex
// held. After a failover, or when a slot has moved, it may be wrong for a moment. A pipeline of the
// ClusterClient reaches the right master all the same, but then waits for two masters.
func (s *Server) MasterOf(name string) *redis.Client {
	if s.Cluster == nil {
		return nil
	}
	master, err := s.Cluster.MasterForKey(ended, name)
	if err != nil {
		return nil
	}
	return master
}

// ended is a context that has ended. Under it go-redis answers from memory or not at all.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// ByMaster groups items by the master of their names. It keeps the order within a group.
func ByMaster[T any](s *Server, all []T, name func(T) string) map[*redis.Client][]T {
	found := make(map[*redis.Client][]T)
	for _, one := range all {
		master := s.MasterOf(name(one))
		found[master] = append(found[master], one)
	}
	return found
}
