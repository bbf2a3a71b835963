package rlock_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// refusedDials waits, when all else of the test is cleaned up, for go-redis: a pool whose server
// refuses connections notices within a second that it was closed.
func refusedDials(t *testing.T) {
	t.Cleanup(func() {
		eventually(t, "the pool has stopped to dial", func() bool {
			stacks := make([]byte, 4<<20)
			return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "pool.(*ConnPool).tryDial")
		})
	})
}

// refusing is a client of a server that refuses connections. It is for a bubble: however slow the machine,
// a refusal comes before a time limit is over.
func refusing(t *testing.T) *holdfast.Client {
	t.Cleanup(func() { <-time.After(2 * time.Second) }) // the pool notices within one that it was closed
	rdb := redistest.NewClient(t, "127.0.0.1:1", func(o *redis.Options) {
		o.MaxRetries, o.DialerRetries = -1, 1
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
	})
	return newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
}

// unavailable says that nobody said who has the lock, and why.
func unavailable(t *testing.T, err error, causes ...error) {
	t.Helper()
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
	for _, cause := range causes {
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, cause.Error())
	}
}

// TestOutageIsNoContention: where no server can be reached, no operation says that somebody has the
// lock, and all say what went wrong: those that try once, those whose wait or context is over
// first, and those whose retry budget is.
func TestOutageIsNoContention(t *testing.T) { synctest.Test(t, outageIsNoContention) }

func outageIsNoContention(t *testing.T) {
	const refused = syscall.ECONNREFUSED
	c := refusing(t)
	m := rlock.New(c, "a")
	_, err := m.TryLock(t.Context())
	unavailable(t, err, refused)
	_, err = m.Lock(t.Context())
	unavailable(t, err, refused)
	_, err = m.Lock(t.Context(), holdfast.Wait(50*time.Millisecond))
	unavailable(t, err, refused)
	require.ErrorContains(t, err, "waited as long as Wait allows")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = m.Lock(ctx)
	unavailable(t, err, refused, context.DeadlineExceeded)
	<-ctx.Done()
	_, err = m.Lock(ctx) // which had ended before anything was asked
	unavailable(t, err, context.DeadlineExceeded)
	_, err = m.State(t.Context())
	unavailable(t, err, refused)
	_, err = m.ForceUnlock(t.Context())
	unavailable(t, err, refused)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = m.State(ctx)
	unavailable(t, err, refused, context.DeadlineExceeded)
}

// TestOutageIsNoContentionControl: without the difference it looks as if somebody had the lock.
func TestOutageIsNoContentionControl(t *testing.T) {
	defer defence.Outage.Without(t)()
	synctest.Test(t, func(t *testing.T) {
		_, err := rlock.New(refusing(t), "a").Lock(t.Context(), holdfast.Wait(50*time.Millisecond))
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NotErrorIs(t, err, holdfast.ErrUnavailable)
	})
}

// TestOutageInTheLocalQueue: who waits behind another one of its client, which cannot reach the
// server, knows what that one knows.
func TestOutageInTheLocalQueue(t *testing.T) {
	c := newClientThatPersists(t)
	m := rlock.New(c, "a")
	ctx, cancel := context.WithCancel(t.Context())
	front := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		front <- err
	}()
	eventually(t, "somebody is in front, and has failed", func() bool {
		_, err := m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	_, err := m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))
	unavailable(t, err, syscall.ECONNREFUSED)
	select {
	case err := <-front:
		t.Fatal("the one in front has given up: ", err)
	default:
	}
	cancel()
	unavailable(t, <-front, syscall.ECONNREFUSED, context.Canceled)
}

func newClientThatPersists(t *testing.T) *holdfast.Client {
	refusedDials(t)
	srv := redistest.Start(t)
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	srv.Kill()
	return newClient(t, rdb, &holdfast.Options{RetryBudget: patience})
}

// TestKeptOutByItsOwnClient: who waits behind a holder of its client was kept out by somebody,
// whatever Redis says meanwhile.
func TestKeptOutByItsOwnClient(t *testing.T) {
	p := newProxied(t, nil)
	h, err := p.mutex.Lock(t.Context())
	require.NoError(t, err)
	p.proxy.Silence(true)
	_, err = p.mutex.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NotErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "held by "+h.Owner()+"; the holder is of this client: ")
	require.ErrorContains(t, err, "lock under hold.Context()")
	p.proxy.Silence(false)
	require.NoError(t, h.Unlock(t.Context()))
}

// failures tells that two commands were refused a connection: what came of the first one is known by then.
type failures struct {
	twice chan struct{}
	n     atomic.Int64
}

func (f *failures) DialHook(next redis.DialHook) redis.DialHook { return next }
func (f *failures) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if errors.Is(err, syscall.ECONNREFUSED) && cmd.Name() == "evalsha" && f.n.Add(1) == 2 {
			close(f.twice)
		}
		return err
	}
}
func (f *failures) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestOutageAfterARefusal: somebody had it, and then the server was gone. Both are told.
func TestOutageAfterARefusal(t *testing.T) {
	refusedDials(t)
	srv := redistest.Start(t)
	proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
	h, err := rlock.New(newClient(t, direct, nil), "a").Lock(t.Context())
	require.NoError(t, err)
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	c := newClient(t, rdb, &holdfast.Options{RetryBudget: patience})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := rlock.New(c, "a").Lock(ctx)
		left <- err
	}()
	eventually(t, "it waits", func() bool { return subscribers(direct) == 1 })
	f := &failures{twice: make(chan struct{})}
	rdb.AddHook(f)
	asked := proxy.On(faultproxy.Command("EVALSHA"), 1, faultproxy.HoldReply)
	require.NoError(t, direct.Publish(t.Context(), "redisson_lock__channel:{a}", 0).Err())
	<-asked.Fired() // it was woken
	proxy.Stop()
	<-f.twice
	cancel()
	err = <-left
	for _, is := range []error{holdfast.ErrNotAcquired, holdfast.ErrUnavailable, context.Canceled,
		syscall.ECONNREFUSED} {
		require.ErrorIs(t, err, is)
		require.ErrorContains(t, err, is.Error())
	}
	require.NoError(t, h.Unlock(t.Context()))
}

// TestSpentBudget: who has waited for as long as the retry budget allows is told what the network
// said last, and not of the deadline that ended the last attempt, which is none of the caller's.
func TestSpentBudget(t *testing.T) {
	over := make(chan struct{})
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				<-over // as of a server that drops packets
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
	})
	refusedDials(t)
	t.Cleanup(func() { close(over); _ = rdb.Close() })
	c := newClient(t, rdb, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	_, err := rlock.New(c, "a").Lock(t.Context())
	unavailable(t, err, syscall.ECONNREFUSED)
	require.Greater(t, dials.Load(), int64(1))
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no answer within Options.RetryBudget and, for the last attempt, ReadTimeout of go-redis: ")
}

// TestNoPassword: a server that wants one, or another, is named as such, whichever words it has for
// a command of this length.
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
			require.ErrorContains(t, err, "the server wants a password, and none was given; set Password")
			require.NotErrorIs(t, err, holdfast.ErrUnavailable)
		}
		wrong := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.Password = "guess" })
		_, err := rlock.New(newClient(t, wrong, nil), "a").Lock(t.Context())
		require.ErrorContains(t, err, "the server does not know this user with this password")
		require.NotErrorIs(t, err, holdfast.ErrUnavailable)
	}
}
