package memory_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/held"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
)

// trio is three locks and the lock of all of them, in a test in virtual time.
type trio struct {
	*testing.T
	server *memory.Server
	client *holdfast.Client
	locks  map[string]*memory.Mutex
	all    *memory.All
}

func newTrio(t *testing.T) *trio {
	s := &trio{T: t, server: &memory.Server{}, client: client(t), locks: map[string]*memory.Mutex{}}
	for _, name := range []string{"a", "b", "c"} {
		s.locks[name] = memory.New(s.client, s.server, name)
	}
	s.all = memory.NewAll(s.locks["c"], s.locks["a"], s.locks["b"])
	return s
}

func (s *trio) lock(opts ...holdfast.Option) *holdfast.Hold {
	s.Helper()
	h, err := s.all.Lock(s.Context(), opts...)
	require.NoError(s, err)
	s.held("a", "b", "c")
	require.NoError(s, h.Context().Err())
	return h
}

// lose takes a lock from its holder.
func (s *trio) lose(name string) { s.server.Take(name, s.server.Owners(name)[0]) }

// held demands that somebody has these locks, and nobody the others.
func (s *trio) held(names ...string) {
	s.Helper()
	taken := []string{}
	for name := range s.locks {
		if len(s.server.Owners(name)) > 0 {
			taken = append(taken, name)
		}
	}
	require.ElementsMatch(s, names, taken)
}

// TestAll: what a hold promises that was joined of several.
func TestAll(t *testing.T) {
	for name, test := range map[string]func(*trio){
		"it has an owner, a count and a deadline, and the tokens of all by name": func(s *trio) {
			c := s.locks["c"]
			h, err := c.Lock(s.Context()) // its token is ahead of the others'
			require.NoError(s, err)
			require.NoError(s, h.Unlock(s.Context()))
			h = s.lock()
			require.Equal(s, "a b c", s.all.Name())
			require.Equal(s, s.server.Owners("a"), []string{h.Owner()})
			require.Equal(s, 1, h.Count())
			state, err := c.State(s.Context())
			require.NoError(s, err)
			require.Equal(s, state.Token, h.Token(), "the greatest of theirs")
			require.Greater(s, time.Until(h.Deadline()), 20*time.Second)
			for name, l := range s.locks {
				state, err := l.State(s.Context())
				require.NoError(s, err)
				require.Equal(s, state.Token, held.From(h.Context()).Of(name).Token)
			}
			require.NoError(s, h.Unlock(s.Context()))
			require.Zero(s, h.Deadline())
		},
		"Unlock gives all back, and its context ends": func(s *trio) {
			h := s.lock()
			ctx := h.Context()
			require.NoError(s, h.Unlock(s.Context()))
			s.held()
			require.ErrorIs(s, context.Cause(ctx), holdfast.ErrReleased)
			require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrReleased)
			require.ErrorIs(s, h.Extend(s.Context(), time.Minute), holdfast.ErrReleased)
			s.lock()
		},
		"each is re-entered under its context": func(s *trio) {
			h := s.lock()
			for _, l := range s.locks {
				inner, err := l.TryLock(h.Context())
				require.NoError(s, err)
				require.Equal(s, 2, inner.Count())
				require.NoError(s, inner.Unlock(s.Context()))
			}
			inner, err := s.all.TryLock(h.Context())
			require.NoError(s, err)
			require.NoError(s, inner.Unlock(s.Context()))
			require.NoError(s, h.Context().Err())
			s.held("a", "b", "c")
			require.NoError(s, h.Unlock(s.Context()))
			s.held()
		},
		"the loss of one ends it, and Unlock gives back the rest": func(s *trio) {
			for _, lost := range []string{"a", "b", "c"} {
				h := s.lock()
				s.lose(lost)
				<-h.Context().Done() // with the next renewal
				cause := context.Cause(h.Context())
				require.ErrorIs(s, cause, holdfast.ErrLost)
				require.ErrorIs(s, h.Extend(s.Context(), time.Minute), holdfast.ErrLost)
				require.Zero(s, h.Deadline())
				s.held(slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == lost })...)
				err := h.Unlock(s.Context())
				require.ErrorIs(s, err, holdfast.ErrLost)
				require.ErrorContains(s, err, `memory "`+lost+`"`)
				require.Equal(s, cause, context.Cause(h.Context()))
				s.held()
				require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
			}
		},
		"a loss that nobody has noticed is told by Unlock": func(s *trio) {
			h := s.lock()
			s.server.Give("b", "somebody", time.Hour)
			require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
			s.held("b")
		},
		"the end of one lease ends it, by the clock": func(s *trio) {
			h := s.lock(holdfast.Lease(time.Minute), holdfast.NoRenewal())
			ctx, deadline := h.Context(), h.Deadline()
			<-ctx.Done()
			require.False(s, time.Now().Before(deadline))
			require.ErrorIs(s, context.Cause(ctx), holdfast.ErrLost)
		},
		"Extend lengthens all": func(s *trio) {
			h := s.lock(holdfast.Lease(time.Minute), holdfast.NoRenewal())
			require.Less(s, time.Until(h.Deadline()), time.Minute)
			require.NoError(s, h.Extend(s.Context(), 2*time.Hour))
			require.Greater(s, time.Until(h.Deadline()), time.Hour)
			<-time.After(time.Hour)
			require.NoError(s, h.Context().Err())
			s.held("a", "b", "c")
		},
		"its deadline is the earliest": func(s *trio) {
			var holds []*holdfast.Hold
			for name, lease := range map[string]time.Duration{"a": time.Hour, "b": time.Minute, "c": 2 * time.Hour} {
				h, err := s.locks[name].Lock(s.Context(), holdfast.Lease(lease), holdfast.NoRenewal())
				require.NoError(s, err)
				holds = append(holds, h)
			}
			h := memory.Join(holds...)
			require.Less(s, time.Until(h.Deadline()), time.Minute)
			<-h.Context().Done()
			synctest.Wait() // what may stand of the lost one is given back
			s.held("a", "c")
			require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
			s.held()
		},
		"Close ends it": func(s *trio) {
			h := s.lock()
			require.NoError(s, s.client.Close(s.Context()))
			require.ErrorIs(s, context.Cause(h.Context()), holdfast.ErrClosed)
			require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrClosed)
			s.held()
		},
		"the end of the caller's context ends its context, and not the hold": func(s *trio) {
			ctx, cancel := context.WithCancel(s.Context())
			h, err := s.all.Lock(ctx)
			require.NoError(s, err)
			derived := h.Context()
			cancel()
			<-derived.Done()
			require.ErrorIs(s, context.Cause(derived), context.Canceled)
			require.Greater(s, time.Until(h.Deadline()), 20*time.Second)
			s.held("a", "b", "c")
			require.NoError(s, h.Unlock(ctx))
			s.held()
		},
		"who cannot have all has none": func(s *trio) {
			h, err := memory.New(client(s.T), s.server, "b").Lock(s.Context())
			require.NoError(s, err)
			_, err = s.all.TryLock(s.Context())
			require.ErrorIs(s, err, holdfast.ErrNotAcquired)
			s.held("b")
			require.NoError(s, h.Unlock(s.Context()))
			s.lock()
		},
		"holds that do not derive from each other are joined too": func(s *trio) {
			for _, lost := range []string{"a", "c"} {
				h := memory.Join(s.apart()...)
				ctx := h.Context()
				s.lose(lost)
				<-ctx.Done()
				require.ErrorIs(s, context.Cause(ctx), holdfast.ErrLost)
				for name := range s.locks {
					require.NotZero(s, held.From(ctx).Of(name).Token)
				}
				require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
				s.held()
			}
		},
		"of holds apart, the end of one caller's context ends its context too": func(s *trio) {
			ctx, cancel := context.WithCancel(s.Context())
			first, err := s.locks["a"].Lock(ctx)
			require.NoError(s, err)
			second, err := s.locks["b"].Lock(s.Context())
			require.NoError(s, err)
			h := memory.Join(first, second)
			joined := h.Context()
			cancel()
			<-joined.Done()
			require.ErrorIs(s, context.Cause(joined), context.Canceled)
			require.NoError(s, h.Unlock(s.Context()))
			s.held()
		},
		"what is called under its context says which hold has ended": func(s *trio) {
			h := s.lock()
			require.NoError(s, h.Unlock(s.Context()))
			_, err := memory.New(s.client, s.server, "d").Lock(h.Context())
			require.ErrorContains(s, err, `the hold of all "a b c", under whose context it was called, has ended`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newTrio(t)) })
		})
	}
}

// apart takes the three locks, each under the same context.
func (s *trio) apart() (holds []*holdfast.Hold) {
	s.Helper()
	for _, name := range []string{"a", "b", "c"} {
		h, err := s.locks[name].Lock(s.Context())
		require.NoError(s, err)
		holds = append(holds, h)
	}
	return holds
}
