package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// trio is a multilock of a, b and c on three servers, the second of which is behind a proxy.
type trio struct {
	*testing.T
	direct  [3]*redis.Client
	clients [3]*holdfast.Client
	proxy   *faultproxy.Proxy
	all     *multilock.Mutex
}

var letters = [3]string{"a", "b", "c"}

func newTrio(t *testing.T, opts *holdfast.Options) *trio {
	s := &trio{T: t}
	var locks []holdfast.Locker
	for i, srv := range redistest.StartMasters(t, 3) {
		s.direct[i] = srv.Client(t)
		addr := srv.Addr()
		if i == 1 {
			s.proxy = faultproxy.New(t, addr)
			addr = s.proxy.Addr()
		}
		s.clients[i] = newClient(t, redistest.NewClient(t, addr, func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond }), opts)
		locks = append(locks, rlock.New(s.clients[i], letters[i]))
	}
	s.all = multilock.New(locks[2], locks[0], locks[1])
	return s
}

// held are the names that somebody has.
func (s *trio) held() (all []string) {
	all = []string{}
	for i, rdb := range s.direct {
		all = append(all, taken(s, rdb, letters[i])...)
	}
	return all
}

// deadServer unlocks while the second server cannot be reached, and returns what stays taken of the others.
func deadServer(t *testing.T) (held []string, err error) {
	s := newTrio(t, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	h := lock(t.Context(), t, s.all)
	s.proxy.Stop()
	t.Cleanup(s.proxy.Start)
	err = h.Unlock(t.Context())
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrReleased)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrReleased)
	return append(taken(t, s.direct[0], "a"), taken(t, s.direct[2], "c")...), err
}

// TestADeadServer: one member's server is dead. The others are given back, and the error says which one is not.
func TestADeadServer(t *testing.T) {
	held, err := deadServer(t)
	require.Empty(t, held)
	tells(t, err, holdfast.ErrUnavailable, `multilock: unlock "a, b, c": rlock "b": `)
	require.NotContains(t, err.Error(), "\n")

	// The control: who stops at the first failure, as Redisson does, leaves what follows it taken.
	t.Cleanup(defence.GivesAllBack.Without(t))
	held, err = deadServer(t)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.Equal(t, []string{"c"}, held)
}

// losses are how the member in the middle can be lost.
var losses = map[string]func(t *testing.T, s *trio){
	"forced": func(t *testing.T, s *trio) {
		kindtest.Forced(t, rlock.New(newClient(t, s.direct[1], nil), "b"))
	},
	"deleted":   func(t *testing.T, s *trio) { require.NoError(t, s.direct[1].Del(t.Context(), "b").Err()) },
	"forgotten": func(t *testing.T, s *trio) { require.NoError(t, s.direct[1].FlushAll(t.Context()).Err()) },
	"silent":    func(_ *testing.T, s *trio) { s.proxy.Silence(true) },
}

// TestTheMiddleIsLost: the context ends and says which lock is lost. Unlock gives back the others, and leaves that one alone.
func TestTheMiddleIsLost(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newTrio(t, &holdfast.Options{Lease: 2 * time.Second})
			h := lock(t.Context(), t, s.all)
			lose(t, s)
			cause := ended(t, h)
			tells(t, cause, holdfast.ErrLost, `rlock "b": lock lost`)
			require.False(t, h.Deadline().After(time.Now()))
			require.Equal(t, []string{"a"}, taken(t, s.direct[0], "a"))
			require.Equal(t, []string{"c"}, taken(t, s.direct[2], "c"))
			s.proxy.Silence(false)
			eventually(t, "the lock is free", func() bool { return len(taken(t, s.direct[1], "b")) == 0 })
			next := lock(t.Context(), t, rlock.New(newClient(t, s.direct[1], nil), "b"))
			require.ErrorIs(t, kindtest.Err(s.all.TryLock(h.Context())), holdfast.ErrLost, "no new grant")
			err := h.Unlock(t.Context())
			tells(t, err, holdfast.ErrLost, `rlock "b": `)
			require.NotContains(t, err.Error(), `rlock "a"`)
			require.Equal(t, []string{"b"}, s.held())
			unlock(t, next)
		})
	}
}

// The control: a joined hold that does not follow its members goes on, although one is lost.
func TestTheMiddleIsLostControl(t *testing.T) {
	s := newTrio(t, &holdfast.Options{Lease: 2 * time.Second})
	t.Cleanup(defence.JoinedEnds.Without(t))
	h := lock(t.Context(), t, s.all)
	done := h.Context().Done()
	member := lock(h.Context(), t, rlock.New(s.clients[1], "b"))
	losses["deleted"](t, s)
	eventually(t, "the member's deadline is over", func() bool { return member.Deadline().Before(time.Now()) })
	select {
	case <-done:
		t.Fatal("it ends all the same: the defence is another one")
	default:
	}
	_ = h.Unlock(t.Context())
}

var errGone = errors.New("the caller has gone")

// ends are how a wait for the last of three can end, with what the caller is told.
var ends = map[string]struct {
	end  func(s *trio, cancel context.CancelCauseFunc)
	says []error
	of   string
}{
	"cancelled":         {func(_ *trio, cancel context.CancelCauseFunc) { cancel(errGone) }, []error{holdfast.ErrNotAcquired, errGone}, `"c"`},
	"the first closed":  {closes(0), []error{holdfast.ErrClosed}, ""},
	"the second closed": {closes(1), []error{holdfast.ErrClosed}, ""},
	"the last closed":   {closes(2), []error{holdfast.ErrClosed}, ""},
	"a member lost": {func(s *trio, _ context.CancelCauseFunc) {
		require.NoError(s, s.direct[0].Del(s.Context(), "a").Err())
	}, []error{holdfast.ErrLost}, `rlock "a": lock lost`},
}

func closes(client int) func(*trio, context.CancelCauseFunc) {
	return func(s *trio, _ context.CancelCauseFunc) { require.NoError(s, s.clients[client].Close(s.Context())) }
}

// endedWait waits for the third of three until the wait ends, and returns what is held at that moment.
func endedWait(t *testing.T, how string) (held []string) {
	s := newTrio(t, &holdfast.Options{Lease: 2 * time.Second})
	other := lock(t.Context(), t, rlock.New(newClient(t, s.direct[2], nil), "c"))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	waiting := begin(ctx, t, s.all.Lock)
	listened(t, s.direct[2], "c")
	require.Equal(t, []string{"a", "b", "c"}, s.held())
	ends[how].end(s, cancel)
	err := waiting.Err()
	held = s.held()
	for _, is := range ends[how].says {
		require.ErrorIs(t, err, is)
	}
	require.ErrorContains(t, err, ends[how].of)
	unlock(t, other)
	return held
}

// TestEndedBeforeTheLast: two of three are given back before Lock returns.
func TestEndedBeforeTheLast(t *testing.T) {
	for how := range ends {
		t.Run(how, func(t *testing.T) { require.Equal(t, []string{"c"}, endedWait(t, how)) })
	}
	// The control: without that, they stay taken for as long as the client lives.
	t.Cleanup(defence.AllOrNone.Without(t))
	require.Equal(t, []string{"a", "b", "c"}, endedWait(t, "cancelled"))
}

// TestADeadServerWhileTaking: what was granted is given back before the error.
func TestADeadServerWhileTaking(t *testing.T) {
	s := newTrio(t, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	s.proxy.Stop()
	t.Cleanup(s.proxy.Start)
	for _, take := range []func(context.Context, ...holdfast.Option) (*holdfast.Hold, error){s.all.Lock, s.all.TryLock} {
		tells(t, kindtest.Err(take(t.Context())), holdfast.ErrUnavailable, not(holdfast.ErrNotAcquired), `"b"`)
		require.Empty(t, s.held())
	}
}

// TestWaitHoldsInSilence: a server falls silent for good, and go-redis waits for it for ever. Wait bounds
// the whole call all the same: the questions, and the giving back of what the others have granted.
func TestWaitHoldsInSilence(t *testing.T) {
	for name, silent := range map[string]int{"the first": 0, "the last": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clients [3]*holdfast.Client
			var proxies [3]*faultproxy.Proxy
			var direct [3]*redis.Client
			for i, srv := range redistest.StartMasters(t, 3) {
				direct[i], proxies[i] = srv.Client(t), faultproxy.New(t, srv.Addr())
				rdb := redistest.NewClient(t, proxies[i].Addr(), func(o *redis.Options) { o.ReadTimeout = -1 })
				clients[i] = newClient(t, rdb, &holdfast.Options{RetryBudget: time.Hour})
			}
			var members []holdfast.Locker
			for i, c := range clients { // each has several, which are asked for together
				members = append(members, rlock.New(c, letters[i]+"1"), rlock.New(c, letters[i]+"2"))
			}
			all := multilock.New(members...)
			unlock(t, lock(t.Context(), t, all))
			proxies[silent].Silence(true)
			defer func() { // and its connections end, which nobody else does
				proxies[silent].Silence(false)
				proxies[silent].Stop()
				proxies[silent].Start()
			}()
			waiting := begin(t.Context(), t, all.Lock, holdfast.Wait(300*time.Millisecond))
			require.ErrorIs(t, waiting.Err(), holdfast.ErrUnavailable)
			for i, rdb := range direct {
				if i != silent { // what gets no answer in the time that is left for that goes on in the background
					eventually(t, "what it had is given back", func() bool {
						return len(taken(t, rdb, letters[i]+"1"))+len(taken(t, rdb, letters[i]+"2")) == 0
					})
				}
			}
		})
	}
}

// TestSilenceBehindARefusal: one of the locks is somebody else's, who is waited for, and then the server falls silent.
// The call ends by its Wait, or when its context is cancelled, although what it has cannot be given back: that goes on.
// Otherwise it would end with the retry budget.
func TestSilenceBehindARefusal(t *testing.T) {
	for how, cancels := range map[string]bool{"Wait": false, "cancelled": true} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
			// A question that is under way when its caller is cancelled ends by go-redis's ReadTimeout.
			rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 2 * time.Second })
			c := newClient(t, rdb, &holdfast.Options{RetryBudget: time.Hour})
			h := lock(t.Context(), t, rlock.New(newClient(t, direct, nil), "b"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait := 2 * time.Second
			if cancels {
				wait = time.Hour
			}
			waiting := begin(ctx, t, multilock.New(plain(c, "a", "b")...).Lock, holdfast.Wait(wait))
			eventually(t, "it has the one and waits for the other", func() bool {
				return len(taken(t, direct, "a")) == 1 && kindtest.Listeners(t.Context(), direct, "redisson_lock__channel:{b}") == 1
			})
			proxy.Silence(true)
			defer func() { // and its connections end, which nobody else does
				proxy.Silence(false)
				proxy.Stop()
				proxy.Start()
			}()
			if cancels {
				cancel()
			}
			require.Error(t, waiting.Err())
			unlock(t, h)
		})
	}
}

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
	tells(t, err, errGone, holdfast.ErrUnavailable, `rlock "a": unavailable: `, `rlock "b": unavailable: `)
	err = h.Extend(ctx, time.Minute) // the control: now it had ended before
	tells(t, err, errGone, not(holdfast.ErrUnavailable))
	proxy.Silence(false)
	unlock(t, h)
}
