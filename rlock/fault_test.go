package rlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// proxied is a lock whose client goes through a proxy, and direct access to the same server.
type proxied struct {
	srv    *redistest.Server
	proxy  *faultproxy.Proxy
	direct *redis.Client
	client *holdfast.Client
	mutex  *rlock.Mutex
}

func newProxied(t *testing.T, opts *holdfast.Options) *proxied {
	return proxiedTo(t, redistest.Start(t), 200*time.Millisecond, opts)
}

func proxiedTo(t *testing.T, srv *redistest.Server, read time.Duration, opts *holdfast.Options) *proxied {
	rdb, proxy := kindtest.Behind(t, srv.Addr(), read)
	c := newClient(t, rdb, opts)
	return &proxied{srv, proxy, srv.Client(t), c, rlock.New(c, "a")}
}

// nothingLeft waits until the lock is free and stays so through the stragglers of the test, and
// every key has a TTL.
func (p *proxied) nothingLeft(t *testing.T) {
	require.True(t, free(t, p.direct, "a"))
	for _, key := range p.direct.Keys(context.Background(), "*").Val() {
		require.Positive(t, p.direct.PTTL(context.Background(), key).Val(), "key %s has no time to live", key)
	}
}

// TestLooksLeaveNothingOpen: who only looks, and gets no answer, is not told that something may have
// happened.
func TestLooksLeaveNothingOpen(t *testing.T) {
	t.Cleanup(defence.Resend.Without(t))
	p := newProxied(t, nil)
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		p.proxy.On(script(lua.State), 1, fault)
		_, err := p.mutex.State(t.Context())
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, holdfast.ErrUncertain)
	})
}

// TestForceUnlockForcesOne: the reply of a forced unlock is lost, and a waiter gets the lock before
// the release is sent again. The waiter keeps it.
func TestForceUnlockForcesOne(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	warm(t, p)
	lock(t, p.mutex)
	rule := p.proxy.On(script(lua.Release), 1, faultproxy.BlackHole)
	other := rlock.New(newClient(t, p.srv.Client(t), nil), "a")
	next := begin(t.Context(), t, func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
		<-rule.Fired() // the library waits for the answer of a release that the server has not seen: play it
		if err := p.direct.Del(ctx, "a").Err(); err != nil {
			return nil, err
		}
		return other.Lock(ctx, holdfast.Wait(patience))
	})
	kindtest.Forced(t, p.mutex)
	h := next.Hold()
	require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
	unlock(t, h)
}

// TestUnlockAfterAnother: a lock was lost, another client has had it, and the answer to the release is lost.
func TestUnlockAfterAnother(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	warm(t, p)
	h := lock(t, p.mutex)
	require.NoError(t, p.direct.Del(t.Context(), "a").Err())
	other := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
	unlock(t, other)
	p.proxy.On(script(lua.Release), 1, faultproxy.DropReply)
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUncertain)
	require.ErrorContains(t, err, fmt.Sprintf(`the last token was "%d", and not %d`, other.Token(), h.Token()))
}

// TestTryLockTooLate: the answer to a call that asks once comes when its lease cannot be trusted any more. Nothing
// was lost that its caller had.
func TestTryLockTooLate(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxiedTo(t, srv, patience, nil)
	warm(t, p)
	rule := p.proxy.On(script(lua.Acquire), 1, faultproxy.HoldReply)
	tries := begin(t.Context(), t, p.mutex.TryLock, holdfast.Lease(50*time.Millisecond))
	<-rule.Fired()
	eventually(t, "its lease ends", func() bool { return free(t, p.direct, "a") })
	rule.Release()
	err := tries.Err()
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	require.ErrorContains(t, err, "use a longer lease")
}

// warm makes the scripts known to the server.
func warm(t *testing.T, p *proxied) {
	h := lock(t, p.mutex)
	unlock(t, take(h.Context(), t, p.mutex.Lock), h)
}

// TestUnlockIsDetachedControl: with the caller's cancellation let through, an unlock does not
// arrive.
func TestUnlockIsDetachedControl(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	h := take(ctx, t, p.mutex.Lock)
	cancel()
	before := p.proxy.Seen(script(lua.Release))
	t.Cleanup(defence.Undo.Without(t))
	t.Cleanup(defence.Detach.Without(t))
	require.Error(t, h.Unlock(ctx))
	require.Equal(t, before, p.proxy.Seen(script(lua.Release)))
	require.False(t, free(t, p.direct, "a"))
}

// TestLostAndLockedAgain: an owner whose hold ran out locks again. What is still being sent to give
// the old one back does not touch the new one.
func TestLostAndLockedAgain(t *testing.T) {
	again := func(t *testing.T) (p *proxied, h *holdfast.Hold) {
		p = newProxied(t, nil)
		warm(t, p)
		owner := holdfast.WithOwner(t.Context())
		undo := p.proxy.On(script(lua.Release), 2, faultproxy.HoldReply) // of three
		first := take(owner, t, p.mutex.Lock, holdfast.Lease(time.Second), holdfast.NoRenewal())
		require.ErrorIs(t, awaitEnd(t, first), holdfast.ErrLost)
		<-undo.Fired()
		h = take(owner, t, p.mutex.Lock)
		before := p.proxy.Seen(script(lua.Release))
		p.proxy.Clear()
		eventually(t, "the undo goes on", func() bool { return p.proxy.Seen(script(lua.Release)) > before })
		require.NoError(t, p.direct.Ping(t.Context()).Err())
		return p, h
	}
	t.Run("kept", func(t *testing.T) {
		p, h := again(t)
		unlock(t, h)
		p.nothingLeft(t)
	})
	t.Run("control", func(t *testing.T) {
		t.Cleanup(defence.FreshOwner.Without(t))
		_, h := again(t)
		require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	})
}

// TestStringFaults: a question beside strings meets each fault. It is repeated: a free lock is granted once, and
// of a string nothing is changed. What may have been granted is given back, and nobody is told of trouble where
// there was nothing but the string.
func TestStringFaults(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		t.Parallel()
		logged, closed := besideAString(t, fault)
		require.NoError(t, closed)
		require.Equal(t, []string{""}, logged)
	})
}

// TestStringFaultsControl: else Close says that locks are left which never were.
func TestStringFaultsControl(t *testing.T) {
	defer defence.BesideStrings.Without(t)()
	_, closed := besideAString(t, faultproxy.DropReply)
	require.ErrorContains(t, closed, "may be left in Redis")
}

// besideAString has a fault happen to a question for a free lock, and to one for a string, and closes the client.
func besideAString(t *testing.T, fault faultproxy.Action) (logged []string, closed error) {
	log, ctx := &noted{}, t.Context()
	p := newProxied(t, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	m := rlock.New(p.client, "a", holdfast.RespectStrings())
	unlock(t, lock(t, m)) // the scripts are known from now on

	rule := p.proxy.On(script(lua.AcquireBeside), 1, fault)
	h := lock(t, m)
	require.Equal(t, 1, rule.Count())
	require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
	unlock(t, h)

	p.proxy.Clear()
	require.NoError(t, p.direct.Set(ctx, "a", "whose", time.Minute).Err())
	rule = p.proxy.On(script(lua.AcquireBeside), 1, fault)
	refused(ctx, t, m.Lock, holdfast.Wait(time.Second))
	require.Equal(t, 1, rule.Count())
	closed = p.client.Close(ctx)
	require.Equal(t, "whose", p.direct.Get(ctx, "a").Val())
	return log.lines(), closed
}
