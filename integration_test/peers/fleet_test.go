package peers_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// newClient makes a client of the library, closed at the end of the test.
func newClient(t *testing.T, rdb redis.UniversalClient) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

// side is one version of a program: it does the work under its lock, or returns an error.
type side struct {
	name string
	run  func(ctx context.Context, work job) error
}

const (
	// shares is how often each side has to have done its work before a storm ends.
	shares = 3
	// runners is how many of each side run at the same time.
	runners = 2
)

// storm is two versions of a program at the same time, and what was seen under their locks.
type storm struct {
	*testing.T
	rdb    *redis.Client
	inside atomic.Int32 // now
	most   atomic.Int32 // that were at any time
	done   [2]atomic.Int32
	refuse func(error) bool // which errors are counted, and the program tries again; others fail the test
	errors atomic.Int32
	enough func(s *storm) bool
}

// work is a few commands long, and notes how many do it at the same time.
func (s *storm) work(context.Context) error {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	for range 3 {
		// not under the lock's context: what is checked is that nobody else is here
		if err := s.rdb.Incr(s.Context(), "work").Err(); err != nil {
			return err
		}
	}
	return nil
}

// run lets both sides work until the storm has seen enough.
func (s *storm) run(sides ...side) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*patience) // locks of others let one wait while others get them
	defer cancel()
	var all errgroup.Group
	for i, side := range sides {
		for range runners {
			all.Go(func() error {
				for ctx.Err() == nil && !s.enough(s) {
					switch err := side.run(ctx, s.work); {
					case err == nil:
						s.done[i].Add(1)
					case s.refuse != nil && s.refuse(err):
						s.errors.Add(1)
					default:
						return fmt.Errorf("%s: %w", side.name, err)
					}
				}
				return nil
			})
		}
	}
	require.NoError(s, all.Wait())
	require.NoError(s, ctx.Err(), "both go on: %d and %d, %d errors, %d inside", s.done[0].Load(), s.done[1].Load(),
		s.errors.Load(), s.most.Load())
	s.Logf("%s %d, %s %d, %d refused", sides[0].name, s.done[0].Load(), sides[1].name, s.done[1].Load(), s.errors.Load())
}

// exclude runs both sides until each has had its shares, and never were two inside.
func exclude(t *testing.T, rdb *redis.Client, busy func(error) bool, sides ...side) {
	t.Helper()
	s := &storm{T: t, rdb: rdb, refuse: busy, enough: func(s *storm) bool {
		return s.done[0].Load() >= shares && s.done[1].Load() >= shares
	}}
	s.run(sides...)
	require.EqualValues(t, 1, s.most.Load())
}

// mentions is a refusal whose text has a word.
func mentions(words ...string) func(error) bool {
	return func(err error) bool {
		for _, word := range words {
			if strings.Contains(err.Error(), word) {
				return true
			}
		}
		return false
	}
}
