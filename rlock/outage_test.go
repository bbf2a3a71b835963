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
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
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

// TestOutageInTheLocalQueue: who waits behind another one of its client, which cannot reach the
// server, knows what that one knows.
func TestOutageInTheLocalQueue(t *testing.T) {
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
	_, err := m.Lock(t.Context(), holdfast.Wait(20*time.Millisecond))
	unavailable(t, err, syscall.ECONNREFUSED)
	require.False(t, front.Over(), "the one in front has given up")
	cancel()
	unavailable(t, front.Err(), syscall.ECONNREFUSED, context.Canceled)
}

// TestKeptOutByItsOwnClient: who waits behind a holder of its client was kept out by somebody,
// whatever Redis says meanwhile.
func TestKeptOutByItsOwnClient(t *testing.T) {
	p := newProxied(t, nil)
	h := lock(t, p.mutex)
	p.proxy.Silence(true)
	err := refused(t.Context(), t, p.mutex.Lock, holdfast.Wait(20*time.Millisecond))
	require.NotErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "held by "+h.Owner()+"; the holder is of this client: ")
	require.ErrorContains(t, err, "lock under hold.Context()")
	p.proxy.Silence(false)
	unlock(t, h)
}

// TestOutageAfterARefusal: somebody had it, and then the server was gone. Both are told.
func TestOutageAfterARefusal(t *testing.T) {
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
		require.ErrorIs(t, err, is)
		require.ErrorContains(t, err, is.Error())
	}
	unlock(t, h)
}

// TestSpentBudget: who has waited for as long as the retry budget allows is told what the network
// said last, and not of the deadline that ended the last attempt, which is none of the caller's.
func TestSpentBudget(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, ReadTimeout: 100 * time.Millisecond,
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
