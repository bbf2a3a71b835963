package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
)

// TestKind: what every kind of lock promises. The masters are waited for as long as a busy machine
// may need. They are trusted though they were started only now, because the suite leaves locks
// taken for an hour.
func TestKind(t *testing.T) {
	mutex := func(c []*holdfast.Client, name string, opts ...holdfast.Option) *redlock.Mutex {
		trusted := []holdfast.Option{redlock.TrustRestarts(), redlock.MasterTimeout(time.Second)}
		return redlock.New(c, name, append(trusted, opts...)...)
	}
	kindtest.Run(t, kindtest.Kind{Name: "redlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: redistest.StartMasters(t, 3),
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return mutex(c, name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := mutex(c, name).State(ctx)
			return s.State, err
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return mutex(c, name).ForceUnlock(ctx)
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 { // they listen, at some masters
			return kindtest.Listeners(ctx, rdb, channelOf(name))
		},
		Fields: []any{kindtest.Stranger + ":47", 1},
	}))
}
