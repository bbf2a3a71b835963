package multilock_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
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
	t.Helper()
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
	t.Helper()
	n, _ := rdb.HGet(context.Background(), name, owner).Result()
	return n
}

// listened waits until somebody listens for the release of a lock.
func listened(t *testing.T, rdb *redis.Client, name string) {
	t.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	eventually(t, "a subscriber of "+channel, func() bool {
		return rdb.PubSubNumSub(context.Background(), channel).Val()[channel] > 0
	})
}
