package remote

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Commands for many names go to each master of a cluster in a pipeline of its own. One pipeline for
// several masters ends with the slowest of them, so a master that hangs would hold up what the
// others have answered long ago.

// MasterOf returns the master of a name, as far as go-redis knows; nil if there is only one master,
// or if go-redis does not know. It asks no server, so it may be called with a mutex held. After a
// failover, or when a slot has moved, it may be wrong for a moment. A pipeline of the ClusterClient
// finds its way all the same, but then waits for two masters.
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
