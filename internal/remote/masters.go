package remote

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// What is sent for many names at once goes to each master of a cluster by itself: a pipeline over
// several ends with the slowest of them, so one master that hangs would hold up what the others
// have answered long ago.

// MasterOf is the master that has a name, as far as go-redis knows; nil if there is only one, or if
// it does not know. It asks no server, so it may be called with a mutex held. After a failover or
// when a slot has moved it may be wrong for a moment; a pipeline of the ClusterClient finds its way
// all the same, and is then one that waits for two.
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

// ended is a context that has ended. With it go-redis answers from memory or not at all.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// ByMaster sorts what concerns names by the masters that have those. Within a group the order
// stays.
func ByMaster[T any](s *Server, all []T, name func(T) string) map[*redis.Client][]T {
	found := make(map[*redis.Client][]T)
	for _, one := range all {
		master := s.MasterOf(name(one))
		found[master] = append(found[master], one)
	}
	return found
}
