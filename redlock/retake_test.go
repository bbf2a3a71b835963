package redlock_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// lateWord has a process hold a lock, which is renewed once: master 0 executes that only after the others have, and has lost
// the hold by then. It returns when that master's answer is on its way. Its votes until then are counted.
func lateWord(t *testing.T) (l *lab, p *process, name string, h *holdfast.Hold, votes int) {
	l = newLab(t, 3)
	p = l.patient(&holdfast.Options{Lease: 6 * time.Second}, time.Minute)
	l.load(lua.Renew)
	name = uniqueName(t)
	h = l.everywhere(p.mutex(name))
	late := p.proxies[0].DelayRequest(isRenewal, 1, time.Hour)
	won := h.Deadline()
	eventually(t, "the others have renewed it", func() bool { return h.Deadline().After(won) })
	require.NoError(t, h.Extend(t.Context(), time.Hour)) // the next renewal is in twenty minutes
	<-late.Fired()
	require.NoError(t, l.direct[0].Del(t.Context(), name).Err())
	l.masters[0].ResetStats(t)
	votes = p.proxies[0].Seen(isVote)
	late.Release()
	return l, p, name, h, votes
}

// A master that says only after the others have renewed a hold that it has forgotten it is asked at once to take it back.
func TestLateWordOfALoss(t *testing.T) {
	l, _, name, h, _ := lateWord(t)
	eventually(t, "taken back", func() bool { return l.direct[0].HExists(t.Context(), name, h.Owner()).Val() })
	require.Greater(t, l.direct[0].PTTL(t.Context(), name).Val(), time.Minute, "for as long as the others hold it")
	require.NoError(t, h.Context().Err())
	unlock(t, h)

	// The control: what nobody waits for is noted alone, and the master is asked a third of a lease later.
	t.Cleanup(defence.Retake.Without(t))
	l, p, name, h, votes := lateWord(t)
	eventually(t, "it has said so", func() bool { return l.masters[0].CommandCalls(t)["evalsha"] > 0 })
	for range 200 { // by then that was heard too
		require.NoError(t, p.rdbs[0].Ping(t.Context()).Err())
	}
	p.close(t)
	require.Equal(t, votes, p.proxies[0].Seen(isVote))
	require.False(t, l.direct[0].HExists(t.Context(), name, h.Owner()).Val())
}

// long is a lease that is not renewed in its ordinary way while a test runs.
const long = 10 * time.Minute

// heldUp has a process win a lock with two of three masters. The question to the third one was decided on with the others, and
// is sent when the lock is won. That master has never known a token. Then another one loses its data.
func heldUp(t *testing.T) (l *lab, p *process, name string, h *holdfast.Hold) {
	l = newLab(t, 3)
	p = l.patient(&holdfast.Options{Lease: long}, time.Minute)
	m := p.mutex(uniqueName(t), redlock.MasterTimeout(10*time.Second), redlock.TrustRestarts())
	// What is sent to a master about a lock is sent when what came before has its answer, so a late one holds up the next.
	late := p.proxies[2].DelayReply(isRelease, 1, time.Hour)
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
func (p *process) extend(t *testing.T, h *holdfast.Hold, master int) {
	for seen := p.proxies[master].Seen(isRenewal); p.proxies[master].Seen(isRenewal) == seen; {
		require.NoError(t, h.Extend(t.Context(), long))
	}
}

// A question that a busy machine sends a moment after the others have granted the lock was on its
// way when it was won. So a master that loses its data soon after does not end the hold.
func TestAskedBeforeTheWin(t *testing.T) {
	t.Parallel()
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

// The control: where only what was sent by then counts, others may have held the third master since, and now the first.
func TestAskedBeforeTheWinControl(t *testing.T) {
	t.Cleanup(defence.Begun.Without(t))
	_, _, _, h := heldUp(t)
	eventually(t, "lost", func() bool { return errors.Is(h.Extend(t.Context(), long), holdfast.ErrLost) })
}

// contested has a process win a lock with two of three masters, while another client that asked in vain has the
// vote of the third one, which it gives back. The holder has joined that one then, which may have voted for
// somebody else until four times its timeout later. It returns whether the hold was renewed when that time was
// over, and why it ended when the first master forgets it then.
func contested(t *testing.T) (renewed bool, lost error) {
	const timeout, settling = time.Second, 4 * time.Second
	l, name := newLab(t, 3), uniqueName(t)
	var last atomic.Pointer[time.Time] // renewal of its own accord
	p := l.versed(&holdfast.Options{Lease: long, Observer: &event.Observer{Renewed: func(e event.Renewal) {
		if now := time.Now(); e.Name == name {
			last.Store(&now)
		}
	}}})
	m := p.mutex(name, redlock.TrustRestarts(), redlock.MasterTimeout(timeout))
	unlock(t, l.everywhere(m)) // the third one knows a token, so what is added to it is more than the others know
	eventually(t, "released", func() bool { return l.held(name) == 0 })

	const rival = "11111111-1111-1111-1111-111111111111:h7"
	third, token := l.direct[2], "redisson_lock_token:{"+name+"}"
	l.give(2, name, rival, time.Hour)
	require.NoError(t, third.IncrBy(t.Context(), token, 1000).Err())
	h := lock(t, m)
	before := time.Now()
	require.NoError(t, third.HDel(t.Context(), name, rival).Err())
	joins := func() bool {
		_ = h.Extend(t.Context(), long) // which asks all masters
		return l.held(name) == 3 || h.Context().Err() != nil
	}
	eventually(t, "the third one has joined", joins)
	joined := time.Now()
	eventually(t, "renewed when it has settled, or long ago settled", func() bool {
		at := last.Load()
		renewed = at != nil && at.Sub(before) >= settling
		return renewed || defence.Settle.Off() && time.Since(joined) > settling*5/4
	})
	if renewed {
		for range 2 { // what is sent second is sent when the answer before it was heard
			p.extend(t, h, 0)
		}
	}
	lapses["flushed"](l, name, 0)
	eventually(t, "joined again", joins)
	lost = context.Cause(h.Context())
	return renewed, errors.Join(lost, h.Unlock(t.Context())) // which may be the first to know of the loss
}

// A hold that was won against somebody survives, a moment later, that another master forgets it.
func TestContestedHoldSettles(t *testing.T) {
	t.Parallel()
	renewed, lost := contested(t)
	require.True(t, renewed)
	require.NoError(t, lost)
}

// The control: what the others said last was before the third one counts as never lost.
func TestContestedHoldSettlesControl(t *testing.T) {
	t.Cleanup(defence.Settle.Without(t))
	renewed, lost := contested(t)
	require.False(t, renewed)
	require.ErrorIs(t, lost, holdfast.ErrLost)
}

// restartBehindProxy has a process hold a lock by three masters of five, one of which is started anew without its data, and
// another process, whose proxies keep its connections over that, try. It returns what became of that.
func restartBehindProxy(t *testing.T) error {
	l := newClockLab(t, 5)
	opts := &holdfast.Options{Lease: 10 * time.Second, RetryBudget: 300 * time.Millisecond}
	a, b := l.process(opts), l.process(opts)
	for _, proxy := range b.proxies {
		proxy.KeepConnections()
	}
	for _, m := range l.masters {
		m.MoveClock(t, time.Minute) // they are older than a lease
	}
	require.NoError(t, lockOnce(t.Context(), b.mutex("other")))
	eventually(t, "nothing is under way, for which another connection would be needed", func() bool {
		return !slices.ContainsFunc(b.rdbs, func(rdb *redis.Client) bool {
			pool := rdb.PoolStats()
			return pool.IdleConns == 0 || pool.IdleConns < pool.TotalConns
		})
	})
	for _, i := range []int{3, 4} {
		a.proxies[i].Stop()
	}
	name := uniqueName(t)
	h := lock(t, a.mutex(name))
	l.masters[2].Restart()
	second, err := b.mutex(name).TryLock(t.Context())
	if err == nil {
		unlock(t, second)
	}
	_ = h.Unlock(t.Context())
	return err
}

// A restart is noticed also where a proxy keeps the connections: the master's run is asked with its vote.
func TestRestartBehindProxy(t *testing.T) {
	err := restartBehindProxy(t)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "two masters have the lock, and the third one does not count")

	// The control: who asks for it where a connection was made does not notice.
	t.Cleanup(defence.VoteRun.Without(t))
	require.NoError(t, restartBehindProxy(t))
}
