package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var take, unlock, begin, refused, ended = kindtest.Take, kindtest.Unlock, kindtest.Begin, kindtest.Refused, kindtest.Ended

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	tells, not = kindtest.Tells, kindtest.Not
)

// shared makes a client of the library on the package's server.
func shared(t testing.TB) (*holdfast.Client, *redis.Client) { return kindtest.Shared(t, nil) }

// names are lock names that no other test uses, in their order: each with one of these letters.
func names(t testing.TB, letters string) (all []string) {
	prefix := kindtest.UniqueName(t) + ":"
	for _, letter := range letters {
		all = append(all, prefix+string(letter))
	}
	return all
}

// plain makes plain locks of names.
func plain(c *holdfast.Client, names ...string) (all []holdfast.Locker) {
	for _, name := range names {
		all = append(all, rlock.New(c, name))
	}
	return all
}

// taken are the names that somebody has in Redis.
func taken(t testing.TB, rdb redis.UniversalClient, names ...string) []string {
	all := []string{}
	for _, name := range names {
		n, err := rdb.Exists(context.Background(), name).Result()
		require.NoError(t, err)
		if n > 0 {
			all = append(all, name)
		}
	}
	return all
}

// count is how often an owner has entered a lock in Redis.
func count(t testing.TB, rdb redis.UniversalClient, name, owner string) string {
	n, _ := rdb.HGet(t.Context(), name, owner).Result()
	return n
}

func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

// listened waits until somebody listens for the release of a lock.
func listened(t *testing.T, rdb *redis.Client, name string) {
	eventually(t, "a subscriber", func() bool { return kindtest.Listeners(t.Context(), rdb, channelOf(name)) > 0 })
}

// lock takes a lock that is free, or about to be.
func lock(ctx context.Context, t *testing.T, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	return take(ctx, t, l.Lock, opts...)
}

// TestKind: what every kind of lock promises, of the lock that has one member. It is as good a lock as its member is.
func TestKind(t *testing.T) {
	kindtest.Run(t, kindtest.Kind{Name: "multilock", Members: "rlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return multilock.New(rlock.New(c[0], name, opts...))
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			return rlock.New(c[0], name).State(ctx)
		},
		Fields: []any{kindtest.Stranger + ":47", 1},
	}))
}
