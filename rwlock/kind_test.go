package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
)

// TestKind: what every kind of lock promises. A read-write lock is one by its side to write.
func TestKind(t *testing.T) {
	kindtest.Run(t, kindtest.Kind{Name: "rwlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return rwlock.New(c[0], name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := rwlock.New(c[0], name).State(ctx)
			state := holdfast.State{Token: s.Token, Waiters: s.Waiters}
			for _, h := range s.Holders {
				state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
			}
			return state, err
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return rwlock.New(c[0], name).ForceUnlock(ctx)
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			// The first attempt brings a place. Who listens has had the answer.
			return min(rdb.ZCard(ctx, "holdfast_rwlock_writers:{"+name+"}").Val(),
				kindtest.Listeners(ctx, rdb, "redisson_rwlock:{"+name+"}"))
		},
		Fields: []any{"mode", "write", kindtest.Stranger + ":47:write", 1},
	}))
}
