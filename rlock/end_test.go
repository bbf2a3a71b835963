package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestClosedInTheWrongOrder: if go-redis is closed first, error and log say that locks are left, and how to close.
func TestClosedInTheWrongOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for _, held := range []int{0, 1, 700} { // 700: more than travel in one batch
		var log bytes.Buffer
		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
		c, err := holdfast.New(rdb, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		name := uniqueName(t)
		for i := range held {
			_ = lock(t, rlock.New(c, name+strconv.Itoa(i)), holdfast.Lease(time.Minute))
		}
		require.NoError(t, rdb.Close())
		err = c.Close(t.Context())
		require.Equal(t, err, c.Close(t.Context()), "a second call returns the same")
		if held == 0 {
			require.NoError(t, err)
			require.Empty(t, log.String())
			continue
		}
		tells(t, err, redis.ErrClosed, holdfast.ErrUnavailable, map[int]string{1: "1 lock may", 700: "700 locks"}[held])
		tells(t, err, "until their leases end", "close the Holdfast client before the go-redis client: ")
		require.Contains(t, log.String(), "locks not released at close")
	}
}

// TestClosedWithoutAServer: releases that get no answer are told, and without a remedy that would not help.
func TestClosedWithoutAServer(t *testing.T) {
	t.Parallel()
	refusedDials(t)
	srv := redistest.Start(t)
	c, err := holdfast.New(redistest.NewClient(t, srv.Addr(),
		func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }),
		&holdfast.Options{RetryBudget: 500 * time.Millisecond})
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_ = lock(t, rlock.New(c, name))
	}
	srv.Kill()
	err = c.Close(t.Context())
	tells(t, err, holdfast.ErrUnavailable, "2 locks may be left in Redis until their leases end: ")
	require.NotContains(t, err.Error(), "close the Holdfast client")
}

// TestNothingIsLeftWhereNothingWasSent: of a server to which no connection was ever opened neither an operation nor Close
// says that something may have happened there, also if the caller leaves while one is being opened.
func TestNothingIsLeftWhereNothingWasSent(t *testing.T) {
	t.Parallel()
	for op, ask := range map[string]func(context.Context, *holdfast.Client) error{
		"lock":  func(ctx context.Context, c *holdfast.Client) error { return errOf(rlock.New(c, "a").Lock(ctx)) },
		"count": func(ctx context.Context, c *holdfast.Client) error { return errOf(latch.New(c, "a").CountDown(ctx)) },
	} {
		dialled, open := make(chan struct{}, 64), make(chan struct{})
		rdb := redistest.NewClient(t, "holdfast.invalid:1", func(o *redis.Options) {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) {
				dialled <- struct{}{}
				<-open
				return nil, syscall.ECONNREFUSED
			}
		})
		var log bytes.Buffer
		c, err := holdfast.New(rdb, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		told := make(chan error, 1)
		go func() { told <- ask(ctx, c) }()
		kindtest.Receive(t, op+" dials", dialled)
		leave()
		err = kindtest.Receive(t, op+" has left", told)
		require.ErrorIs(t, err, holdfast.ErrUnavailable, op)
		require.NotErrorIs(t, err, holdfast.ErrUncertain, op)
		close(open)
		require.NoError(t, c.Close(t.Context()), op)
		require.Empty(t, log.String(), op)
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestClosedAfterALostUnlock: an Unlock had no answer, and is repeated in the background. Close says that this was in vain.
func TestClosedAfterALostUnlock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 500 * time.Millisecond})
	require.NoError(t, err)
	h := lock(t, rlock.New(c, "a"))
	require.NoError(t, rdb.Close())
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrUnavailable)
	err = c.Close(t.Context())
	tells(t, err, holdfast.ErrUnavailable, holdfast.ErrUncertain)
	require.ErrorContains(t, err,
		"1 lock may be left in Redis until their leases end: close the Holdfast client before the go-redis client: ")
	require.EqualValues(t, 1, srv.Client(t).Exists(t.Context(), "a").Val(), "it is left")
}

// TestCloseAsksASilentServerOnce: Close does not wait again for a server that was silent for the retry budget.
func TestCloseAsksASilentServerOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, time.Second })
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 500 * time.Millisecond})
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_ = lock(t, rlock.New(c, name))
	}
	srv.Pause()
	defer srv.Resume()
	var batches atomic.Int64
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if cmds[0].Name() == "evalsha" {
			batches.Add(1)
		}
		return send()
	}))
	err = c.Close(t.Context())
	tells(t, err, holdfast.ErrUnavailable, holdfast.ErrUncertain)
	require.ErrorContains(t, err, "2 locks may be left in Redis until their leases end: ")
	require.EqualValues(t, 1, batches.Load(), "one batch for both")
}

// TestCloseWithoutReadTimeout: what an Unlock without an answer left to do ends with the retry budget, without ReadTimeout too.
func TestCloseWithoutReadTimeout(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.ReadTimeout = -1 })
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	require.NoError(t, err)
	h := lock(t, rlock.New(c, "a"))
	srv.Pause()
	defer srv.Resume()
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrUnavailable)
	closed := make(chan error, 1)
	go func() { closed <- c.Close(t.Context()) }()
	require.ErrorIs(t, kindtest.Receive(t, "Close returns", closed), holdfast.ErrUnavailable)
}

// TestUnderAnEndedHold: what fails because the hold has ended under whose context it was called names that one's lock.
func TestUnderAnEndedHold(t *testing.T) {
	t.Parallel()
	c, _ := shared(t, nil)
	lock := func(ctx context.Context, name string, opts ...holdfast.Option) *holdfast.Hold {
		return take(ctx, t, rlock.New(c, name).Lock, opts...)
	}
	name := uniqueName(t)
	outer := lock(t.Context(), name+"outer", holdfast.NoRenewal(), holdfast.Lease(2*time.Second))
	inner := lock(outer.Context(), name+"inner")
	require.ErrorIs(t, awaitEnd(t, outer), holdfast.ErrLost)
	another := rlock.New(c, name+"another")
	for _, acquire := range []kindtest.Acquire{another.Lock, another.TryLock, rlock.New(c, name+"inner").Lock} {
		_, err := acquire(inner.Context(), holdfast.Wait(time.Second))
		require.ErrorIs(t, err, holdfast.ErrLost)
		require.ErrorContains(t, err, `the hold of rlock "`+name+`outer", under whose context it was called, has ended: `)
	}
	unlock(t, inner)

	ctx, cancel := context.WithCancel(t.Context())
	h := lock(ctx, name+"cancelled")
	cancel()
	_, err := another.Lock(h.Context())
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "the hold of", "it has not ended")
	unlock(t, h)
}

// TestCloseWithAnEndedContext: Close under an ended context does not wait, and no hold's context lives when it has returned.
func TestCloseWithAnEndedContext(t *testing.T) {
	c, err := holdfast.New(redistest.Shared(t).Client(t), nil)
	require.NoError(t, err)
	name := uniqueName(t)
	var holds []*holdfast.Hold
	for i := range 50 {
		h := lock(t, rlock.New(c, name+strconv.Itoa(i)))
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

// TestContextThatHadEnded: no command was sent, so the error says nothing of a lock or of a server.
func TestContextThatHadEnded(t *testing.T) {
	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	m := rlock.New(c, "a")
	h := lock(t, m)
	under := h.Context()
	unlock(t, h)
	why := errors.New("the request was cancelled")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	other := lock(t, rlock.New(c, "b"))
	srv.ResetStats(t)
	for ctx, cause := range map[context.Context]error{under: holdfast.ErrReleased, cancelled: why} {
		extend := other.Extend(ctx, time.Hour)
		_, lock := m.Lock(ctx, holdfast.Wait(time.Minute))
		_, try := m.TryLock(ctx)
		_, state := m.State(ctx)
		_, force := m.ForceUnlock(ctx)
		for _, err := range []error{lock, try, state, force, extend} {
			tells(t, err, cause, "not sent: "+cause.Error(), not(holdfast.ErrUnavailable), not(holdfast.ErrUncertain))
			require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		}
	}
	require.Empty(t, srv.CommandCalls(t), "nothing was sent")
	unlock(t, other)
}

// closedWhileUnlocking closes a client while the network keeps the release of an Unlock: until Close has begun, or until it has
// returned. It reports whether the lock is free when Close has returned.
func closedWhileUnlocking(t *testing.T, returned bool) bool {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	rdb, proxy := kindtest.Behind(t, srv.Addr(), patience)
	c := newClient(t, rdb, nil)
	m := rlock.New(c, "a")
	h := lock(t, m)
	kept := proxy.DelayRequest(script(lua.Release), 1, time.Hour)
	unlocked, closed := make(chan error, 1), make(chan error, 1)
	go func() { unlocked <- h.Unlock(t.Context()) }()
	<-kept.Fired()
	go func() { closed <- c.Close(t.Context()) }()
	eventually(t, "Close has begun", func() bool {
		_, err := m.State(t.Context())
		return err != nil
	})
	if !returned {
		kept.Release()
	}
	require.NoError(t, <-closed)
	left := free(t, direct, "a")
	kept.Release()
	require.NoError(t, <-unlocked)
	return left
}

// TestCloseWaitsForUnlock: a lock that is being released when its client is closed is free when
// Close returns. Nobody could release it any more where the client of go-redis is closed next.
func TestCloseWaitsForUnlock(t *testing.T) {
	require.True(t, closedWhileUnlocking(t, false))

	// The control: without that it is taken still.
	t.Cleanup(defence.Unlocks.Without(t))
	require.False(t, closedWhileUnlocking(t, true))
}

// handler is a log that does something with each record.
type handler struct {
	slog.Handler
	handle func()
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(context.Context, slog.Record) error { h.handle(); return nil }

// TestPanickingLogger: a log that panics harms nobody.
func TestPanickingLogger(t *testing.T) {
	t.Parallel()
	c, _ := shared(t, &holdfast.Options{Logger: slog.New(handler{slog.DiscardHandler, func() { panic("logger") }})})
	for range 2 {
		h := lock(t, rlock.New(c, uniqueName(t)), holdfast.NoRenewal(), holdfast.Lease(time.Second))
		require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	}
}

// panicky is a hook of go-redis that panics at some calls of one script.
type panicky struct {
	aim   atomic.Pointer[aim]
	owner atomic.Value // whose calls, "" if everybody's
	after atomic.Bool  // the command was sent
}

// aim is a script and how often the hook still panics at it, in one: a background command cannot use up another script's.
type aim struct {
	script *lua.Script
	times  atomic.Int32
}

func (p *panicky) around(send func() error, cmds ...redis.Cmder) (err error) {
	due := func(cmd redis.Cmder) bool {
		a := p.aim.Load()
		owner, _ := p.owner.Load().(string)
		return a != nil && len(cmd.Args()) > 1 && cmd.Args()[1] == a.script.Hash() &&
			(owner == "" || slices.Contains(cmd.Args(), any(owner))) && a.times.Add(-1) >= 0
	}
	panics := slices.ContainsFunc(cmds, due)
	if !panics || p.after.Load() {
		err = send()
	}
	if panics {
		panic("hook")
	}
	return err
}

// at has the hook panic at the next calls of a script.
func (p *panicky) at(s *lua.Script, times int32, after bool) {
	p.after.Store(after)
	a := &aim{script: s}
	a.times.Store(times)
	p.aim.Store(a)
}

func newPanicky(t *testing.T, opts *holdfast.Options) (*panicky, *holdfast.Client, *redis.Client) {
	rdb, p := redistest.Shared(t).Client(t), &panicky{}
	rdb.AddHook(redistest.Around(p.around))
	kindtest.Load(t, rdb, lua.Acquire, lua.Release, lua.Recount, lua.Renew, lua.Pass)
	return p, newClient(t, rdb, opts), rdb
}

// TestPanickingHook: a hook panics, before a command was sent or after it. The panic is its
// caller's, and the lock is nobody's a moment later: not in Redis, not in this client.
func TestPanickingHook(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"": context.Background(), ", in a goroutine": cancelled} {
		for _, after := range []bool{false, true} {
			p, c, rdb := newPanicky(t, &holdfast.Options{Lease: time.Hour})
			m := rlock.New(c, uniqueName(t))
			lock := func() *holdfast.Hold { return take(ctx, t, m.Lock) }
			panics := func(what string, s *lua.Script, owner string, f func()) {
				p.owner.Store(owner) // else it may be a release that gives back the first lock, once more
				p.at(s, 1, after)
				require.PanicsWithValue(t, "hook", f, what+name)
			}
			panics("lock", lua.Acquire, "", func() { _, _ = m.Lock(ctx) })
			h := lock()
			require.Equal(t, 1, h.Count())
			panics("re-entry", lua.Recount, h.Owner(), func() { _, _ = m.Lock(withOwner(ctx, h)) })
			inner := take(h.Context(), t, m.Lock)
			require.Equal(t, 2, inner.Count())
			panics("unlock of the inner one", lua.Recount, h.Owner(), func() { _ = inner.Unlock(ctx) })
			panics("extend", lua.Renew, h.Owner(), func() { _ = h.Extend(ctx, time.Hour) })
			panics("unlock", lua.Release, h.Owner(), func() { _ = h.Unlock(ctx) })
			next := lock()
			require.Greater(t, next.Token(), h.Token())
			waits := begin(ctx, t, m.Lock)
			eventually(t, "queued", func() bool { return queued() == 1 })
			panics("unlock of who was handed it", lua.Release, "nobody", func() {
				_ = next.Unlock(ctx)
				if w := waits.Hold(); w != nil {
					p.owner.Store(w.Owner())
					_ = w.Unlock(ctx)
				}
			})
			eventually(t, "free", func() bool { return free(t, rdb, m.Name()) })
		}
	}
}

// withOwner is a context with the owner of a hold.
func withOwner(ctx context.Context, h *holdfast.Hold) context.Context {
	if ctx.Done() == nil {
		return context.WithoutCancel(h.Context())
	}
	return h.Context()
}

// TestPanickingHookControl: the same with the panic let through at once: who comes next waits for a place that nobody has.
func TestPanickingHookControl(t *testing.T) {
	p, c, rdb := newPanicky(t, nil)
	m := rlock.New(c, uniqueName(t))
	restore := defence.Panics.Without(t)
	p.at(lua.Acquire, 1, false)
	require.PanicsWithValue(t, "hook", func() { _, _ = m.Lock(context.Background()) })
	restore()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := begin(ctx, t, m.Lock)
	eventually(t, "queued", func() bool { return queued() == 1 })
	require.True(t, free(t, rdb, m.Name()))
	cancel()
	require.ErrorIs(t, waits.Err(), context.Canceled)
}

// TestPanicInTheBackground: without a caller a panic is a failure: renewals are repeated, and an abandoned lock is given back.
func TestPanicInTheBackground(t *testing.T) {
	const lease = 3 * time.Second
	p, c, rdb := newPanicky(t, &holdfast.Options{Lease: lease})
	m := rlock.New(c, uniqueName(t))
	h := lock(t, m)
	p.at(lua.Renew, 2, false)
	end := h.Deadline()
	eventually(t, "renewed", func() bool { return h.Deadline().After(end) && p.aim.Load().times.Load() <= 0 })
	require.NoError(t, h.Context().Err())
	p.at(lua.Release, 3, false)
	require.PanicsWithValue(t, "hook", func() { _ = h.Unlock(t.Context()) })
	eventually(t, "given back", func() bool { return free(t, rdb, m.Name()) })
}
