package redlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// long is a lease that is not renewed in its ordinary way while a test runs.
const long = 10 * time.Minute

// heldUp has a party win a lock with two of three masters. The question to the third one was
// decided on with the others, and is sent when the lock is won. That master has never known a
// token. Then another one loses its data.
func heldUp(t *testing.T) (l *lab, p *party, name string, h *holdfast.Hold) {
	t.Helper()
	l = newLab(t, 3)
	p = l.patient(&holdfast.Options{Lease: long}, time.Minute)
	m := p.mutex(uniqueName(t), redlock.MasterTimeout(10*time.Second), redlock.TrustRestarts())
	// What is sent to a master about a lock is sent when what came before has its answer, so a late
	// one holds up the next.
	late := p.proxies[2].DelayReply(faultproxy.Script(lua.Release.Hash()), 1, time.Hour)
	require.NoError(t, l.direct[2].ScriptLoad(t.Context(), lua.Release.Text()).Err()) // one request
	require.NoError(t, lockOnce(t.Context(), m))
	<-late.Fired()
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
	lapses["flushed"](l, m.Name(), 2)

	h = lock(t, m)
	require.Equal(t, 2, l.held(m.Name()))
	late.Release()
	eventually(t, "the third one has granted it too", func() bool { return l.held(m.Name()) == 3 })
	for range 2 { // what is sent second is sent when the answer before it was heard
		p.extend(t, h, 2)
	}
	lapses["flushed"](l, m.Name(), 0)
	return l, p, m.Name(), h
}

// extend extends a hold until a master was asked for that; others may be enough before.
func (p *party) extend(t *testing.T, h *holdfast.Hold, master int) {
	t.Helper()
	renewal := faultproxy.Script(lua.Renew.Hash())
	for seen := p.proxies[master].Seen(renewal); p.proxies[master].Seen(renewal) == seen; {
		require.NoError(t, h.Extend(t.Context(), long))
	}
}

// A question that a busy machine sends a moment after the others have granted the lock was on its
// way when it was won. So a master that loses its data soon after does not end the hold.
func TestAskedBeforeTheWin(t *testing.T) {
	l, p, name, h := heldUp(t)
	for range 2 {
		p.extend(t, h, 0)
	}
	eventually(t, "taken back, as its answer showed that it had forgotten the hold",
		func() bool { return l.held(name) == 3 })
	require.NoError(t, h.Extend(t.Context(), long))
	require.NoError(t, h.Context().Err())
	unlock(t, h)
}

// The control: where only what was sent by then counts, others may have held the third master
// since, and now the first.
func TestAskedBeforeTheWinControl(t *testing.T) {
	t.Cleanup(defence.Begun.Without(t))
	_, _, _, h := heldUp(t)
	eventually(t, "lost", func() bool { return errors.Is(h.Extend(t.Context(), long), holdfast.ErrLost) })
}

// The control: a master that says to an extension that it has forgotten the hold is asked to take
// it back a third of the lease later.
func TestForgottenAtExtendControl(t *testing.T) {
	t.Cleanup(defence.Retake.Without(t))
	l, p, name, h := heldUp(t)
	for range 2 {
		p.extend(t, h, 0)
	}
	require.Never(t, func() bool { return l.held(name) == 3 }, never, time.Millisecond)
}
