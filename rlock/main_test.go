package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
	shared     = kindtest.Shared
)

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
