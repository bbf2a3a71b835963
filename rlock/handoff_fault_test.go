package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// line is a holder and those of the same client who wait behind it, in this order.
type line struct {
	mutex  *rlock.Mutex
	holder *holdfast.Hold
	next   []*kindtest.Pending
}

func lineUp(ctx context.Context, t *testing.T, m *rlock.Mutex, waiters int, opts ...holdfast.Option) *line {
	t.Helper()
	l := &line{mutex: m, holder: lock(t, m, opts...)}
	for range waiters {
		l.join(ctx, t, opts...)
	}
	return l
}

func (l *line) join(ctx context.Context, t *testing.T, opts ...holdfast.Option) {
	t.Helper()
	before := queued()
	l.next = append(l.next, begin(ctx, t, l.mutex.Lock, opts...))
	eventually(t, "it waits", func() bool { return queued() > before })
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
	l := lineUp(t.Context(), t, p.mutex, 1)
	p.stale(t)
	before := p.proxy.Seen(script(lua.Pass))
	unlock(t, l.holder)
	h := l.next[0].Hold()
	require.Greater(t, p.proxy.Seen(script(lua.Pass)), before)
	unlock(t, h)
}

// TestPassMeetsFaults: the question whether others want the lock gets lost, or the answer. It is
// asked again, and the next one has the lock; a holder is not told of a loss, and nothing is left.
func TestPassMeetsFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			p := newProxied(t, nil)
			p.warmPass(t)
			l := lineUp(t.Context(), t, p.mutex, 2)
			p.stale(t)
			rule := p.proxy.On(script(lua.Pass), 1, fault)
			unlock(t, l.holder)
			require.Equal(t, 1, rule.Count())
			last := l.holder.Token()
			for _, next := range l.next {
				h := next.Hold()
				require.Greater(t, h.Token(), last)
				require.NoError(t, context.Cause(h.Context()))
				last = h.Token()
				unlock(t, h)
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
		l := lineUp(t.Context(), t, p.mutex, 1)
		p.stale(t)
		p.proxy.On(script(lua.Pass), 1, fault)
		restore := defence.Resend.Without(t)
		err := l.holder.Unlock(t.Context())
		restore()
		require.ErrorIs(t, err, holdfast.ErrUncertain, fault.String())
		unlock(t, l.next[0].Hold()) // it is given back in the background all the same
	}
}

// TestPassReleasesAndItsReplyIsLost: another client listens, so the lock is released, and the reply
// to that is lost. The repeated question finds nothing, or another holder. That is no loss.
func TestPassReleasesAndItsReplyIsLost(t *testing.T) {
	p := newProxied(t, nil)
	p.warmPass(t)
	other := rlock.New(newClient(t, p.srv.Client(t), nil), "a")
	l := lineUp(t.Context(), t, p.mutex, 1)
	theirs := begin(t.Context(), t, other.Lock, holdfast.Wait(patience))
	awaitSubscriber(t, p.direct, "a")
	p.stale(t)
	rule := p.proxy.On(script(lua.Pass), 1, faultproxy.DropReply)
	unlock(t, l.holder)
	require.Equal(t, 1, rule.Count())
	h := theirs.Hold()
	require.Greater(t, h.Token(), l.holder.Token())
	unlock(t, h)
	unlock(t, l.next[0].Hold())
	p.nothingLeft(t)
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
		l := lineUp(t.Context(), t, p.mutex, 1)
		p.proxy.On(script(lua.Renew), 0, faultproxy.DropRequest)
		before := l.holder.Deadline()
		eventually(t, "half of the lease", func() bool { return time.Until(before) < lease/2-10*time.Millisecond })
		require.Equal(t, before, l.holder.Deadline(), "it was renewed")
		unlock(t, l.holder)
		h := l.next[0].Hold()
		fresh := h.Deadline().After(before)
		p.proxy.Clear()
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
	const lease = time.Second
	p := newProxied(t, &holdfast.Options{Lease: lease})
	p.warmPass(t)
	l := lineUp(t.Context(), t, p.mutex, 2)
	unlock(t, l.holder)
	h := l.next[0].Hold()
	p.proxy.Silence(true)
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	p.proxy.Silence(false)
	next := l.next[1].Hold()
	require.Greater(t, next.Token(), h.Token())
	unlock(t, next)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	require.NoError(t, p.client.Close(t.Context()))
	p.nothingLeft(t)
}
