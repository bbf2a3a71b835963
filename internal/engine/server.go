package engine

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/lua"
)

// server is a Redis, or a cluster of them, as a client reaches it.
type server struct {
	redis   redis.UniversalClient
	cluster *redis.ClusterClient // redis if it is one, else nil
	single  lua.Processor        // sends single operations: redis, or a combiner on it
	publish string               // command that announces a release
	clock   clock
}

func newServer(rdb redis.UniversalClient) *server {
	s := &server{redis: rdb, single: rdb, publish: "PUBLISH", clock: newClock(rdb)}
	switch r := rdb.(type) {
	case *redis.ClusterClient:
		s.cluster = r
		if r.Options().ClusterSlots == nil { // as pubsub has it
			s.publish = "SPUBLISH"
		}
	case *redis.Client:
		s.single = combine.New(r, r.Options().PoolSize)
	}
	return s
}
