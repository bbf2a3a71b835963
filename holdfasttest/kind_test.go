package holdfasttest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

const stranger = "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11"

// hashOf gives a lock that is a hash to a stranger.
func hashOf(fields ...any) func(t *testing.T, rdb redis.UniversalClient, name string) {
	return func(t *testing.T, rdb redis.UniversalClient, name string) {
		require.NoError(t, rdb.Del(t.Context(), name).Err())
		require.NoError(t, rdb.HSet(t.Context(), name, fields...).Err())
		require.NoError(t, rdb.PExpire(t.Context(), name, time.Hour).Err())
	}
}

type lockOf = func(c *holdfast.Client, name string, o ...holdfast.Option) holdfast.Locker

func of[L holdfast.Locker](newLock func(*holdfast.Client, string, ...holdfast.Option) L) lockOf {
	return func(c *holdfast.Client, name string, o ...holdfast.Option) holdfast.Locker {
		return newLock(c, name, o...)
	}
}

// TestKind: what every kind of lock promises, it promises on the double, in the time of the
// machine.
func TestKind(t *testing.T) {
	for kind, k := range map[string]struct {
		make lockOf
		lose func(t *testing.T, rdb redis.UniversalClient, name string)
	}{
		"rlock":    {of(rlock.New), hashOf(stranger+":47", 1)},
		"fairlock": {of(fairlock.New), hashOf(stranger+":47", 1)},
		"rwlock":   {of(rwlock.New), hashOf("mode", "write", stranger+":47:write", 1)},
		"semaphore": {
			func(c *holdfast.Client, name string, o ...holdfast.Option) holdfast.Locker {
				return semaphore.New(c, name, 1, o...)
			},
			func(t *testing.T, rdb redis.UniversalClient, name string) {
				ends := "{" + name + "}:timeout"
				require.NoError(t, rdb.Del(t.Context(), ends).Err())
				require.NoError(t, rdb.Set(t.Context(), name, 0, time.Hour).Err())
				require.NoError(t, rdb.ZAdd(t.Context(), ends, redis.Z{
					Member: stranger + ":h47", Score: float64(time.Now().Add(time.Hour).UnixMilli()),
				}).Err())
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := holdfasttest.New(t, holdfasttest.AllowHeld(), holdfasttest.StuckAfter(-1))
			i, err := inspect.New(s.Redis(), nil)
			require.NoError(t, err)
			all := s.Inject(holdfasttest.Fault{Times: -1, Delay: time.Nanosecond}) // counts
			kindtest.Run(t, kindtest.Kind{
				Name: kind, Lease: 2 * time.Second, Once: kind == "semaphore",
				Client: func(t *testing.T, opts *holdfast.Options) kindtest.Client {
					c := s.Client(opts)
					return kindtest.Client{
						ID: c.ID(), Close: c.Close,
						New: func(name string, opts ...holdfast.Option) holdfast.Locker { return k.make(c, name, opts...) },
						State: func(ctx context.Context, name string) (holdfast.State, error) {
							return stateOf(ctx, k.make(c, name), s.Redis())
						},
					}
				},
				Waiters: func(t *testing.T, name string) int {
					l, err := i.Lock(t.Context(), name)
					require.NoError(t, err)
					switch {
					case l.Waiters < 0: // without places
						return l.Listening
					case kind == "rwlock":
						return min(l.Waiters, l.Listening)
					}
					return l.Waiters
				},
				Lose: func(t *testing.T, name string) { k.lose(t, s.Redis(), name) },
				Sent: func(t *testing.T) int64 { return int64(all.Hits()) },
			})
		})
	}
}

// stateOf is the state of a lock of any kind.
func stateOf(ctx context.Context, l holdfast.Locker, rdb redis.UniversalClient) (state holdfast.State, err error) {
	var holders []holdfast.Holder
	switch l := l.(type) {
	case *rwlock.RWMutex:
		var s rwlock.State
		s, err = l.State(ctx)
		state.Token, state.Waiters, holders = s.Token, s.Waiters, s.Holders
	case *semaphore.Semaphore:
		var s semaphore.State
		s, err = l.State(ctx)
		state.Waiters, holders = s.Waiters, s.Holders
		state.Token, _ = rdb.Get(context.Background(), "redisson_lock_token:{"+l.Name()+"}").Uint64() // none: 0
	case interface {
		State(ctx context.Context) (holdfast.State, error)
	}:
		return l.State(ctx)
	default:
		return state, errors.New("a kind without a state")
	}
	for _, h := range holders {
		state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
	}
	return state, err
}
