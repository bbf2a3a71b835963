package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
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

// eventually waits for a condition; a test that needs it to hold says so with what.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, patience, 2*time.Millisecond, what)
}

// newClient makes a client of the library on a Redis client, closed at the end of the test.
func newClient(t testing.TB, rdb redis.UniversalClient, opts *holdfast.Options) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(rdb, opts)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

// shared makes a client of the library on the package's server.
func shared(t testing.TB, opts *holdfast.Options) (*holdfast.Client, *redis.Client) {
	t.Helper()
	rdb := redistest.Shared(t).Client(t)
	return newClient(t, rdb, opts), rdb
}

// uniqueName is a lock name that no other test uses.
func uniqueName(t testing.TB) string {
	return t.Name() + ":" + strconv.FormatInt(time.Now().UnixNano(), 36)
}

// awaitEnd waits until a hold's context ends and returns why.
func awaitEnd(t *testing.T, h *holdfast.Hold) error {
	t.Helper()
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-time.After(patience):
		t.Fatal("the hold's context does not end")
		return nil
	}
}

// count is an owner's hold count in Redis, 0 if it holds nothing.
func count(t testing.TB, rdb redis.UniversalClient, name, owner string) int {
	t.Helper()
	n, err := rdb.HGet(context.Background(), name, owner).Int()
	if errors.Is(err, redis.Nil) {
		return 0
	}
	require.NoError(t, err)
	return n
}

// free reports whether nobody holds the name in Redis.
func free(t testing.TB, rdb redis.UniversalClient, name string) bool {
	t.Helper()
	n, err := rdb.Exists(context.Background(), name).Result()
	require.NoError(t, err)
	return n == 0
}

// queued is how many goroutines wait in the local queues of all clients.
func queued() int {
	stacks := make([]byte, 4<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "queue.(*Ticket).Wait(")
}
