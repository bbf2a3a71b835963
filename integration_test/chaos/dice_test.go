//go:build linux

package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

// bag deals kinds of faults: each once, in random order, before any comes again.
type bag struct {
	rng   *rand.Rand
	kinds []string
	left  []string
}

func newBag(rng *rand.Rand, kinds []string) *bag { return &bag{rng: rng, kinds: kinds} }

func (b *bag) next() (kind string) {
	if len(b.left) == 0 {
		for _, i := range b.rng.Perm(len(b.kinds)) {
			b.left = append(b.left, b.kinds[i])
		}
	}
	kind, b.left = b.left[0], b.left[1:]
	return kind
}

// between is a duration in a range.
func between(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)+1))
}

// random is a duration with this mean.
func random(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(min(rng.ExpFloat64(), 4) * float64(mean))
}

// sleep waits, and is false if ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
