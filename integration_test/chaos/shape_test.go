//go:build linux

package chaos

import (
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/integration_test/workload"
)

// shape is what the go-redis clients of a process are like: what users set that should make no
// difference.
type shape struct {
	RESP     int  // 2 or 3; 0: go-redis's own choice
	Few      bool // one connection
	Contexts bool // ContextTimeoutEnabled
	// RouteRandomly, of Sentinels and clusters; not RouteByLatency, with which go-redis has a data
	// race of its own
	Randomly bool
	Slow     float64 // how often a hook takes long
	Panics   float64 // and panics
}

// hookPause is the longest that a slow hook takes: renewals have time enough all the same.
const hookPause = 200 * time.Millisecond

// drawShape draws a shape. Half of the clients are as go-redis makes them, but for their hooks.
func drawShape(rng *rand.Rand) (s shape) {
	switch rng.IntN(3) {
	case 0:
		s.Slow = 0.02
	case 1:
		s.Panics = 0.01
	}
	if rng.IntN(2) == 0 {
		return s
	}
	s.RESP, s.Few, s.Contexts = 2+rng.IntN(2), rng.IntN(2) == 0, rng.IntN(2) == 0
	s.Randomly = rng.IntN(2) == 0
	return s
}

// names are what of it differs from what is usual, for figures.
func (s *shape) names(m mode) (list []string) {
	for name, is := range map[string]bool{
		"RESP2": s.RESP == 2, "one connection": s.Few, "contexts": s.Contexts, "slow hook": s.Slow > 0,
		"panicking hook":  s.Panics > 0,
		"routed randomly": s.Randomly && (m == sentinel || m == cluster),
	} {
		if is {
			list = append(list, "client: "+name)
		}
	}
	return list
}

// connectTo makes a go-redis client of this shape, of a single server where there are several. Its
// retries stay on, as users have them.
func (j *job) connectTo(addr string) redis.UniversalClient {
	s := &j.Shape
	o := &redis.UniversalOptions{
		Addrs: j.Addrs, Dialer: j.dial, DialerRetries: 1, ReadTimeout: patience,
		WriteTimeout: patience, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Protocol:                 s.RESP, ContextTimeoutEnabled: s.Contexts,
		RouteRandomly: s.Randomly,
	}
	if s.Few {
		o.PoolSize = 1
	}
	switch j.Mode {
	case cluster:
		return redis.NewClusterClient(o.Cluster())
	case sentinel:
		o.MasterName = masterName
		if s.Randomly {
			return redis.NewFailoverClusterClient(o.Failover())
		}
		return redis.NewFailoverClient(o.Failover())
	default:
		o.Addrs = []string{addr}
		return redis.NewClient(o.Simple())
	}
}

// nerves are the hook of the process's clients.
func (j *job) nerves(rng *rand.Rand) *workload.Nerves {
	n := workload.NewNerves(rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())))
	n.Slow, n.Panics, n.Longest = j.Shape.Slow, j.Shape.Panics, hookPause
	return n
}
