package holdfast_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestReplicaGrantsNothing: a replica shows who has a lock, and will never grant it. Who asks there, or waits, is told that it
// is one, and not that somebody has the lock. The control is the master.
func TestReplicaGrantsNothing(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Command(t, "REPLICAOF", host, port)
	near, far := master.Client(t), replica.Client(t)
	for name, lock := range map[string]func(c *holdfast.Client, name string) holdfast.Locker{
		"rlock": func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
		"beside": func(c *holdfast.Client, name string) holdfast.Locker {
			return rlock.New(c, name, holdfast.RespectStrings())
		},
		"fairlock":  func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
		"write":     func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) },
		"read":      func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name).RLocker() },
		"semaphore": func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, 1) },
		"redlock": func(c *holdfast.Client, name string) holdfast.Locker {
			return redlock.New([]*holdfast.Client{c}, name, redlock.MasterTimeout(5*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := kindtest.NewClient(t, near, nil)
			h := kindtest.Lock(t, lock(c, name), holdfast.Lease(time.Hour))
			if name == "read" { // it is kept out by a writer
				require.NoError(t, h.Unlock(t.Context()))
				h = kindtest.Lock(t, rwlock.New(c, name), holdfast.Lease(time.Hour))
			}
			_, err := lock(c, name).TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			require.NotContains(t, err.Error(), "READONLY")
			require.EqualValues(t, 1, near.Do(t.Context(), "WAIT", 1, 20000).Val(), "the replica has it all")
			there(t, far, name, lock)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// there demands that a lock is refused at a replica, once with a wait and once without.
func there(t *testing.T, far *redis.Client, name string, lock func(*holdfast.Client, string) holdfast.Locker) {
	l := lock(kindtest.NewClient(t, far, &holdfast.Options{RetryBudget: 500 * time.Millisecond}), name)
	_, try := l.TryLock(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, wait := l.Lock(ctx)
	for _, err := range []error{try, wait} {
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, "READONLY")
	}
}
