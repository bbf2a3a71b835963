package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

var lock, take, unlock, refused = kindtest.Lock, kindtest.Take, kindtest.Unlock, kindtest.Refused

// TestKind: what every kind of lock promises. A semaphore of one permit is one.
func TestKind(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	ends := func(name string) string { return "{" + name + "}:timeout" }
	kindtest.Run(t, kindtest.Kind{Name: "semaphore", Lease: 2 * time.Second, Once: true}.On(t, kindtest.Servers{
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
			pipe.ZAdd(ctx, ends(name), redis.Z{Member: kindtest.Stranger + ":h47", Score: float64(time.Now().Add(time.Hour).UnixMilli())})
			_, err := pipe.Exec(ctx)
			return err
		},
	}))
}
