package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// The public API that users' code compiles against. A change that does not compile here breaks them.
var (
	_ func(redis.UniversalClient, *holdfast.Options) (*holdfast.Client, error) = holdfast.New
	_ func(*holdfast.Client) string                                            = (*holdfast.Client).ID
	_ func(*holdfast.Client, context.Context) error                            = (*holdfast.Client).Close

	_ = holdfast.Options{Lease: time.Duration(0), Logger: (*slog.Logger)(nil), Label: ""}

	_ func(*holdfast.Hold) context.Context                                                                        = (*holdfast.Hold).Context
	_ func(*holdfast.Hold, context.Context) error                                                                 = (*holdfast.Hold).Unlock
	_ func(*holdfast.Hold, context.Context) error                                                                 = (*holdfast.Hold).UnlockNow
	_ func(*holdfast.Hold) uint64                                                                                 = (*holdfast.Hold).Token
	_ func(*holdfast.Hold) string                                                                                 = (*holdfast.Hold).Owner
	_ func(*holdfast.Hold) int                                                                                    = (*holdfast.Hold).Count
	_ func(*holdfast.Hold) time.Time                                                                              = (*holdfast.Hold).Deadline
	_ func(*holdfast.Hold, context.Context, time.Duration) error                                                  = (*holdfast.Hold).Extend
	_ func(time.Duration) holdfast.Option                                                                         = holdfast.Wait
	_ func(time.Duration) holdfast.Option                                                                         = holdfast.Lease
	_ func() holdfast.Option                                                                                      = holdfast.NoRenewal
	_ func() holdfast.Option                                                                                      = rlock.RespectStrings
	_ func(time.Duration) holdfast.Option                                                                         = holdfast.HoldAtLeast
	_ func() holdfast.Option                                                                                      = holdfast.ReleaseOnError
	_ func(context.Context, holdfast.Locker) sync.Locker                                                          = holdfast.SyncLocker
	_ func(context.Context) context.Context                                                                       = holdfast.WithOwner
	_ func(context.Context, holdfast.Locker, func(context.Context) error, ...holdfast.Option) error               = holdfast.Do
	_ func(context.Context, holdfast.Locker, func(context.Context) (int, error), ...holdfast.Option) (int, error) = holdfast.DoValue[int]

	_ func(context.Context) (uint64, bool) = fence.Token

	_ = []error{fence.ErrStale}
	_ = []error{holdfast.ErrNotAcquired, holdfast.ErrLost, holdfast.ErrReleased, holdfast.ErrClosed,
		holdfast.ErrUnavailable}
	_ = holdfast.Error{Op: "", Kind: "", Name: "", Err: error(nil)}
	_ = holdfast.State{Owner: "", Count: 0, Remaining: time.Duration(0), Token: uint64(0), Waiters: 0}

	_ holdfast.Locker                                                 = (*rlock.Mutex)(nil)
	_ func(*holdfast.Client, string, ...holdfast.Option) *rlock.Mutex = rlock.New
	_ func(*rlock.Mutex, context.Context) (holdfast.State, error)     = (*rlock.Mutex).State
	_ func(*rlock.Mutex, context.Context) (bool, error)               = (*rlock.Mutex).ForceUnlock

	_ holdfast.Locker                                                     = (*redlock.Mutex)(nil)
	_ func([]*holdfast.Client, string, ...holdfast.Option) *redlock.Mutex = redlock.New
	_ func(*redlock.Mutex, context.Context) (redlock.State, error)        = (*redlock.Mutex).State
	_ func(*redlock.Mutex, context.Context) (bool, error)                 = (*redlock.Mutex).ForceUnlock
	_                                                                     = redlock.State{State: holdfast.State{}, Masters: []redlock.MasterState(nil)}
	_ func(time.Duration) holdfast.Option                                 = redlock.MasterTimeout
	_ func() holdfast.Option                                              = redlock.TrustRestarts
)

// The defaults that users read are those that work.
var (
	_ = [1]struct{}{}[holdfast.DefaultLease-engine.DefaultLease]
	_ = [1]struct{}{}[holdfast.DefaultRetryBudget-engine.DefaultRetryBudget]
	_ = [1]struct{}{}[holdfast.DefaultLinger-engine.DefaultLinger]
	_ = [1]struct{}{}[holdfast.DefaultLongWait-engine.DefaultLongWait]
	_ = map[bool]bool{false: true, holdfast.NoLabel == engine.NoLabel: true} // a constant key twice does not compile
)

func TestMain(m *testing.M) { redistest.Main(m) }

var errNoServer = errors.New("there is no server")

// unreachable is a go-redis client that counts its attempts to reach a server, in vain.
func unreachable(t *testing.T) (*redis.Client, *atomic.Int64) {
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errNoServer
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, &dials
}

// fault is what is wrong with a duration of an argument: its name, and the remedy that the error must give; empty if nothing.
type fault struct{ field, remedy string }

func faultOfLease(field string, d time.Duration) *fault {
	switch {
	case d < 4*time.Millisecond:
		return &fault{field, "at least 4ms"}
	case d > math.MaxInt64-time.Millisecond:
		return &fault{field, "at most"}
	}
	return nil
}

// refused checks that an error says what is wrong: the field, the value and the remedy.
func (f *fault) refused(t *testing.T, err error, value time.Duration) {
	t.Helper()
	if !errors.Is(err, holdfast.ErrInvalid) {
		t.Fatalf("%s %v: %v", f.field, value, err)
	}
	for _, part := range []string{f.field + " is", value.String(), f.remedy} {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("%s %v: %q does not say %q", f.field, value, err, part)
		}
	}
}

// extremes are durations at which something changes or overflows.
var extremes = []time.Duration{
	math.MinInt64, -1, 0, 1, time.Millisecond, 4*time.Millisecond - 1, 4 * time.Millisecond, time.Hour, 1 << 53,
	math.MaxInt64 / 2,
	math.MaxInt64 - time.Millisecond, math.MaxInt64 - time.Millisecond + 1, math.MaxInt64,
}

// FuzzOptions: New returns a client, or an error with the remedy; it sends nothing and leaves the caller's struct alone.
func FuzzOptions(f *testing.F) {
	for _, d := range extremes {
		f.Add(int64(d), int64(0), int64(0))
		f.Add(int64(time.Second), int64(d), int64(0))
		f.Add(int64(0), int64(time.Second), int64(d))
	}
	f.Fuzz(func(t *testing.T, lease, budget, linger int64) {
		opts := holdfast.Options{
			Lease: time.Duration(lease), RetryBudget: time.Duration(budget), Linger: time.Duration(linger),
		}
		before := opts
		rdb, dials := unreachable(t)
		client, err := holdfast.New(rdb, &opts)
		if opts != before || dials.Load() != 0 {
			t.Fatalf("options %+v became %+v, %d dials", before, opts, dials.Load())
		}
		bad, value := faultOfLease("Options.Lease", opts.Lease), opts.Lease
		switch {
		case lease != 0 && bad != nil:
		case budget < 0:
			bad, value = &fault{"Options.RetryBudget", "positive duration"}, opts.RetryBudget
		case linger < 0:
			bad, value = &fault{"Options.Linger", "positive duration"}, opts.Linger
		default:
			bad = nil
		}
		if bad != nil {
			bad.refused(t, err, value)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Close(context.Background()); err != nil || dials.Load() != 0 {
			t.Fatalf("close: %v, %d dials", err, dials.Load())
		}
	})
}

// TestText: what is printed or logged says what it is, and not what its struct looks like.
func TestText(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	c, err := holdfast.New(rdb, &holdfast.Options{Label: "billing@host-7"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	m := rlock.New(c, "a\nb")
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	logged := func(v any) string {
		out := new(bytes.Buffer)
		slog.New(slog.NewTextHandler(out, nil)).Info("x", "v", v)
		_, attrs, _ := strings.Cut(strings.TrimSpace(out.String()), "msg=x ")
		return attrs
	}
	owner := h.Owner()
	require.Equal(t, fmt.Sprintf(`rlock "a\nb", token %d, owner %s`, h.Token(), owner), fmt.Sprint(h))
	require.Equal(t, fmt.Sprintf(`v.kind=rlock v.name="\"a\\nb\"" v.token=%d v.owner=%s v.count=1`, h.Token(), owner), logged(h))
	require.Equal(t, "client "+c.ID()+" (billing@host-7)", fmt.Sprint(c))
	require.Equal(t, "v.id="+c.ID()+" v.label=billing@host-7", logged(c))
	state, err := m.State(t.Context())
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`^held by %s, [0-9.]+s left, token %d$`, owner, h.Token()), fmt.Sprint(state))
	require.Contains(t, logged(state), "v.owner="+owner+" v.count=1 v.remaining=")
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, fmt.Sprintf(`rlock "a\nb", token %d, owner %s: already unlocked`, h.Token(), owner), fmt.Sprint(h))

	var none *holdfast.Hold
	var nobody *holdfast.Client
	require.Equal(t, "no hold no hold no client no client", fmt.Sprint(none, " ", &holdfast.Hold{}, " ", nobody, " ", &holdfast.Client{}))
	require.Equal(t, "v=\"no hold\"", logged(none))
	require.Equal(t, "free", fmt.Sprint(holdfast.State{Waiters: -1}))
	require.Equal(t, "held by x, entered 2 times, without an end, token 7, 3 waiting",
		holdfast.State{Owner: "x", Count: 2, Remaining: -time.Millisecond, Token: 7, Waiters: 3}.String())
}

// TestDoSaysALossOnce: where the function returns the loss, the unlock behind it does not say it again.
func TestDoSaysALossOnce(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	lose := func(ctx context.Context, h *holdfast.Hold) {
		require.NoError(t, rdb.Del(ctx, "lost").Err())
		require.ErrorIs(t, h.Extend(context.Background(), time.Minute), holdfast.ErrLost)
	}
	m := rlock.New(c, "lost")
	bad := errors.New("bad")
	for _, returns := range []func(ctx context.Context) error{
		context.Cause,
		func(ctx context.Context) error { return fmt.Errorf("%w: %w", bad, context.Cause(ctx)) },
		func(context.Context) error { return bad },
		func(context.Context) error { return nil },
	} {
		err = holdfast.Do(t.Context(), m, func(ctx context.Context) error {
			h, err := m.Lock(ctx)
			require.NoError(t, err)
			lose(t.Context(), h)
			return returns(ctx)
		})
		require.ErrorIs(t, err, holdfast.ErrLost)
		require.Equal(t, 1, strings.Count(err.Error(), "lock lost"), err.Error())
		require.Contains(t, err.Error(), `rlock: unlock "lost": `)
		var e *holdfast.Error
		require.ErrorAs(t, err, &e)
	}
}
