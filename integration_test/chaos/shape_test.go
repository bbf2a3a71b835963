//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
)

// shape is what the go-redis clients of a process are like: what users set that should make no difference.
type shape struct {
	RESP     int  // 2 or 3; 0: go-redis's own choice
	Few      bool // one connection
	Contexts bool // ContextTimeoutEnabled
	// RouteRandomly, of Sentinels and clusters; not RouteByLatency, with which go-redis has a data race of its own
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

// connectTo makes a go-redis client of this shape for one of several single servers. It retries, as users' clients do.
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

// figures are what happened in a run, or in several.
type figures struct {
	seconds    float64
	done       map[string]int // handed and kept are of the grants; panics are of hooks, as they came to callers
	others     history.Events // of kinds of their own
	kinds      map[string]int // faults
	violations map[string]int // by check
}

func (f *figures) count(ops []history.Op) {
	f.done["operations"], f.done["kept"] = len(ops), history.Kept(ops)
	f.others = make(history.Events)
	for _, o := range ops {
		f.others.Add(o)
		for what, is := range map[string]bool{
			"handed":     o.Handed,
			"panics":     o.Panic,
			"crashes":    o.Kind == history.Crash,
			"losses":     o.Kind == history.End && o.Result == history.Lost,
			"unknown":    o.Result == history.Unknown,
			"grants":     o.Result == history.OK && (o.Kind == history.Lock || o.Kind == history.Try),
			"re-entries": o.Result == history.OK && o.Kind == history.Reenter,
		} {
			if is {
				f.done[what]++
			}
		}
	}
}

func (f *figures) found(list []history.Violation) {
	f.violations = make(map[string]int)
	for _, v := range list {
		f.violations[v.Check]++
	}
}

// add joins the figures of another run.
func (f *figures) add(other figures) {
	f.seconds += other.seconds
	f.done, f.others = sum(f.done, other.done), sum(f.others, other.others)
	f.kinds, f.violations = sum(f.kinds, other.kinds), sum(f.violations, other.violations)
}

func sum[K comparable, M ~map[K]int](a, b M) M {
	all := make(M)
	for _, m := range []M{a, b} {
		for k, n := range m {
			all[k] += n
		}
	}
	return all
}

func (f *figures) String() string {
	did := list(f.done)
	if len(f.others) > 0 {
		did = fmt.Sprintf("%s, %d crashes, %d panics", f.others, f.done["crashes"], f.done["panics"])
	}
	return fmt.Sprintf("%.0f s, %d processes: %s; faults: %s; violations: %s", f.seconds, f.done["processes"], did, list(f.kinds), list(f.violations))
}

func list(counts map[string]int) string {
	if len(counts) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(parts, ", ")
}

// bag deals kinds of faults in random order, each once before any comes again. What one run leaves comes first in the next.
type bag struct {
	rng  *rand.Rand
	left []string
}

// next deals one of kinds.
func (b *bag) next(kinds []string) string {
	for {
		for i, kind := range b.left {
			if slices.Contains(kinds, kind) {
				b.left = slices.Delete(b.left, i, i+1)
				return kind
			}
		}
		for _, i := range b.rng.Perm(len(kinds)) {
			b.left = append(b.left, kinds[i])
		}
	}
}

// between is a duration in a range.
func between(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)+1))
}

// random is a duration with this mean.
func random(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(min(rng.ExpFloat64(), 4) * float64(mean))
}
