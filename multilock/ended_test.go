package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// ending is a lock that ends the caller's context, just before it is asked for or when it has an answer.
type ending struct {
	holdfast.Locker
	before, after func()
}

func (e ending) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return e.ask(ctx, e.Locker.Lock, opts)
}

func (e ending) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return e.ask(ctx, e.Locker.TryLock, opts)
}

func (e ending) ask(ctx context.Context, ask kindtest.Acquire, opts []holdfast.Option) (*holdfast.Hold, error) {
	if ctx.Err() != nil { // New asks which lock it is
		return ask(ctx, opts...)
	}
	e.before()
	defer e.after()
	return ask(ctx, opts...)
}

func nothing() {}

// TestTheContextEndsWhileTaking: what is known of the locks is told, with the cause, also if nobody was asked any
// more. That a context had ended before the call is said of the whole call, and not of its parts.
func TestTheContextEndsWhileTaking(t *testing.T) {
	t.Cleanup(func() { // as go-redis does when its client is closed
		eventually(t, "the pool has stopped to dial", func() bool { return kindtest.Goroutines("pool.(*ConnPool).tryDial") == 0 })
	})
	c, rdb := shared(t)
	other, direct := shared(t)
	far := redistest.Start(t)
	refusing := redistest.NewClient(t, far.Addr(), func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	dead := newClient(t, refusing, nil)
	far.Kill()
	n := names(t, "abc")
	h := lock(t.Context(), t, rlock.New(other, n[0]))
	for what, of := range map[string]struct {
		locks func(end func()) []holdfast.Locker
		is    error
		says  string
	}{
		"after a refusal": {func(end func()) []holdfast.Locker {
			return []holdfast.Locker{ending{rlock.New(c, n[0]), nothing, end}, rlock.New(c, n[1])}
		}, holdfast.ErrNotAcquired, "held by " + h.Owner()},
		"before the question": {func(end func()) []holdfast.Locker {
			return []holdfast.Locker{ending{rlock.New(c, n[1]), end, nothing}}
		}, holdfast.ErrNotAcquired, n[1]},
		"before both questions": {func(end func()) []holdfast.Locker {
			return []holdfast.Locker{ending{rlock.New(c, n[1]), end, nothing}, ending{rlock.New(c, n[2]), end, nothing}}
		}, holdfast.ErrNotAcquired, n[1]},
		"between two clients": {func(end func()) []holdfast.Locker {
			return []holdfast.Locker{rlock.New(c, n[1]), ending{rlock.New(other, n[2]), end, nothing}}
		}, holdfast.ErrNotAcquired, n[2]},
		"before a server is asked that is gone": {func(end func()) []holdfast.Locker {
			return []holdfast.Locker{rlock.New(c, n[1]), ending{rlock.New(dead, n[2]), end, nothing}}
		}, holdfast.ErrUnavailable, n[2]},
		"after a server was asked that is gone": {func(end func()) []holdfast.Locker {
			return []holdfast.Locker{ending{rlock.New(dead, n[1]), nothing, end}, rlock.New(dead, n[2])}
		}, holdfast.ErrUnavailable, "connection refused"},
	} {
		for _, once := range []bool{false, true} {
			unlock(t, lock(t.Context(), t, rlock.New(c, n[1]))) // its server answers
			unlock(t, lock(t.Context(), t, rlock.New(c, n[1]))) // its server answers
			ctx, cancel := context.WithCancelCause(t.Context())
			m := multilock.New(of.locks(func() { cancel(errGone) })...)
			ask := m.Lock
			if once {
				ask = m.TryLock
			}
			_, err := ask(ctx)
			require.ErrorIs(t, err, errGone, what)
			require.ErrorIs(t, err, of.is, what)
			require.ErrorContains(t, err, of.says, what)
			require.False(t, errors.Is(err, holdfast.ErrNotAcquired) && errors.Is(err, holdfast.ErrUnavailable), what)
			eventually(t, "all is given back", func() bool { return len(taken(t, rdb, n[1:]...)) == 0 })

			_, err = ask(ctx) // the control: now it had ended before
			require.ErrorIs(t, err, errGone, what)
			require.NotErrorIs(t, err, holdfast.ErrNotAcquired, what)
			require.NotErrorIs(t, err, holdfast.ErrUnavailable, what)
		}
	}
	require.Equal(t, n[:1], taken(t, direct, n...))
	unlock(t, h)
}

// seen is a context that ends when it has been looked at.
type seen struct {
	context.Context
	end func()
}

func (s seen) Err() error {
	defer s.end()
	return s.Context.Err()
}

// TestTheContextEndsWhileExtending: the same of Extend.
func TestTheContextEndsWhileExtending(t *testing.T) {
	srv := redistest.Start(t)
	rdb, proxy := kindtest.Behind(t, srv.Addr(), patience)
	h := lock(t.Context(), t, multilock.New(plain(newClient(t, rdb, nil), "a", "b")...))
	proxy.Silence(true)
	defer proxy.Silence(false)
	ctx, cancel := context.WithCancelCause(t.Context())
	err := h.Extend(seen{ctx, func() { cancel(errGone) }}, time.Minute)
	require.ErrorIs(t, err, errGone)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, `rlock "a": unavailable: `)
	require.ErrorContains(t, err, `rlock "b": unavailable: `)
	err = h.Extend(ctx, time.Minute) // the control: now it had ended before
	require.ErrorIs(t, err, errGone)
	require.NotErrorIs(t, err, holdfast.ErrUnavailable)
	proxy.Silence(false)
	unlock(t, h)
}
