package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestClosedInTheWrongOrder: who closes go-redis first is told that locks are left, and how to
// close, by the error and in the log.
func TestClosedInTheWrongOrder(t *testing.T) {
	srv := redistest.Shared(t)
	for _, held := range []int{0, 1, 700} { // 700: more than travel in one batch
		var log bytes.Buffer
		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
		c, err := holdfast.New(rdb, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		name := uniqueName(t)
		for i := range held {
			_, err := rlock.New(c, name+strconv.Itoa(i)).Lock(t.Context(), holdfast.Lease(time.Minute))
			require.NoError(t, err)
		}
		require.NoError(t, rdb.Close())
		err = c.Close(t.Context())
		require.Equal(t, err, c.Close(t.Context()), "a second call returns the same")
		if held == 0 {
			require.NoError(t, err)
			require.Empty(t, log.String())
			continue
		}
		require.ErrorIs(t, err, redis.ErrClosed)
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.ErrorContains(t, err, map[int]string{1: "1 locks", 700: "700 locks"}[held])
		require.ErrorContains(t, err, "until their leases end")
		require.ErrorContains(t, err, "close the Holdfast client before the go-redis client: ")
		require.Contains(t, log.String(), "locks not released at close")
	}
}

// TestClosedWithoutAServer: releases that get no answer are told, and without a remedy that would
// not help.
func TestClosedWithoutAServer(t *testing.T) {
	refusedDials(t)
	srv := redistest.Start(t)
	c, err := holdfast.New(redistest.NewClient(t, srv.Addr(),
		func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }),
		&holdfast.Options{RetryBudget: 50 * time.Millisecond})
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = rlock.New(c, name).Lock(t.Context())
		require.NoError(t, err)
	}
	srv.Kill()
	err = c.Close(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "2 locks may be left in Redis until their leases end: ")
	require.NotContains(t, err.Error(), "close the Holdfast client")
}

// TestClosedAfterALostUnlock: an Unlock had no answer, and is repeated in the background. Close says
// that this was in vain.
func TestClosedAfterALostUnlock(t *testing.T) {
	srv := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 50 * time.Millisecond})
	require.NoError(t, err)
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Close())
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrUnavailable)
	err = c.Close(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorIs(t, err, holdfast.ErrUncertain)
	require.ErrorContains(t, err,
		"1 locks may be left in Redis until their leases end: close the Holdfast client before the go-redis client: ")
	require.EqualValues(t, 1, srv.Client(t).Exists(t.Context(), "a").Val(), "it is left")
}

// batches counts the pipelines and single commands by which a client runs scripts, from when it is
// told to.
type batches struct {
	on   atomic.Bool
	sent atomic.Int64
}

func (b *batches) count(first redis.Cmder) {
	if b.on.Load() && first.Name() == "evalsha" {
		b.sent.Add(1)
	}
}

func (b *batches) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *batches) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.count(cmd)
		return next(ctx, cmd)
	}
}

func (b *batches) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.count(cmds[0])
		return next(ctx, cmds)
	}
}

// TestCloseAsksASilentServerOnce: a server that has said nothing for the retry budget is not waited
// for again, which would take another ReadTimeout.
func TestCloseAsksASilentServerOnce(t *testing.T) {
	srv := redistest.Start(t)
	count := &batches{}
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) {
		o.MaxRetries, o.ReadTimeout = -1,
			300*time.Millisecond
	})
	rdb.AddHook(count)
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 100 * time.Millisecond})
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = rlock.New(c, name).Lock(t.Context())
		require.NoError(t, err)
	}
	srv.Pause()
	defer srv.Resume()
	count.on.Store(true)
	err = c.Close(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorIs(t, err, holdfast.ErrUncertain)
	require.ErrorContains(t, err, "2 locks may be left in Redis until their leases end: ")
	require.EqualValues(t, 1, count.sent.Load(), "one batch for both")
}

// TestPlainLeaseEnds: a plain lease that ends was not to be renewed, so nobody is told that it
// could not be. One of which Redis does not answer to renewals is told just that.
func TestPlainLeaseEnds(t *testing.T) {
	p := newProxied(t, nil)
	h, err := p.mutex.Lock(t.Context(), holdfast.NoRenewal(), holdfast.Lease(time.Second))
	require.NoError(t, err)
	why := awaitEnd(t, h)
	require.ErrorIs(t, why, holdfast.ErrLost)
	require.ErrorContains(t, why, "its lease ended, and it was taken with NoRenewal")
	require.NotContains(t, why.Error(), "could not be renewed")

	h, err = p.mutex.Lock(t.Context(), holdfast.Lease(time.Second))
	require.NoError(t, err)
	p.proxy.Silence(true)
	defer p.proxy.Silence(false)
	require.ErrorContains(t, awaitEnd(t, h), "could not be renewed in time")
}

// TestUnderAnEndedHold: what fails because the hold has ended under whose context it was called
// names that one's lock.
func TestUnderAnEndedHold(t *testing.T) {
	c, _ := shared(t, nil)
	lock := func(ctx context.Context, name string, opts ...holdfast.Option) *holdfast.Hold {
		h, err := rlock.New(c, name).Lock(ctx, opts...)
		require.NoError(t, err)
		return h
	}
	name := uniqueName(t)
	outer := lock(t.Context(), name+"outer", holdfast.NoRenewal(), holdfast.Lease(2*time.Second))
	inner := lock(outer.Context(), name+"inner")
	require.ErrorIs(t, awaitEnd(t, outer), holdfast.ErrLost)
	blames := func(err error, lock string, why error) {
		t.Helper()
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, `the hold of rlock "`+lock+`", under whose context it was called, has ended: `)
	}
	another := rlock.New(c, name+"another")
	_, err := another.Lock(inner.Context())
	blames(err, name+"outer", holdfast.ErrLost)
	_, err = another.TryLock(inner.Context(), holdfast.Wait(time.Second))
	blames(err, name+"outer", holdfast.ErrLost)
	_, err = rlock.New(c, name+"inner").Lock(inner.Context())
	blames(err, name+"outer", holdfast.ErrLost)
	require.NoError(t, inner.Unlock(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	h := lock(ctx, name+"released")
	under := h.Context()
	require.NoError(t, h.Unlock(t.Context()))
	_, err = another.Lock(under)
	blames(err, name+"released", holdfast.ErrReleased)

	h = lock(ctx, name+"cancelled")
	cancel()
	_, err = another.Lock(h.Context())
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "the hold of", "it has not ended")
	require.NoError(t, h.Unlock(t.Context()))
}

// TestCloseWithAnEndedContext: who closes a client under a context that has ended is not waited
// for, and no hold's context lives when Close has returned.
func TestCloseWithAnEndedContext(t *testing.T) {
	c, err := holdfast.New(redistest.Shared(t).Client(t), nil)
	require.NoError(t, err)
	name := uniqueName(t)
	var holds []*holdfast.Hold
	for i := range 50 {
		h, err := rlock.New(c, name+strconv.Itoa(i)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Context().Err())
		holds = append(holds, h)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Close(ended)
	for _, h := range holds {
		require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrClosed)
		require.False(t, h.Deadline().After(time.Now()))
	}
	require.NoError(t, c.Close(t.Context()))
}

// TestDeadlineOfAnEndedHold: nobody may take it for one that is trusted.
func TestDeadlineOfAnEndedHold(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(h.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(t.Context()))
	require.Zero(t, inner.Deadline())
	require.True(t, h.Deadline().After(time.Now()))
	require.NoError(t, h.Unlock(t.Context()))
	require.Zero(t, h.Deadline())
	h, err = m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), m.Name()).Err())
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), holdfast.ErrLost)
	require.Zero(t, h.Deadline())
}

// TestContextThatHadEnded: nothing was asked, so no server said who has the lock; but the text does
// not speak of an outage.
func TestContextThatHadEnded(t *testing.T) {
	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	m := rlock.New(c, "a")
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	under := h.Context()
	require.NoError(t, h.Unlock(t.Context()))
	why := errors.New("the request was cancelled")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	other, err := rlock.New(c, "b").Lock(t.Context())
	require.NoError(t, err)
	srv.ResetStats(t)
	for ctx, cause := range map[context.Context]error{under: holdfast.ErrReleased, cancelled: why} {
		extend := other.Extend(ctx, time.Hour)
		_, lock := m.Lock(ctx, holdfast.Wait(time.Minute))
		_, try := m.TryLock(ctx)
		_, state := m.State(ctx)
		_, force := m.ForceUnlock(ctx)
		for _, err := range []error{lock, try, state, force, extend} {
			require.ErrorIs(t, err, cause)
			require.ErrorContains(t, err, "nothing was asked: "+cause.Error())
			require.ErrorIs(t, err, holdfast.ErrUnavailable)
			require.NotErrorIs(t, err, holdfast.ErrUncertain)
			require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		}
	}
	require.Empty(t, srv.CommandCalls(t), "nothing was sent")
	require.NoError(t, other.Unlock(t.Context()))
}
