package integration_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// shared is a fair lock that Go and Java use. Whoever is granted it is written down.
type shared struct {
	t   *testing.T
	ctx context.Context
	rdb *redis.Client

	mu      sync.Mutex
	granted []string // owners
	group   sync.WaitGroup
}

func newShared(t *testing.T) *shared {
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	s := &shared{t: t, ctx: ctx, rdb: redistest.Start(t).Client(t)}
	t.Cleanup(func() { cancel(); s.group.Wait() })
	return s
}

// mutex is the lock through a client of its own, on which the hooks are.
func (s *shared) mutex(hooks ...redis.Hook) *fairlock.Mutex {
	opts := *s.rdb.Options()
	rdb := redis.NewClient(&opts)
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	s.t.Cleanup(func() { _ = rdb.Close() })
	return fairlock.New(newClient(s.t, rdb, nil), javaName)
}

func (s *shared) write(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = append(s.granted, owner)
}

func (s *shared) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.granted)
}

// wait locks and unlocks in the background, and returns when the waiter has a place: its owner.
func (s *shared) wait(m *fairlock.Mutex) string {
	s.t.Helper()
	place := make(chan string, 1)
	owner := s.placed(func() {
		h, err := m.Lock(s.ctx)
		if err == nil {
			s.write(<-place) // and not the hold's owner, which in a run is the first one's
			err = h.Unlock(s.ctx)
		}
		if err != nil && s.t.Context().Err() == nil {
			s.t.Error(err)
		}
	})
	place <- owner
	return owner
}

// waitJava is wait for a thread of Redisson's.
func (s *shared) waitJava(j *java, thread int) string {
	s.t.Helper()
	return s.placed(func() {
		err := j.lock(s.ctx, thread, nil)
		if err == nil {
			s.write(j.owner(thread))
			err = j.unlock(s.ctx, thread)
		}
		if err != nil && s.t.Context().Err() == nil {
			s.t.Error(err)
		}
	})
}

// placed runs what takes a place and returns the owner that then stands at the end.
func (s *shared) placed(run func()) string {
	s.t.Helper()
	n := len(s.queue())
	s.group.Go(run)
	s.until("it has a place", func() bool { return len(s.queue()) == n+1 })
	return s.queue()[n]
}

func (s *shared) queue() []string { return s.rdb.LRange(s.ctx, javaQueue, 0, -1).Val() }

func (s *shared) until(what string, cond func() bool) {
	s.t.Helper()
	require.Eventually(s.t, cond, patience, 2*time.Millisecond, what)
}

// left is for how many milliseconds an owner's place counts, by the server's clock; false if it has
// none.
func (s *shared) left(owner string) (float64, bool) {
	score, err := s.rdb.ZScore(s.ctx, javaEnds, owner).Result()
	return score - float64(s.rdb.Time(s.ctx).Val().UnixMilli()), err == nil
}

// mustEnd tells of a key that would stay for ever.
func (s *shared) mustEnd() {
	s.t.Helper()
	now, err := look(s.ctx, s.rdb)
	require.NoError(s.t, err)
	require.NoError(s.t, now.withTTL())
}

// mustHold gets the lock that is free, for Go.
func (s *shared) mustHold(m *fairlock.Mutex) *holdfast.Hold {
	s.t.Helper()
	h, err := m.Lock(s.ctx, holdfast.Wait(patience))
	require.NoError(s.t, err)
	return h
}
