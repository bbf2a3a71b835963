package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

var take, unlock, begin, refused, ended = kindtest.Take, kindtest.Unlock, kindtest.Begin, kindtest.Refused, kindtest.Ended

// lock takes a lock that is free, or about to be.
func lock(ctx context.Context, t *testing.T, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	t.Helper()
	return take(ctx, t, l.Lock, opts...)
}

// TestKind: what every kind of lock promises, of the lock that has one member. It is as good a lock
// as its member is.
func TestKind(t *testing.T) {
	kindtest.Run(t, kindtest.Kind{Name: "multilock", Members: "rlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return multilock.New(rlock.New(c[0], name, opts...))
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			return rlock.New(c[0], name).State(ctx)
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return kindtest.Listeners(ctx, rdb, "redisson_lock__channel:{"+name+"}")
		},
		Fields: []any{kindtest.Stranger + ":47", 1},
	}))
}
