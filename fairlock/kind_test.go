package fairlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
)

// TestKind: what every kind of lock promises.
func TestKind(t *testing.T) {
	kindtest.Run(t, kindtest.Kind{Name: "fairlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return fairlock.New(c[0], name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			return fairlock.New(c[0], name).State(ctx)
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return fairlock.New(c[0], name).ForceUnlock(ctx)
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return rdb.LLen(ctx, "redisson_lock_queue:{"+name+"}").Val()
		},
		Fields: []any{kindtest.Stranger + ":47", 1},
	}))
}
