package rlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// refusedDials waits, after all other cleanup, until go-redis has noticed that a pool of a refusing server was closed.
func refusedDials(t *testing.T) {
	t.Cleanup(func() {
		eventually(t, "the pool has stopped to dial", func() bool { return kindtest.Goroutines("pool.(*ConnPool).tryDial") == 0 })
	})
}

// unavailable says that nobody said who has the lock, and why.
func unavailable(t *testing.T, err error, causes ...error) {
	tells(t, err, holdfast.ErrUnavailable, not(holdfast.ErrNotAcquired))
	for _, cause := range causes {
		tells(t, err, cause, cause.Error())
	}
}

// TestOutageInTheLocalQueue: a waiter behind another one of its client that cannot reach the server knows what that one knows.
func TestOutageInTheLocalQueue(t *testing.T) {
	t.Parallel()
	refusedDials(t)
	srv := redistest.Start(t)
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	srv.Kill()
	m := rlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: patience}), "a")
	ctx, cancel := context.WithCancel(t.Context())
	front := begin(ctx, t, m.Lock)
	eventually(t, "somebody is in front, and has failed", func() bool {
		_, err := m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	unavailable(t, kindtest.Err(m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))), syscall.ECONNREFUSED)
	require.False(t, front.Over(), "the one in front has given up")
	cancel()
	unavailable(t, front.Err(), syscall.ECONNREFUSED, context.Canceled)
}

// TestKeptOutByItsOwnClient: who waits behind a holder of its client was kept out by somebody, whatever Redis says meanwhile.
func TestKeptOutByItsOwnClient(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	h := lock(t, p.mutex)
	p.proxy.Silence(true)
	err := refused(t.Context(), t, p.mutex.Lock, holdfast.Wait(20*time.Millisecond))
	tells(t, err, not(holdfast.ErrUnavailable), "held by "+h.Owner()+"; the holder is of this client: ")
	require.ErrorContains(t, err, "lock under hold.Context()")
	p.proxy.Silence(false)
	unlock(t, h)
}

// TestOutageAfterARefusal: somebody had it, and then the server was gone. Both are told.
func TestOutageAfterARefusal(t *testing.T) {
	t.Parallel()
	refusedDials(t)
	srv := redistest.Start(t)
	proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
	h := lock(t, rlock.New(newClient(t, direct, nil), "a"))
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	c := newClient(t, rdb, &holdfast.Options{RetryBudget: patience})
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, rlock.New(c, "a").Lock)
	eventually(t, "it waits", func() bool { return subscribers(direct) == 1 })
	twice, failed := make(chan struct{}), atomic.Int64{}
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		err := send()
		if errors.Is(err, syscall.ECONNREFUSED) && cmds[0].Name() == "evalsha" && failed.Add(1) == 2 {
			close(twice)
		}
		return err
	}))
	asked := proxy.On(faultproxy.Command("EVALSHA"), 1, faultproxy.HoldReply)
	require.NoError(t, direct.Publish(t.Context(), "redisson_lock__channel:{a}", 0).Err())
	<-asked.Fired() // it was woken
	proxy.Stop()
	<-twice
	cancel()
	err := left.Err()
	for _, is := range []error{holdfast.ErrNotAcquired, holdfast.ErrUnavailable, context.Canceled,
		syscall.ECONNREFUSED} {
		tells(t, err, is, is.Error())
	}
	unlock(t, h)
}

// TestRenewalsOutliveSilence: four renewals that get no answer are as many as may be under way. They end with the retry
// budget, also where go-redis has no ReadTimeout, and the next ones are sent. Control: they do not end, and the lock is lost.
func TestRenewalsOutliveSilence(t *testing.T) {
	const silent = 4
	renewals := script(lua.Renew)
	begun := func() (*faultproxy.Proxy, *rlock.Mutex) {
		srv := redistest.Start(t)
		kindtest.Load(t, srv.Client(t), lua.Renew)
		proxy := faultproxy.New(t, srv.Addr())
		rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = -1 })
		c := newClient(t, rdb, &holdfast.Options{Lease: 2 * time.Second, RetryBudget: 300 * time.Millisecond})
		for i := range silent {
			proxy.On(renewals, i+1, faultproxy.HoldReply)
		}
		return proxy, rlock.New(c, "a")
	}
	proxy, m := begun()
	h := lock(t, m)
	eventually(t, "renewals go on", func() bool {
		if h.Context().Err() != nil { // on a busy machine
			h = lock(t, m)
		}
		return proxy.Seen(renewals) > silent
	})

	defer defence.AnswerWithin.Without(t)()
	proxy, m = begun()
	require.ErrorIs(t, awaitEnd(t, lock(t, m)), holdfast.ErrLost)
	require.Equal(t, silent, proxy.Seen(renewals), "control")
	proxy.CutAll() // ends them
}

// TestSpentBudget: who has waited for as long as the retry budget allows is told what the network
// said last, and not of the deadline that ended the last attempt, which is none of the caller's.
func TestSpentBudget(t *testing.T) {
	t.Parallel()
	rdb, dials := refusedOnce(t, redis.Options{MaxRetries: -1, DialerRetries: 1})
	c := newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	_, err := rlock.New(c, "a").Lock(t.Context())
	unavailable(t, err, syscall.ECONNREFUSED)
	require.Greater(t, dials.Load(), int64(1))
	tells(t, err, not(context.DeadlineExceeded), "no answer within Options.RetryBudget: ")
}

// TestNoPassword: a server that wants one, or another, is named as such, whichever words it has for a command of this length.
func TestNoPassword(t *testing.T) {
	for _, program := range redistest.Programs(t) {
		srv := redistest.Start(t, redistest.Exec(program.Path))
		admin := srv.Client(t)
		require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "secret").Err())
		c := newClient(t, redistest.NewClient(t, srv.Addr()), &holdfast.Options{RetryBudget: time.Second})
		m := rlock.New(c, "a")
		_, lock := m.Lock(t.Context())
		_, state := m.State(t.Context())
		for _, err := range []error{lock, state} {
			tells(t, err, "the server wants a password, and none was given; set Password", not(holdfast.ErrUnavailable))
		}
		wrong := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.Password = "guess" })
		_, err := rlock.New(newClient(t, wrong, nil), "a").Lock(t.Context())
		tells(t, err, "the server does not know this user with this password", not(holdfast.ErrUnavailable))
	}
}

// TestTryLockAsksOnce: TryLock does not ask a silent server again. Only a connection that was closed is replaced, once.
func TestTryLockAsksOnce(t *testing.T) {
	p := proxiedTo(t, redistest.Start(t), time.Second, nil)
	warm(t, p)
	asked := func(nth int, fault faultproxy.Action) (n int, err error) {
		for n == 0 { // on a busy machine there may be no connection in time
			eventually(t, "what the last one may have got is given back", func() bool { return free(t, p.direct, "a") })
			p.proxy.On(script(lua.Acquire), nth, fault)
			before := p.proxy.Seen(script(lua.Acquire))
			var h *holdfast.Hold
			if h, err = p.mutex.TryLock(t.Context()); err == nil {
				unlock(t, h)
			}
			p.proxy.Clear()
			n = p.proxy.Seen(script(lua.Acquire)) - before
		}
		return n, err
	}
	for _, fault := range []faultproxy.Action{faultproxy.BlackHole, faultproxy.HoldReply} {
		n, err := asked(0, fault)
		require.Error(t, err)
		require.Equal(t, 1, n, fault.String())
	}
	n, err := asked(1, faultproxy.Cut)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = asked(0, faultproxy.Cut)
	require.Error(t, err)
	require.Equal(t, 2, n)
}

// TestBudgetBoundsDials: go-redis takes five DialTimeouts for a connection that is never ready. Nobody waits for that.
func TestBudgetBoundsDials(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var g sync.WaitGroup
	var conns []net.Conn
	g.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c) // never a word
		}
	})
	rdb := redis.NewClient(&redis.Options{
		Addr: ln.Addr().String(), DialTimeout: 10 * time.Minute, ReadTimeout: 100 * time.Millisecond,
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // nobody is there
	})
	c, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: 200 * time.Millisecond})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		if _, err := rlock.New(c, "a").Lock(context.Background()); err == nil {
			t.Error("granted by nobody")
		}
		done <- c.Close(context.Background())
	}()
	select {
	case err = <-done:
	case <-time.After(patience):
		t.Error("Lock and Close wait for go-redis")
	}
	require.NoError(t, ln.Close())
	g.Wait()
	for _, conn := range conns {
		_ = conn.Close()
	}
	require.NoError(t, err, "nothing was sent, so nothing is left")
	require.NoError(t, rdb.Close())
}

// asks are operations that change something, each with the answer to whether that may have happened.
func asks(t *testing.T, rdb *redis.Client) map[string]error {
	m := rlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond}), uniqueName(t))
	_, lock := m.Lock(t.Context())
	_, try := m.TryLock(t.Context())
	_, force := m.ForceUnlock(t.Context())
	return map[string]error{"lock": lock, "try": try, "force unlock": force}
}

// TestRefusedConnectionIsNotUncertain: what was never written to a connection has not happened,
// also if the budget is over in the middle of go-redis's attempts to make one.
func TestRefusedConnectionIsNotUncertain(t *testing.T) {
	t.Parallel()
	rdb, _ := refusedOnce(t, redis.Options{DialerRetries: 2, DialerRetryTimeout: time.Millisecond})
	for op, err := range asks(t, rdb) {
		require.ErrorIs(t, err, holdfast.ErrUnavailable, op)
		require.ErrorContains(t, err, "no answer within Options.RetryBudget", op)
		require.NotErrorIs(t, err, holdfast.ErrUncertain, op)
	}
}

// The control: what was written may have happened.
func TestLostReplyIsUncertain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb, proxy := kindtest.Behind(t, srv.Addr(), patience)
	proxy.On(script(lua.Acquire), 0, faultproxy.DropReply)
	kindtest.Load(t, rdb, lua.Acquire)
	m := rlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond}), uniqueName(t))
	type ask = func(context.Context, ...holdfast.Option) (*holdfast.Hold, error)
	for op, ask := range map[string]ask{"lock": m.Lock, "try": m.TryLock} {
		require.NoError(t, rdb.Ping(t.Context()).Err(), "there is a connection")
		_, err := ask(t.Context())
		require.ErrorIs(t, err, holdfast.ErrUnavailable, op)
		require.ErrorIs(t, err, holdfast.ErrUncertain, op)
	}
}

// TestUnlockBehindAnother: an Unlock whose turn does not come behind an unanswered operation of its owner tells of the outage.
func TestUnlockBehindAnother(t *testing.T) {
	behind := func() bool {
		p := newProxied(t, &holdfast.Options{RetryBudget: 500 * time.Millisecond})
		outer := lock(t, p.mutex)
		inner := take(outer.Context(), t, p.mutex.Lock)
		p.proxy.Silence(true)
		first, second := inner.Unlock(t.Context()), outer.Unlock(t.Context())
		tells(t, first, holdfast.ErrUnavailable, holdfast.ErrUncertain)
		require.ErrorIs(t, second, holdfast.ErrUnavailable)
		p.proxy.Silence(false)
		eventually(t, "it is given back", func() bool { return p.direct.Exists(t.Context(), p.mutex.Name()).Val() == 0 })
		if !strings.Contains(second.Error(), "another operation of the same owner") {
			return false // on a busy machine that has been given up before
		}
		require.ErrorIs(t, second, holdfast.ErrUncertain)
		return true
	}
	for tries := 1; !behind(); tries++ {
		require.Less(t, tries, 10)
	}
}

// asked is a context that ends when somebody is about to wait for its end.
type asked struct {
	context.Context
	end func()
}

func (a asked) Done() <-chan struct{} {
	a.end()
	return a.Context.Done()
}

// TestBehindAnother: an owner whose context ends before it has its turn has no answer, but is told nothing of a server that
// has just answered.
func TestBehindAnother(t *testing.T) {
	p := proxiedTo(t, redistest.Start(t), patience, nil)
	warm(t, p)
	h := lock(t, p.mutex)
	for op, ask := range map[string]func(ctx context.Context) error{
		"lock":   func(ctx context.Context) error { return kindtest.Err(p.mutex.Lock(ctx)) },
		"extend": func(ctx context.Context) error { return h.Extend(ctx, time.Minute) },
	} {
		kept := p.proxy.On(script(lua.Recount), 1, faultproxy.HoldReply)
		inner := begin(h.Context(), t, p.mutex.Lock)
		<-kept.Fired()
		ctx, cancel := context.WithCancel(h.Context())
		err := ask(asked{ctx, cancel})
		unavailable(t, err, context.Canceled)
		tells(t, err, not(holdfast.ErrUncertain), "another operation of the same owner is still under way")
		require.NotContains(t, err.Error(), "no answer", op)
		kept.Release()
		unlock(t, inner.Hold())
	}
	unlock(t, h)
}

//go:noinline
func lockHere(t *testing.T, m *rlock.Mutex) { unlock(t, lock(t, m)) }

// TestPromptServersNeedNoGoroutine: a lock is asked for in the goroutine of its caller while the
// server answers promptly, and in another one behind an answer that was late.
func TestPromptServersNeedNoGoroutine(t *testing.T) {
	p := newProxied(t, nil)
	here, elsewhere := 0, 0 // locks that were asked for in the goroutine of lockHere, and in another one
	rdb := redistest.NewClient(t, p.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if args := cmds[0].Args(); len(cmds) == 1 && len(args) > 1 && args[1] == lua.Acquire.Hash() {
			if strings.Contains(string(debug.Stack()), "rlock_test.lockHere(") {
				here++
			} else {
				elsewhere++
			}
		}
		return send()
	}))
	m := rlock.New(newClient(t, rdb, nil), "a")
	lockHere(t, m)
	require.Zero(t, here, "nothing is known of the server yet")
	eventually(t, "the server answers promptly", func() bool { lockHere(t, m); return here > 0 })

	late := p.proxy.DelayReply(script(lua.Release), 0, 50*time.Millisecond)
	lockHere(t, m)
	before := elsewhere
	lockHere(t, m)
	require.Equal(t, before+1, elsewhere)
	require.Equal(t, 2, late.Count())
}

// inAStall reports whether somebody leaves, within a time, who comes when the server has been silent
// for a while. One who asked in the moment before sits in a read that does not end.
func inAStall(t *testing.T, within time.Duration) (leaves bool) {
	p := newProxied(t, nil)
	rdb := redistest.NewClient(t, p.proxy.Addr(), func(o *redis.Options) {
		o.ReadTimeout, o.MinIdleConns = 10*patience, 3
	})
	client := newClient(t, rdb, nil)
	asked := script(lua.Acquire)
	// ask locks a name, is cancelled when the proxy has swallowed that, and says when it has left
	ask := func(name string) <-chan error {
		ctx, cancel := context.WithCancel(t.Context())
		before, left := p.proxy.Seen(asked), make(chan error, 1)
		go func() {
			_, err := rlock.New(client, name).Lock(ctx)
			left <- err
		}()
		eventually(t, "it is asked for", func() bool { return p.proxy.Seen(asked) > before })
		cancel()
		return left
	}
	eventually(t, "the server answers promptly, over several connections", func() bool {
		h := lock(t, rlock.New(client, "warm"))
		start := time.Now()
		unlock(t, h)
		return time.Since(start) < 5*time.Millisecond && rdb.PoolStats().IdleConns >= 3
	})
	p.proxy.On(asked, 0, faultproxy.BlackHole)
	first, start := ask("first"), time.Now()
	eventually(t, "it is overdue", func() bool { return time.Since(start) > 20*time.Millisecond })
	late := ask("late")
	waiting := []<-chan error{first}
	select {
	case err := <-late:
		require.ErrorIs(t, err, context.Canceled)
		leaves = true
	case <-time.After(within):
		waiting = append(waiting, late)
	}
	p.proxy.Clear()
	p.proxy.CutAll()
	for _, left := range waiting {
		require.ErrorIs(t, <-left, context.Canceled)
	}
	return leaves
}

func TestWhoComesInAStallLeaves(t *testing.T) {
	require.True(t, inAStall(t, patience))
	// The control: where nobody notices the stall, everybody sits in a read.
	defer defence.Overdue.Without(t)()
	require.False(t, inAStall(t, 500*time.Millisecond))
}
