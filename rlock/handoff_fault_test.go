package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// line is a holder and those of the same client who wait behind it.
type line struct {
	*proxied
	holder *holdfast.Hold
	next   []chan *holdfast.Hold // nil: it was refused
	errs   []chan error
}

// lineUp locks, and has so many wait behind that, in this order.
func (p *proxied) lineUp(t *testing.T, ctx context.Context, waiters int, opts ...holdfast.Option) *line {
	t.Helper()
	h, err := p.mutex.Lock(t.Context(), opts...)
	require.NoError(t, err)
	l := &line{proxied: p, holder: h}
	for range waiters {
		l.join(t, ctx, opts...)
	}
	return l
}

func (l *line) join(t *testing.T, ctx context.Context, opts ...holdfast.Option) {
	t.Helper()
	granted, failed, before := make(chan *holdfast.Hold, 1), make(chan error, 1), queued()
	go func() {
		h, err := l.mutex.Lock(ctx, opts...)
		granted <- h
		failed <- err
	}()
	eventually(t, "it waits", func() bool { return queued() > before })
	l.next, l.errs = append(l.next, granted), append(l.errs, failed)
}

// outcome waits for what the i-th waiter gets.
func (l *line) outcome(t *testing.T, i int) (*holdfast.Hold, error) {
	t.Helper()
	select {
	case h := <-l.next[i]:
		return h, <-l.errs[i]
	case <-time.After(patience):
		t.Fatal("a waiter waits for ever")
		return nil, nil
	}
}

// stale waits until the time is over for which the lock is handed on without a look at the server.
// It is 10 ms; a key with that time to live tells it.
func (p *proxied) stale(t *testing.T) {
	t.Helper()
	require.NoError(t, p.direct.Set(t.Context(), "clock", 1, 20*time.Millisecond).Err())
	eventually(t, "20 ms", func() bool { return free(t, p.direct, "clock") })
}

// warmPass makes pass known to the server, and shows that it is what a holder of a while sends.
func (p *proxied) warmPass(t *testing.T) {
	t.Helper()
	warm(t, p)
	l := p.lineUp(t, t.Context(), 1)
	p.stale(t)
	before := p.proxy.Seen(script(lua.Pass))
	require.NoError(t, l.holder.Unlock(t.Context()))
	h, err := l.outcome(t, 0)
	require.NoError(t, err)
	require.Greater(t, p.proxy.Seen(script(lua.Pass)), before)
	require.NoError(t, h.Unlock(t.Context()))
}

// TestPassMeetsFaults: the question whether others want the lock gets lost, or the answer. It is
// asked again, and the next one has the lock; a holder is not told of a loss, and nothing is left.
func TestPassMeetsFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			p := newProxied(t, nil)
			p.warmPass(t)
			l := p.lineUp(t, t.Context(), 2)
			p.stale(t)
			rule := p.proxy.On(script(lua.Pass), 1, fault)
			require.NoError(t, l.holder.Unlock(t.Context()))
			require.Equal(t, 1, rule.Count())
			last := l.holder.Token()
			for i := range l.next {
				h, err := l.outcome(t, i)
				require.NoError(t, err)
				require.Greater(t, h.Token(), last)
				require.NoError(t, context.Cause(h.Context()))
				last = h.Token()
				require.NoError(t, h.Unlock(t.Context()))
			}
			p.nothingLeft(t)
		})
	}
}

// TestPassMeetsFaultsControl: where it is not asked again, Unlock says that it does not know.
func TestPassMeetsFaultsControl(t *testing.T) {
	for _, fault := range faults {
		p := newProxied(t, nil)
		p.warmPass(t)
		l := p.lineUp(t, t.Context(), 1)
		p.stale(t)
		p.proxy.On(script(lua.Pass), 1, fault)
		restore := defence.Resend.Without(t)
		err := l.holder.Unlock(t.Context())
		restore()
		require.ErrorIs(t, err, holdfast.ErrUncertain, fault.String())
		h, err := l.outcome(t, 0) // it is given back in the background all the same
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// TestPassReleasesAndItsReplyIsLost: another client listens, so the lock is released, and the reply
// to that is lost. The repeated question finds nothing, or another holder. That is no loss.
func TestPassReleasesAndItsReplyIsLost(t *testing.T) {
	p := newProxied(t, nil)
	p.warmPass(t)
	other := rlock.New(newClient(t, p.srv.Client(t), nil), "a")
	l := p.lineUp(t, t.Context(), 1)
	theirs := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := other.Lock(t.Context(), holdfast.Wait(patience))
		if err != nil {
			t.Error(err)
		}
		theirs <- h
	}()
	awaitSubscriber(t, p.direct, "a")
	p.stale(t)
	rule := p.proxy.On(script(lua.Pass), 1, faultproxy.DropReply)
	require.NoError(t, l.holder.Unlock(t.Context()))
	require.Equal(t, 1, rule.Count())
	h := <-theirs
	require.NotNil(t, h)
	require.Greater(t, h.Token(), l.holder.Token())
	require.NoError(t, h.Unlock(t.Context()))
	h, err := l.outcome(t, 0)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	p.nothingLeft(t)
}

// silence has renewals be lost from now on until half of the trust in a lease is over.
func (l *line) silence(t *testing.T, lease time.Duration) {
	t.Helper()
	l.proxy.On(script(lua.Renew), 0, faultproxy.DropRequest)
	deadline := l.holder.Deadline()
	eventually(t, "half of the lease", func() bool { return time.Until(deadline) < lease/2-10*time.Millisecond })
	require.Equal(t, deadline, l.holder.Deadline(), "it was renewed")
}

// TestHalfALeaseIsNotHandedOn: renewals are lost. Who unlocks after half of the lease asks the
// server, and does not leave the rest of it to the next one.
func TestHalfALeaseIsNotHandedOn(t *testing.T) {
	const lease = 3 * time.Second
	renewed := func(t *testing.T) bool { // whether the next one has a whole lease
		p := newProxied(t, &holdfast.Options{Lease: lease})
		p.warmPass(t)
		defer defence.Look.Without(t)() // else the server is asked for that, and for more tokens
		defer defence.Reserved.Without(t)()
		l := p.lineUp(t, t.Context(), 1)
		l.silence(t, lease)
		before := l.holder.Deadline()
		require.NoError(t, l.holder.Unlock(t.Context()))
		h, err := l.outcome(t, 0)
		require.NoError(t, err)
		fresh := h.Deadline().After(before)
		l.proxy.Clear()
		_ = h.Unlock(t.Context())
		return fresh
	}
	require.True(t, renewed(t))
	defer defence.Half.Without(t)()
	require.False(t, renewed(t), "control: the next one has what is left")
}

// TestSilentServerInAChain: the server falls silent. The holder, who was handed the lock, is told
// at its deadline; those behind it go on to the server, and get the lock when that speaks again.
func TestSilentServerInAChain(t *testing.T) {
	const lease = 2 * time.Second
	p := newProxied(t, &holdfast.Options{Lease: lease})
	p.warmPass(t)
	l := p.lineUp(t, t.Context(), 2)
	require.NoError(t, l.holder.Unlock(t.Context()))
	h, err := l.outcome(t, 0)
	require.NoError(t, err)
	p.proxy.Silence(true)
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	p.proxy.Silence(false)
	next, err := l.outcome(t, 1)
	require.NoError(t, err)
	require.Greater(t, next.Token(), h.Token())
	require.NoError(t, next.Unlock(t.Context()))
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	require.NoError(t, p.client.Close(t.Context()))
	p.nothingLeft(t)
}
