package topology

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // starting servers is mostly waiting
	redistest.Main(m)
}

// mutex is a lock of a client of its own, which is closed at the end of the test.
func mutex(t *testing.T, rdb redis.UniversalClient, name string) *rlock.Mutex {
	t.Helper()
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return rlock.New(c, name)
}

// within is a context for one step.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// refused lists what the servers refused to the user.
func refused(t *testing.T, top Topology) (entries []any) {
	t.Helper()
	for _, n := range top.Nodes() {
		if log, err := n.Try("ACL", "LOG"); err == nil { // some nodes may be dead
			entries = append(entries, log.([]any)...)
		}
	}
	return entries
}

// TestEveryTopologyStarts, and lets its user do what the library does and nothing else. What locks
// do on it is tested one folder up.
func TestEveryTopologyStarts(t *testing.T) {
	Each(t, All, func(t *testing.T, top Topology) {
		require.Equal(t, t.Name(), "TestEveryTopologyStarts/"+top.Name())
		h, err := mutex(t, top.Connect(t), "name").Lock(within(t))
		require.NoError(t, err)
		require.NoError(t, h.Unlock(within(t)))
		require.Empty(t, refused(t, top), "the rule allows what the library sends")
		require.ErrorContains(t, top.Connect(t).Keys(t.Context(), "*").Err(), "NOPERM")
		require.NotEmpty(t, refused(t, top), "the control: a refusal is seen")
		require.NoError(t, top.Admin(t).Set(t.Context(), "k", "v", time.Minute).Err())
		require.Equal(t, "v", top.Serving(t, "k").Command(t, "GET", "k"))
	})
}
