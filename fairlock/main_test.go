package fairlock_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
)

// queued lists the owners in the queue of a name, the next one first.
func queued(t testing.TB, rdb redis.UniversalClient, name string) []string {
	t.Helper()
	list, err := rdb.LRange(context.Background(), "redisson_lock_queue:{"+name+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}
