package fairlock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patience is how long a test waits for what must come, on however slow a machine.
const patience = 20 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, patience, 2*time.Millisecond, what)
}

func newClient(t testing.TB, rdb redis.UniversalClient, opts *holdfast.Options) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(rdb, opts)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

func uniqueName(t testing.TB) string {
	return t.Name() + ":" + strconv.FormatInt(time.Now().UnixNano(), 36)
}

// queued lists the owners in the queue of a name, the next one first.
func queued(t testing.TB, rdb redis.UniversalClient, name string) []string {
	t.Helper()
	list, err := rdb.LRange(context.Background(), "redisson_lock_queue:{"+name+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}
