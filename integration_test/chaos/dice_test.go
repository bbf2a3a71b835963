//go:build linux

package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// bag deals kinds of faults: each once, in random order, before any comes again. What cannot be
// dealt in one run is the first in a later one.
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
