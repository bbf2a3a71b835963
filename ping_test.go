package holdfast_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestPing: it returns nil where locks work, for many callers at the same time, and leaves nothing behind: neither a key nor a
// subscription.
func TestPing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c := kindtest.NewClient(t, rdb, &holdfast.Options{Prefix: "team:", Linger: time.Hour})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range 5 {
				if err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())
	kindtest.Eventually(t, "nobody listens", func() bool { return len(rdb.PubSubChannels(t.Context(), "*").Val()) == 0 })
}

// TestPingWithoutServer: it fails as a lock does, as soon as its context ends.
func TestPingWithoutServer(t *testing.T) {
	t.Parallel()
	rdb, dials := unreachable(t)
	c := kindtest.NewClient(t, rdb, &holdfast.Options{RetryBudget: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.Ping(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, errNoServer)
	require.ErrorContains(t, err, `holdfast: ping "holdfast_ping:`+c.ID())
	require.Positive(t, dials.Load())

	asked := dials.Load()
	require.ErrorIs(t, c.Ping(ctx), context.DeadlineExceeded)
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, c.Ping(t.Context()), holdfast.ErrClosed)
	require.ErrorIs(t, c.Ping(nil), holdfast.ErrInvalid) //nolint:staticcheck // that is the test
	require.ErrorIs(t, new(holdfast.Client).Ping(t.Context()), holdfast.ErrInvalid)
	require.LessOrEqual(t, dials.Load(), asked+1, "nothing was sent: one dial for the subscription may have been under way")
}

// TestPingOfASilentServer: neither a server that stopped nor one that stops in the middle keeps it for longer than its context
// lasts, and what it has begun ends by itself.
func TestPingOfASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := kindtest.NewClient(t, srv.Client(t), &holdfast.Options{RetryBudget: 200 * time.Millisecond})
	require.NoError(t, c.Ping(t.Context()))
	srv.Pause()
	spent := c.Ping(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	left := c.Ping(ctx)
	srv.Resume()
	for _, err := range []error{spent, left} {
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.ErrorContains(t, err, "no answer from "+srv.Addr())
	}
	kindtest.Eventually(t, "it works again", func() bool { return c.Ping(t.Context()) == nil })
	for _, key := range srv.Client(t).Keys(t.Context(), "*").Val() {
		require.LessOrEqual(t, srv.Client(t).PTTL(t.Context(), key).Val(), 10*time.Second, key)
	}
}

// TestPingOfAServerThatStopsInTheMiddle: a caller whose context ends leaves, whichever command has no answer, and though go-redis
// would wait for ever. A hook that panics there panics in the caller.
func TestPingOfAServerThatStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"evalsha", "del"} {
		srv := redistest.Start(t)
		rdb := srv.Client(t, func(o *redis.Options) { o.ReadTimeout = -1 })
		var meet atomic.Pointer[func()]
		rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			if f := meet.Load(); f != nil && cmds[0].Name() == command {
				(*f)()
			}
			return send()
		}))
		c := kindtest.NewClient(t, rdb, &holdfast.Options{RetryBudget: time.Hour})
		require.NoError(t, c.Ping(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		stops := func() { srv.Pause(); cancel() }
		meet.Store(&stops)
		told := make(chan error, 1)
		go func() { told <- c.Ping(ctx) }()
		err := kindtest.Receive(t, command+": it returns", told)
		srv.Resume()
		require.ErrorIs(t, err, context.Canceled, command)
		require.ErrorIs(t, err, holdfast.ErrUnavailable, command)

		panics := func() { panic("a hook") }
		meet.Store(&panics)
		require.PanicsWithValue(t, "a hook", func() { _ = c.Ping(t.Context()) }, command)
		meet.Store(nil)
	}
}

// TestPingOfAReplica: it grants nothing, so it is not fit for locks. The control is the master.
func TestPingOfAReplica(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Command(t, "REPLICAOF", host, port)
	require.NoError(t, kindtest.NewClient(t, master.Client(t), nil).Ping(t.Context()))
	err = kindtest.NewClient(t, replica.Client(t), &holdfast.Options{RetryBudget: 300 * time.Millisecond}).Ping(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, "this server is a replica now; if it stays one, connect to its primary")
	require.NotErrorIs(t, err, holdfast.ErrUncertain)
}

// TestPingPermissions: each permission that it tries is named when it is missing, and what it has begun ends soon. A probe
// that goes on asking does not fill the server's list of refusals. With the smallest rule it works.
func TestPingPermissions(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	if srv.Major() < 7 {
		t.Skip("there are no permissions for channels before Redis 6.2, and other texts before 7")
	}
	const rule = "+evalsha +eval +hlen +hexists +hset +hdel +del +get +set +pexpire +pttl +time +publish +subscribe +unsubscribe +ping " +
		"~holdfast_ping:* ~redisson_lock_token:{holdfast_ping:* ~redisson_lock__channel:{holdfast_ping:* &redisson_lock__channel:{holdfast_ping:*"
	for _, c := range []struct{ without, password, says string }{
		{"", "secret", ""},
		{"", "wrong", "the server does not know this user with this password; check Username and Password in the options of go-redis"},
		{"+evalsha", "secret", "this user lacks a permission; docs/security.md has the rule that it needs"},
		{"+hset", "secret", "this user lacks a permission"},
		{"+pttl", "secret", "this user lacks a permission"}, // a renewal's alone
		{"~holdfast_ping:*", "secret", "this user lacks a permission"},
		{"~redisson_lock_token:{holdfast_ping:*", "secret", "this user lacks a permission"},
		{"~redisson_lock__channel:{holdfast_ping:*", "secret", "this user lacks a permission"},
		{"&redisson_lock__channel:{holdfast_ping:*", "secret", "permit this user to publish on redisson_lock__channel:{holdfast_ping:*"},
		{"+publish", "secret", "permit this user to publish on redisson_lock__channel:{holdfast_ping:*"},
		{"+subscribe", "secret", "cannot listen for releases; permit this user to subscribe to redisson_lock__channel:{holdfast_ping:*"},
	} {
		less := strings.NewReplacer(c.without, "").Replace(rule)
		if c.without == "" {
			less = rule
		}
		srv.Command(t, append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret"}, strings.Fields(less)...)...)
		rdb := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "limited", c.password })
		client := kindtest.NewClient(t, rdb, nil)
		srv.Command(t, "ACL", "LOG", "RESET")
		err := client.Ping(t.Context())
		if c.says == "" {
			require.NoError(t, err, c.without)
			require.Empty(t, srv.Client(t).Keys(t.Context(), "*").Val())
			continue
		}
		require.ErrorContains(t, err, c.says, c.without)
		require.NotErrorIs(t, err, holdfast.ErrUnavailable)
		for _, key := range srv.Client(t).Keys(t.Context(), "*").Val() {
			require.LessOrEqual(t, srv.Client(t).PTTL(t.Context(), key).Val(), 10*time.Second, key)
		}
		refused := deniedObjects(t, srv)
		require.ErrorContains(t, client.Ping(t.Context()), c.says, c.without)
		require.Equal(t, refused, deniedObjects(t, srv), c.without)
		srv.Command(t, "FLUSHALL")
	}
}

// deniedObjects is what permissions were missing for. An entry is for one object, and a second one if it was refused to a
// script and to a command: the subscription is refused while Ping goes on, so it may come after the first list.
func deniedObjects(t *testing.T, srv *redistest.Server) (objects []string) {
	for _, entry := range srv.Command(t, "ACL", "LOG").([]any) {
		fields := entry.([]any)
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == "object" && !slices.Contains(objects, fields[i+1].(string)) {
				objects = append(objects, fields[i+1].(string))
			}
		}
	}
	slices.Sort(objects)
	require.NotEmpty(t, objects, "nothing was refused")
	return objects
}
