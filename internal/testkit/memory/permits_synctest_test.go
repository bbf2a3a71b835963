package memory_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
)

// semaphore is a lock of which there are two permits, in a test in virtual time.
type semaphore struct {
	*testing.T
	server *memory.Server
}

// permits is a lock of two permits, for a client of its own.
func (s *semaphore) permits() (memory.Permits, *holdfast.Client) {
	s.Helper()
	c := client(s.T)
	return memory.NewPermits(c, s.server, "sem", 2), c
}

// client is closed at the end of the test.
func client(t *testing.T) *holdfast.Client {
	t.Helper()
	c, err := memory.NewClient(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// take takes a permit, which has to be free, or free before long.
func (s *semaphore) take(ctx context.Context, l holdfast.Locker) *holdfast.Hold {
	s.Helper()
	h, err := l.Lock(ctx, holdfast.Wait(time.Hour))
	require.NoError(s, err)
	return h
}

// wait has somebody wait for a permit.
func (s *semaphore) wait(l holdfast.Locker) <-chan *holdfast.Hold {
	s.Helper()
	got := make(chan *holdfast.Hold, 1)
	go func() {
		if h, err := l.Lock(s.Context(), holdfast.Wait(time.Hour)); err == nil {
			got <- h
		}
		close(got)
	}()
	synctest.Wait()
	require.Empty(s, got, "there is no permit left")
	return got
}

func (s *semaphore) unlock(h *holdfast.Hold) {
	s.Helper()
	require.NoError(s, h.Unlock(s.Context()))
	synctest.Wait()
}

// inside demands that these have the permits, and no others.
func (s *semaphore) inside(holds ...*holdfast.Hold) {
	s.Helper()
	owners := []string{}
	for _, h := range holds {
		require.NoError(s, h.Context().Err())
		owners = append(owners, h.Owner())
	}
	require.ElementsMatch(s, owners, s.server.Owners("sem"))
}

// TestPermits: what a lock promises that several owners hold, and nobody twice.
func TestPermits(t *testing.T) {
	for name, test := range map[string]func(*semaphore){
		"several of a client are inside, and no more": func(s *semaphore) {
			l, _ := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			s.inside(a, b)
			require.NotEqual(s, a.Token(), b.Token())
			_, err := l.TryLock(s.Context())
			require.ErrorIs(s, err, holdfast.ErrNotAcquired)
			require.NotErrorIs(s, err, holdfast.ErrUnavailable)
			other, _ := s.permits()
			_, err = other.TryLock(s.Context())
			require.ErrorIs(s, err, holdfast.ErrNotAcquired)
			s.unlock(a)
			s.inside(b, s.take(s.Context(), other))
		},
		"a release wakes one who waits, whoever releases": func(s *semaphore) {
			here, _ := s.permits()
			there, _ := s.permits()
			a, b := s.take(s.Context(), here), s.take(s.Context(), there)
			first, second := s.wait(here), s.wait(here)
			third := s.wait(there)
			s.unlock(b) // of the other client for the first, of the same one for the third
			require.Equal(s, 1, len(first)+len(third))
			require.Empty(s, second, "it is behind the first")
			s.unlock(a)
			require.Equal(s, 2, len(first)+len(second)+len(third))
			require.Len(s, s.server.Owners("sem"), 2)
			select {
			case h := <-first:
				s.unlock(h)
			case h := <-third:
				s.unlock(h)
			}
			require.Zero(s, s.server.Waiters("sem"), "all had their turn")
			require.Len(s, s.server.Owners("sem"), 2)
		},
		"the next of a client asks as soon as the one before it is inside": func(s *semaphore) {
			l, _ := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			first, second := s.wait(l), s.wait(l)
			require.Equal(s, 1, s.server.Waiters("sem"), "the server knows of one of them")
			s.unlock(a)
			c := <-first
			s.inside(b, c)
			require.Equal(s, 1, s.server.Waiters("sem"), "and then of the other")
			s.unlock(b)
			s.inside(c, <-second)
		},
		"who gives up leaves the front to the next": func(s *semaphore) {
			l, _ := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			_, err := l.Lock(s.Context(), holdfast.Wait(time.Second))
			require.ErrorIs(s, err, holdfast.ErrNotAcquired)
			next := s.wait(l)
			s.unlock(a)
			s.inside(b, <-next)
		},
		"the end of a lease is slept for": func(s *semaphore) {
			l, _ := s.permits()
			other, _ := s.permits()
			a := s.take(s.Context(), l)
			b, err := other.Lock(s.Context(), holdfast.Lease(time.Minute), holdfast.NoRenewal())
			require.NoError(s, err)
			s.inside(a, s.take(s.Context(), l))
			require.ErrorIs(s, context.Cause(b.Context()), holdfast.ErrLost)
		},
		"each acquisition is an owner of its own": func(s *semaphore) {
			l, _ := s.permits()
			own := holdfast.WithOwner(s.Context())
			a, b := s.take(own, l), s.take(own, l)
			require.NotEqual(s, a.Owner(), b.Owner())
			require.Equal(s, []int{1, 1}, []int{a.Count(), b.Count()})
			s.inside(a, b)
			s.unlock(a)
			s.inside(b)
		},
		"the context of a hold takes another permit": func(s *semaphore) {
			l, _ := s.permits()
			a := s.take(s.Context(), l)
			b := s.take(a.Context(), l)
			s.inside(a, b)
			_, err := l.TryLock(b.Context())
			require.ErrorIs(s, err, holdfast.ErrNotAcquired)
			s.unlock(b)
			require.NoError(s, a.Context().Err())
			s.inside(a)
		},
		"the context of a hold re-enters other locks": func(s *semaphore) {
			l, c := s.permits()
			m := memory.New(c, s.server, "mutex")
			outer := s.take(s.Context(), m)
			permit := s.take(outer.Context(), l)
			inner := s.take(permit.Context(), m)
			require.Equal(s, 2, inner.Count())
			require.Equal(s, outer.Owner(), inner.Owner())
			require.NotEqual(s, outer.Owner(), permit.Owner())
		},
		"the one of several that is lost is told, alone": func(s *semaphore) {
			l, _ := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			s.server.Take("sem", a.Owner())
			<-a.Context().Done() // with the next renewal
			require.ErrorIs(s, context.Cause(a.Context()), holdfast.ErrLost)
			require.ErrorIs(s, a.Unlock(s.Context()), holdfast.ErrLost)
			s.inside(b)
			s.inside(b, s.take(s.Context(), l))
		},
		"a lost one finds out at Unlock": func(s *semaphore) {
			l, _ := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			s.server.Take("sem", a.Owner())
			require.ErrorIs(s, a.Unlock(s.Context()), holdfast.ErrLost)
			s.inside(b)
		},
		"all are renewed": func(s *semaphore) {
			l, _ := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			<-time.After(time.Hour)
			s.inside(a, b)
		},
		"Close gives all back, and ends who waits": func(s *semaphore) {
			l, c := s.permits()
			a, b := s.take(s.Context(), l), s.take(s.Context(), l)
			first, second := s.wait(l), s.wait(l)
			require.NoError(s, c.Close(s.Context()))
			for _, h := range []*holdfast.Hold{a, b} {
				require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrClosed)
			}
			require.Nil(s, <-first)
			require.Nil(s, <-second)
			s.inside()
		},
		"HoldAtLeast leaves the permit taken": func(s *semaphore) {
			l, _ := s.permits()
			a, err := l.Lock(s.Context(), holdfast.HoldAtLeast(time.Minute))
			require.NoError(s, err)
			b := s.take(s.Context(), l)
			s.unlock(a)
			start := time.Now()
			s.take(s.Context(), l)
			require.GreaterOrEqual(s, time.Since(start), 50*time.Second) // less what clocks may differ by
			require.NoError(s, b.Context().Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(&semaphore{t, &memory.Server{Flaw: memory.Flaw(os.Getenv(flawEnv))}})
			})
		})
	}
}

// TestPermitsSeeFlaws is the control: without one of the traits, or with a permit too many, some of
// the promises are not kept.
func TestPermitsSeeFlaws(t *testing.T) {
	for flaw, promises := range map[memory.Flaw][]string{
		memory.OneTooMany: {"several of a client are inside, and no more"},
		memory.Unshared: {
			"several of a client are inside, and no more",
			"the next of a client asks as soon as the one before it is inside",
		},
		memory.Reenters: {
			"each acquisition is an owner of its own", "the context of a hold takes another permit",
		},
	} {
		for _, promise := range promises {
			t.Run(string(flaw)+", "+promise, func(t *testing.T) {
				requireBroken(t, "TestPermits", promise, string(flaw))
			})
		}
	}
}
