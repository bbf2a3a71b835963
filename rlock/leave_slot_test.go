package rlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// leftInMovingSlot leaves a lock that is to stay for an hour while a cluster moves its slot. It
// tells for how long the lock is taken then, if it is. All keys of the script are there, also the
// one with a head start, as one who waits far away leaves it: else the cluster refuses the script
// until the move has ended.
func leftInMovingSlot(t *testing.T, c *redistest.Cluster, hooks ...redis.Hook) time.Duration {
	t.Helper()
	rdb, name := c.Client(t), uniqueName(t)
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	h := lock(t, rlock.New(newClient(t, rdb, nil), name), holdfast.HoldAtLeast(time.Hour))
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock__channel:{"+name+"}", "50", time.Hour).Err())
	to := c.Nodes[0]
	if c.Master(t, name) == to {
		to = c.Nodes[1]
	}
	move := c.BeginMove(t, name, to)
	err := h.Unlock(t.Context())
	left := move.From.Client(t).PTTL(t.Context(), name).Val()
	require.Equal(t, err == nil, left > 0, "%v", err)
	move.Keys(t)
	move.Finish(t)
	return left
}

// TestLeaveInMovingSlot: a lock that is to stay stays, also where its slot is being moved while it
// is left. The control: not if its key is gone in between.
func TestLeaveInMovingSlot(t *testing.T) {
	level.ForAll(t)
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) {
			c := redistest.StartCluster(t, 2, 0, redistest.Exec(p.Path))
			require.Greater(t, leftInMovingSlot(t, c), time.Hour-time.Minute)
			require.LessOrEqual(t, leftInMovingSlot(t, c,
				mutant.Hook(lua.Leave, "type(redis.pcall('HDEL', name, '')) == 'number'", "false")), time.Duration(0))
		})
	}
}

// TestLeaveWithoutHDEL: who may not run HDEL leaves a lock for the same time, and is not its owner
// any more.
func TestLeaveWithoutHDEL(t *testing.T) {
	srv := redistest.Start(t)
	srv.Command(t, "ACL", "SETUSER", "default", "-hdel")
	rdb := srv.Client(t)
	h := lock(t, rlock.New(newClient(t, rdb, nil), "a"), holdfast.HoldAtLeast(time.Hour))
	unlock(t, h)
	require.Greater(t, rdb.PTTL(t.Context(), "a").Val(), time.Hour-time.Minute)
	require.EqualValues(t, 1, rdb.HLen(t.Context(), "a").Val())
	require.Zero(t, count(t, rdb, "a", h.Owner()))
}

// The control: a key that is made anew has no time to live of its own.
func TestLeaveWithoutHDELControl(t *testing.T) {
	srv := redistest.Start(t)
	srv.Command(t, "ACL", "SETUSER", "default", "-hdel")
	rdb := srv.Client(t)
	rdb.AddHook(mutant.Hook(lua.Leave, "\n  call('PEXPIRE', name, rest)\n", "\n"))
	unlock(t, lock(t, rlock.New(newClient(t, rdb, nil), "a"), holdfast.HoldAtLeast(time.Hour)))
	require.Negative(t, rdb.PTTL(t.Context(), "a").Val())
}
