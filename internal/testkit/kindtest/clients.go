package kindtest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// The packages of the kinds have what is in this file under short names, in their main_test.go.

// Patience is how long a test waits for what must come, on however slow a machine.
const Patience = 20 * time.Second

// Eventually waits for a condition; a test that needs it to hold says so with what.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, Patience, 2*time.Millisecond, what)
}

// NewClient makes a client of the library on a Redis client, closed at the end of the test.
func NewClient(t testing.TB, rdb redis.UniversalClient, opts *holdfast.Options) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(rdb, opts)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

// Shared makes a client of the library on the package's server.
func Shared(t testing.TB, opts *holdfast.Options) (*holdfast.Client, *redis.Client) {
	t.Helper()
	rdb := redistest.Shared(t).Client(t)
	return NewClient(t, rdb, opts), rdb
}

// names counts what UniqueName has given out.
var names atomic.Int64

// UniqueName is a lock name that no other test uses, nor the same one when it runs again. A count is
// enough: no server is shared with another process.
func UniqueName(t testing.TB) string { return fmt.Sprintf("%s:%d", t.Name(), names.Add(1)) }
