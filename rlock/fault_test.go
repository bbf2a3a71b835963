package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
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
	t.Helper()
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond })
	c := newClient(t, rdb, opts)
	return &proxied{srv, proxy, srv.Client(t), c, rlock.New(c, "a")}
}

// nothingLeft waits until the lock is free and stays so through the stragglers of the test, and
// every key has a TTL.
func (p *proxied) nothingLeft(t *testing.T) {
	t.Helper()
	require.True(t, free(t, p.direct, "a"))
	for _, key := range p.direct.Keys(context.Background(), "*").Val() {
		require.Positive(t, p.direct.PTTL(context.Background(), key).Val(), "key %s has no time to live", key)
	}
}

// faults are what can happen to one command between client and server.
var faults = []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut, faultproxy.BlackHole}

// script matches the first sending of a script that the server may or may not know already.
func script(s *lua.Script) func([]string) bool { return faultproxy.Script(s.Hash()) }

// TestAtMostOnce: each operation of a hold's life meets each fault. It is repeated by the library,
// and the count in Redis is exactly right afterwards.
func TestAtMostOnce(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			p := newProxied(t, nil)
			ctx := t.Context()
			warm(t, p)
			hit := func(s *lua.Script, what string) {
				rule := p.proxy.On(script(s), 1, fault)
				t.Cleanup(func() { require.Equal(t, 1, rule.Count(), "%s did not meet the fault", what) })
			}
			hit(lua.Acquire, "acquire")
			outer, err := p.mutex.Lock(ctx)
			require.NoError(t, err)
			require.Equal(t, 1, count(t, p.direct, "a", outer.Owner()))

			hit(lua.Recount, "re-entry")
			inner, err := p.mutex.Lock(outer.Context())
			require.NoError(t, err)
			require.Equal(t, 2, count(t, p.direct, "a", outer.Owner()))

			p.proxy.Clear()
			hit(lua.Recount, "partial unlock")
			require.NoError(t, inner.Unlock(ctx))
			require.Equal(t, 1, count(t, p.direct, "a", outer.Owner()))

			hit(lua.Release, "unlock")
			require.NoError(t, outer.Unlock(ctx))
			p.nothingLeft(t)
		})
	}
}

// TestAtMostOnceControl: the faults are real. Redisson's way, a counter that is stepped by a script
// which go-redis repeats, counts twice; and an unlock that takes "not held" at its word reports a
// loss.
func TestAtMostOnceControl(t *testing.T) {
	p := newProxied(t, nil)
	step := redis.NewScript(`return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)`)
	require.NoError(t, step.Load(t.Context(), p.direct).Err())
	p.proxy.On(faultproxy.Script(step.Hash()), 1, faultproxy.DropReply)
	naive := redistest.NewClient(t, p.proxy.Addr())
	require.NoError(t, step.Run(t.Context(), naive, []string{"naive"}, "owner").Err())
	require.Equal(t, 2, count(t, p.direct, "naive", "owner"), "one call, counted twice")
	require.NoError(t, p.direct.Del(t.Context(), "naive").Err())

	warm(t, p)
	h, err := p.mutex.Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(defence.RepeatedGone.Without(t))
	p.proxy.On(script(lua.Release), 1, faultproxy.DropReply)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
}

// TestResendControl: without the repeats of the library every fault reaches the caller.
func TestResendControl(t *testing.T) {
	t.Cleanup(defence.Resend.Without(t))
	for _, fault := range faults {
		p := newProxied(t, nil)
		p.proxy.On(faultproxy.Command("EVALSHA"), 1, fault)
		_, err := p.mutex.Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrUncertain, fault.String())

		p.proxy.On(faultproxy.Script(lua.State.Hash()), 1, fault)
		_, err = p.mutex.State(t.Context())
		require.ErrorIs(t, err, holdfast.ErrUnavailable, fault.String())
		require.NotErrorIs(t, err, holdfast.ErrUncertain, "who only looks leaves nothing open")
	}
}

// abandon locks, with a context that ends when the server has run the acquisition and before its
// reply arrives.
func abandon(t *testing.T, p *proxied) {
	t.Helper()
	rule := p.proxy.On(faultproxy.Command("EVALSHA", "EVAL"), 1, faultproxy.HoldReply)
	ctx, cancel := context.WithCancel(t.Context())
	granted := make(chan bool, 1)
	go func() {
		<-rule.Fired()
		n, err := p.direct.Exists(context.Background(), "a").Result() // before anybody can give it back
		granted <- err == nil && n == 1
		cancel()
	}()
	_, err := p.mutex.Lock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, <-granted, "to nobody")
	p.proxy.Clear()
}

// TestAbandonedAcquireIsUndone: the caller gave up, the server had granted.
func TestAbandonedAcquireIsUndone(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	abandon(t, p)
	eventually(t, "the grant is given back", func() bool { return free(t, p.direct, "a") })
	p.nothingLeft(t)
}

func TestAbandonedAcquireControl(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	t.Cleanup(defence.Undo.Without(t))
	abandon(t, p)
	require.NoError(t, p.client.Close(t.Context())) // joins the background: nothing more will come
	require.False(t, free(t, p.direct, "a"), "without undo it stands until the lease ends")
}

// TestAbandonedReentry: the caller of a re-entry gave up, and the server had counted it. The count
// is put right, and the hold goes on.
func TestAbandonedReentry(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	h, err := p.mutex.Lock(t.Context())
	require.NoError(t, err)
	rule := p.proxy.On(script(lua.Recount), 1, faultproxy.HoldReply)
	ctx, cancel := context.WithCancel(h.Context())
	go func() {
		<-rule.Fired()
		cancel()
	}()
	_, err = p.mutex.Lock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.Equal(t, 2, count(t, p.direct, "a", h.Owner()), "counted for nobody")
	p.proxy.Clear()
	eventually(t, "the count is put right", func() bool { return count(t, p.direct, "a", h.Owner()) == 1 })
	again, err := p.mutex.Lock(h.Context())
	require.NoError(t, err)
	require.Equal(t, 2, again.Count())
	require.NoError(t, again.Unlock(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
	p.nothingLeft(t)
}

// TestForceUnlockForcesOne: the reply of a forced unlock is lost, and a waiter gets the lock before
// the release is sent again. The waiter keeps it.
func TestForceUnlockForcesOne(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	_, err := p.mutex.Lock(t.Context())
	require.NoError(t, err)
	rule := p.proxy.On(script(lua.Release), 1, faultproxy.BlackHole)
	other := rlock.New(newClient(t, p.srv.Client(t), nil), "a")
	next := make(chan *holdfast.Hold, 1)
	go func() {
		<-rule.Fired() // the library waits for the answer of a release that the server has not seen: play it
		if err := p.direct.Del(context.Background(), "a").Err(); err != nil {
			t.Error(err)
		}
		h, err := other.Lock(context.Background(), holdfast.Wait(patience))
		if err != nil {
			t.Error(err)
		}
		next <- h
	}()
	there, err := p.mutex.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, there)
	h := <-next
	require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
	require.NoError(t, h.Unlock(t.Context()))
}

// warm makes the scripts known to the server.
func warm(t *testing.T, p *proxied) {
	t.Helper()
	h, err := p.mutex.Lock(t.Context())
	require.NoError(t, err)
	inner, err := p.mutex.Lock(h.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
}

// TestStragglersOfAPausedServer: the caller gives up while the server is stopped. What it had been
// sent, it runs when it goes on, some of it after the release that undoes it. Nothing stays.
func TestStragglersOfAPausedServer(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	for range 5 {
		p.srv.Pause()
		_, err := p.mutex.Lock(t.Context(), holdfast.Wait(50*time.Millisecond))
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		p.srv.Resume()
		h, err := p.mutex.Lock(t.Context(), holdfast.Wait(patience)) // waits for the undo, not for the lease of 30 s
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.NoError(t, p.client.Close(t.Context()))
	p.nothingLeft(t)
}

// TestRenewalMeetsFaults: single renewals are lost on the way; the hold lives on.
func TestRenewalMeetsFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			p := newProxied(t, &holdfast.Options{Lease: 6 * time.Second}) // renewed every 2 s
			warm(t, p)
			h, err := p.mutex.Lock(t.Context())
			require.NoError(t, err)
			rule := p.proxy.On(script(lua.Renew), 1, fault)
			first := h.Deadline()
			eventually(t, "renewed all the same", func() bool { return h.Deadline().After(first) && rule.Count() == 1 })
			require.NoError(t, h.Context().Err())
			require.Equal(t, 1, count(t, p.direct, "a", h.Owner()))
			require.NoError(t, h.Unlock(t.Context()))
			p.nothingLeft(t)
		})
	}
}

// TestUnlockIsDetachedControl: with the caller's cancellation let through, an unlock does not
// arrive.
func TestUnlockIsDetachedControl(t *testing.T) {
	p := newProxied(t, nil)
	warm(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := p.mutex.Lock(ctx)
	require.NoError(t, err)
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
		first, err := p.mutex.Lock(owner, holdfast.Lease(time.Second), holdfast.NoRenewal())
		require.NoError(t, err)
		require.ErrorIs(t, awaitEnd(t, first), holdfast.ErrLost)
		<-undo.Fired()
		h, err = p.mutex.Lock(owner)
		require.NoError(t, err)
		before := p.proxy.Seen(script(lua.Release))
		p.proxy.Clear()
		eventually(t, "the undo goes on", func() bool { return p.proxy.Seen(script(lua.Release)) > before })
		require.NoError(t, p.direct.Ping(t.Context()).Err())
		return p, h
	}
	t.Run("kept", func(t *testing.T) {
		p, h := again(t)
		require.NoError(t, h.Unlock(t.Context()))
		p.nothingLeft(t)
	})
	t.Run("control", func(t *testing.T) {
		t.Cleanup(defence.FreshOwner.Without(t))
		_, h := again(t)
		require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	})
}
