package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var lock, take, unlock, refused = kindtest.Lock, kindtest.Take, kindtest.Unlock, kindtest.Refused

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
)

// lab is a semaphore on a server.
type lab struct {
	testing.TB
	srv     *redistest.Server
	rdb     *redis.Client
	name    string
	permits int
}

func newLab(t testing.TB, permits int) *lab {
	srv := redistest.Shared(t)
	return &lab{t, srv, srv.Client(t), uniqueName(t), permits}
}

// process is the semaphore for a client of its own.
func (l *lab) process(opts *holdfast.Options) *semaphore.Semaphore {
	return l.through(l.srv.Client(l.TB), opts)
}

// edited is process with other scripts.
func (l *lab) edited(hooks ...redis.Hook) *semaphore.Semaphore {
	return l.through(kindtest.Hooked(l.srv.Client(l.TB), hooks...), nil)
}

// through is process by a go-redis client of its own.
func (l *lab) through(rdb redis.UniversalClient, opts *holdfast.Options) *semaphore.Semaphore {
	return semaphore.New(newClient(l.TB, rdb, opts), l.name, l.permits)
}

func (l *lab) ends() string  { return "{" + l.name + "}:timeout" }
func (l *lab) queue() string { return "holdfast_semaphore_queue:{" + l.name + "}" }

// waiting waits until so many have places.
func (l *lab) waiting(n int64) {
	eventually(l, "they wait", func() bool { return l.rdb.ZCard(context.Background(), l.queue()).Val() == n })
}

// free is how many permits the server has as free.
func (l *lab) free() int {
	n, err := l.rdb.Get(context.Background(), l.name).Int()
	require.NoError(l, err)
	return n
}

// out is how many permits the server has as granted.
func (l *lab) out() int64 { return l.rdb.ZCard(context.Background(), l.ends()).Val() }

// settled waits until all permits are back and nobody waits.
func (l *lab) settled() {
	eventually(l, "all is given back", func() bool {
		return l.out() == 0 && l.free() == l.permits && l.rdb.ZCard(context.Background(), l.queue()).Val() == 0
	})
}

// acquire asks for n permits in a goroutine.
func (l *lab) acquire(ctx context.Context, s *semaphore.Semaphore, n int, opts ...holdfast.Option) *kindtest.Pending {
	return kindtest.Begin(ctx, l, func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
		return s.Acquire(ctx, n, opts...)
	}, opts...)
}

// some takes n permits that are free.
func (l *lab) some(s *semaphore.Semaphore, n int, opts ...holdfast.Option) *holdfast.Hold {
	return l.acquire(l.Context(), s, n, opts...).Hold()
}

// TestKind: what every kind of lock promises. A semaphore of one permit is one.
func TestKind(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	ends := func(name string) string { return "{" + name + "}:timeout" }
	kindtest.Run(t, kindtest.Kind{Name: "semaphore", Lease: 2 * time.Second, Once: true, Queues: true}.On(t, kindtest.Servers{
		All: []*redistest.Server{srv},
		Key: ends,
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return semaphore.New(c[0], name, 1, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := semaphore.New(c[0], name, 1).State(ctx)
			token, _ := direct.Get(context.Background(), "redisson_lock_token:{"+name+"}").Uint64() // that was granted last
			state := holdfast.State{Waiters: s.Waiters, Token: token}
			for _, h := range s.Holders {
				state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
			}
			return state, err
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return rdb.ZCard(ctx, "holdfast_semaphore_queue:{"+name+"}").Val()
		},
		Give: func(ctx context.Context, rdb *redis.Client, name string) error {
			pipe := rdb.Pipeline()
			pipe.Del(ctx, ends(name))
			pipe.Set(ctx, name, 0, time.Hour)
			pipe.Incr(ctx, "redisson_lock_token:{"+name+"}")
			pipe.ZAdd(ctx, ends(name), redis.Z{Member: kindtest.Stranger + ":h47", Score: float64(time.Now().Add(time.Hour).UnixMilli())})
			_, err := pipe.Exec(ctx)
			return err
		},
	}))
}
