package rlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/watchdog"
)

// line is a holder and those of the same client who wait behind it, in this order.
type line struct {
	mutex  *rlock.Mutex
	holder *holdfast.Hold
	next   []*kindtest.Pending
}

func lineUp(ctx context.Context, t *testing.T, m *rlock.Mutex, waiters int, opts ...holdfast.Option) *line {
	l := &line{mutex: m, holder: lock(t, m, opts...)}
	for range waiters {
		l.join(ctx, t, opts...)
	}
	return l
}

func (l *line) join(ctx context.Context, t *testing.T, opts ...holdfast.Option) {
	before := queued()
	l.next = append(l.next, begin(ctx, t, l.mutex.Lock, opts...))
	eventually(t, "it waits", func() bool { return queued() > before })
}

// stale waits until hand-offs look at the server again, after 10 ms; a key with a time to live tells that.
func (p *proxied) stale(t *testing.T) {
	require.NoError(t, p.direct.Set(t.Context(), "clock", 1, 20*time.Millisecond).Err())
	eventually(t, "20 ms", func() bool { return free(t, p.direct, "clock") })
}

// warmPass makes pass known to the server, and shows that it is what a holder of a while sends.
func (p *proxied) warmPass(t *testing.T) {
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
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
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

// TestPassReleasesAndItsReplyIsLost: another client listens, so the lock is released, and the reply
// to that is lost. The repeated question finds nothing, or another holder. That is not called a loss.
func TestPassReleasesAndItsReplyIsLost(t *testing.T) {
	p := newProxied(t, nil)
	p.warmPass(t)
	other := rlock.New(newClient(t, p.srv.Client(t), nil), "a")
	l := lineUp(t.Context(), t, p.mutex, 1)
	theirs := begin(t.Context(), t, other.Lock, holdfast.Wait(patience))
	awaitSubscriber(t, p.direct, "a")
	p.stale(t)
	rule := p.proxy.On(script(lua.Pass), 1, faultproxy.DropReply)
	require.NoError(t, kindtest.Unheard(t.Context(), l.holder))
	require.Equal(t, 1, rule.Count())
	h := theirs.Hold()
	require.Greater(t, h.Token(), l.holder.Token())
	unlock(t, h)
	unlock(t, l.next[0].Hold())
	p.nothingLeft(t)
}

// TestHalfALeaseIsNotHandedOn: renewals are lost. An Unlock after half of the lease asks the server for a whole one.
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

// TestCloseInAChain: the client is closed while its goroutines hand the lock off among each other. All are told, the lock is
// free before its lease ends, and no goroutine stays (which TestMain looks at).
func TestCloseInAChain(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	for round := range 20 {
		c := newClient(t, srv.Client(t), nil)
		m := rlock.New(c, "a")
		var group sync.WaitGroup
		running := make(chan struct{}, 1000)
		for range 16 {
			group.Go(func() {
				for {
					h, err := m.Lock(t.Context())
					if err != nil {
						if !isClosed(err) {
							t.Errorf("a waiter was told: %v", err)
						}
						return
					}
					select {
					case running <- struct{}{}:
					default:
					}
					ctx := h.Context()
					err = h.Unlock(t.Context())
					switch cause := context.Cause(ctx); {
					case err == nil && cause == holdfast.ErrReleased: //nolint:errorlint // exactly that one
					case isClosed(err) && isClosed(cause):
					case isClosed(err) && cause == holdfast.ErrReleased: //nolint:errorlint // it was told before it was closed
					default:
						t.Errorf("unlock: %v, and the context ended with %v", err, cause)
					}
				}
			})
		}
		for range 10 * (round + 1) {
			<-running
		}
		require.NoError(t, c.Close(t.Context()))
		group.Wait()
		// What was granted in the moment of the end is given back in the background. Its lease would end later than this waits.
		eventually(t, "it is free", func() bool { return free(t, rdb, "a") })
	}
}

// TestCloseOfAHandedHold: a hold that was handed off is open when the client is closed, and two wait behind it.
func TestCloseOfAHandedHold(t *testing.T) {
	p := newProxied(t, nil)
	l := lineUp(t.Context(), t, p.mutex, 3)
	unlock(t, l.holder)
	h := l.next[0].Hold()
	ctx := h.Context()
	require.NoError(t, p.client.Close(t.Context()))
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrClosed)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrClosed)
	for i := 1; i < 3; i++ {
		require.ErrorIs(t, l.next[i].Err(), holdfast.ErrClosed)
	}
	p.nothingLeft(t)
}

// TestOwnSubscriptionIsNoOther: a client that listens on after a wait takes itself for another client once, and no more.
func TestOwnSubscriptionIsNoOther(t *testing.T) {
	keeps := func(t *testing.T) bool { // whether the second pass keeps the lock
		p := newProxied(t, &holdfast.Options{Linger: time.Minute})
		p.warmPass(t)
		other := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
		l := &line{mutex: p.mutex}
		granted := begin(t.Context(), t, p.mutex.Lock)
		awaitSubscriber(t, p.direct, "a")
		unlock(t, other)
		h := granted.Hold()
		asked := func() bool { // whether the next one asks the server
			l.join(t.Context(), t)
			p.stale(t)
			acquired, passed := p.proxy.Seen(script(lua.Acquire)), p.proxy.Seen(script(lua.Pass))
			unlock(t, h)
			h = l.next[len(l.next)-1].Hold()
			require.Equal(t, passed+1, p.proxy.Seen(script(lua.Pass)))
			return p.proxy.Seen(script(lua.Acquire)) > acquired
		}
		require.True(t, asked(), "it listens itself")
		const channel = "redisson_lock__channel:{a}"
		if !defence.Rest.Off() {
			eventually(t, "it stops listening", func() bool {
				return kindtest.Listeners(t.Context(), p.direct, channel) == 0
			})
		}
		kept := !asked()
		unlock(t, h)
		return kept
	}
	require.True(t, keeps(t))
	defer defence.Rest.Without(t)()
	require.False(t, keeps(t), "control: it listens on, and gives the lock up for itself")
}

func isClosed(err error) bool { return errors.Is(err, holdfast.ErrClosed) }

// TestLongerLeaseIsNotHandedOn: a hold was extended, by an answer or by a request that comes late, or entered for longer. The
// next one of the client asks the server, and has the lease that it wants.
func TestLongerLeaseIsNotHandedOn(t *testing.T) {
	for name, lengthen := range map[string]func(t *testing.T, p *proxied, h *holdfast.Hold){
		"extended": func(t *testing.T, _ *proxied, h *holdfast.Hold) {
			require.NoError(t, h.Extend(t.Context(), time.Hour))
			require.NoError(t, h.Extend(t.Context(), holdfast.DefaultLease), "which does not shorten it")
		},
		"extended, and not answered": func(t *testing.T, p *proxied, h *holdfast.Hold) {
			require.NoError(t, p.direct.ScriptLoad(t.Context(), lua.Renew.Text()).Err())
			rule := p.proxy.On(script(lua.Renew), 1, faultproxy.HoldReply)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-rule.Fired(); cancel() }()
			require.Error(t, h.Extend(ctx, time.Hour))
			rule.Release()
		},
		"entered for longer": func(t *testing.T, p *proxied, h *holdfast.Hold) {
			unlock(t, take(h.Context(), t, p.mutex.Lock, holdfast.Lease(time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inherits := func() bool {
				p := newProxied(t, nil)
				warm(t, p)
				l := lineUp(t.Context(), t, p.mutex, 1)
				lengthen(t, p, l.holder)
				defer defence.Look.Without(t)() // else the server is asked for that
				unlock(t, l.holder)
				h := l.next[0].Hold()
				long := p.direct.PTTL(t.Context(), "a").Val() > 2*holdfast.DefaultLease
				unlock(t, h)
				return long
			}
			require.False(t, inherits())
			if name == "extended" { // else g.lease itself, or the reply of the pass, is in the way
				defer defence.Longer.Without(t)()
				require.True(t, inherits(), "control: the next one has an hour")
			}
		})
	}
}

// TestInnerHoldDoesNotRenewForGood: a plain lease is renewed while a renewed hold in it lasts, and not after that.
func TestInnerHoldDoesNotRenewForGood(t *testing.T) {
	ends := func(t *testing.T) bool { // whether it ended, before it was renewed twice more
		c, _ := shared(t, nil)
		m := rlock.New(c, uniqueName(t), holdfast.Lease(2*time.Second))
		h := lock(t, m, holdfast.NoRenewal())
		inner := take(h.Context(), t, m.Lock)
		renewed := func() func() bool {
			before := h.Deadline()
			return func() bool { return h.Deadline().After(before) || context.Cause(h.Context()) != nil }
		}
		eventually(t, "it is renewed within", renewed())
		require.NoError(t, context.Cause(h.Context()))
		unlock(t, inner)
		for range 2 {
			eventually(t, "it is renewed, or ends", renewed())
		}
		defer func() { _ = h.Unlock(t.Context()) }()
		return context.Cause(h.Context()) != nil
	}
	require.True(t, ends(t))
	defer defence.Inner.Without(t)()
	require.False(t, ends(t), "control: nobody ends it")
}

// TestTryLockLeavesTheFront: a hold that was got by TryLock, while others of the client wait, goes
// back to the server, which the one in front asks. It is not handed to the one behind that.
func TestTryLockLeavesTheFront(t *testing.T) {
	first := func(t *testing.T) int {
		p := newProxied(t, nil)
		warm(t, p)
		other := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
		l := &line{mutex: p.mutex}
		asked := p.srv.CommandCalls(t)["evalsha"]
		granted := begin(t.Context(), t, p.mutex.Lock) // it has the front place, and asks the server
		awaitSubscriber(t, p.direct, "a")
		eventually(t, "it has asked again since it listens", func() bool { return p.srv.CommandCalls(t)["evalsha"] >= asked+2 })
		l.join(t.Context(), t)
		require.NoError(t, p.direct.Del(t.Context(), "a").Err()) // free, and nobody is told
		unlock(t, take(t.Context(), t, p.mutex.TryLock))
		both := []*kindtest.Pending{granted, l.next[0]}
		i := kindtest.First(t, both...)
		_ = both[i].Hold().Unlock(t.Context())
		_ = both[1-i].Hold().Unlock(t.Context())
		_ = other.Unlock(t.Context())
		return i
	}
	require.Zero(t, first(t))
	defer defence.Front.Without(t)()
	require.Equal(t, 1, first(t), "control: it goes past the front")
}

// TestWhatIsUnderWayGoesOn: who has the front place leaves while the answer to its question is on the way. It was granted
// the lock, which is for the next one, who asks nothing.
func TestWhatIsUnderWayGoesOn(t *testing.T) {
	asks := func(t *testing.T) int {
		p := proxiedTo(t, redistest.Start(t), kindtest.Patience, nil)
		warm(t, p)
		acquire := script(lua.Acquire)
		other, first := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a")), p.proxy.Seen(acquire)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leaves := begin(ctx, t, p.mutex.Lock)
		eventually(t, "it has asked again since it listens", func() bool { return p.proxy.Seen(acquire) >= first+2 })
		l := &line{mutex: p.mutex}
		l.join(t.Context(), t)
		answer := p.proxy.On(acquire, 1, faultproxy.HoldReply)
		unlock(t, other)
		<-answer.Fired()
		asked := p.proxy.Seen(acquire)
		cancel()
		answer.Clear()
		require.ErrorIs(t, leaves.Err(), context.Canceled)
		next := l.next[0].Hold()
		asked = p.proxy.Seen(acquire) - asked
		unlock(t, next)
		return asked
	}
	require.Zero(t, asks(t))
	defer defence.Outlast.Without(t)()
	require.Positive(t, asks(t), "control: it asks for itself")
}

// TestForcedOutJustBeforeAHandOff: nobody asks the server when the lock is handed off, so who
// unlocks is not told that it was forced out a moment ago. The next one is, by the renewal.
func TestForcedOutJustBeforeAHandOff(t *testing.T) {
	p := newProxied(t, &holdfast.Options{Lease: 3 * time.Second})
	warm(t, p)
	l := lineUp(t.Context(), t, p.mutex, 2)
	require.NoError(t, l.holder.Unlock(t.Context())) // asks for tokens
	holder := l.next[0].Hold()
	kindtest.Forced(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
	restore := defence.Look.Without(t) // it is within 10 ms
	err := holder.Unlock(t.Context())
	restore()
	require.NoError(t, err)
	h := l.next[1].Hold()
	lost := awaitEnd(t, h)
	require.ErrorIs(t, lost, holdfast.ErrLost)
	require.ErrorIs(t, lost, watchdog.ErrGone, "a renewal said so, before its deadline")
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	_, err = p.mutex.Lock(h.Context())
	require.ErrorIs(t, err, holdfast.ErrLost, "a re-entry into a lost hold is no new grant")
	require.True(t, free(t, p.direct, "a"), "it never brings the lock back")
}
