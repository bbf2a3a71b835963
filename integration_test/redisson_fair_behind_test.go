package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// TestRedissonFairBehindOurs: a live waiter of Redisson's behind one of ours keeps its place until
// its turn, whatever polls take off ours.
func TestRedissonFairBehindOurs(t *testing.T) {
	t.Parallel()
	require.True(t, behindOurs(t, lua.FairPoll))
}

// TestRedissonFairBehindOursControl: by as much as is taken off ours its place ends.
func TestRedissonFairBehindOursControl(t *testing.T) {
	t.Parallel()
	const keeps = "math.max(deadline - taken, math.min(deadline, needed))"
	require.Contains(t, lua.FairPoll.Text(), keeps)
	require.False(t, behindOurs(t, lua.New("fair_poll", strings.Replace(lua.FairPoll.Text(), keeps, "deadline - taken", 1), 5)))
}

// behindOurs reports whether a waiter of Redisson's has its place when the one before ours has been
// granted the lock. Ours came when three of Redisson's stood before it, of which two have left with
// less of their time than room was made for. Redisson's came behind another one of ours, which made
// room for the one that was left, and which has left too. So its deadline is earlier than that of
// ours, and a poll then takes off ours more than Redisson's can spare.
func behindOurs(t *testing.T, poll *lua.Script) bool {
	t.Helper()
	s := newShared(t)
	j := newJava(t, s.rdb, "java")
	run := func(script *lua.Script, args ...any) {
		_, err := lua.Run(s.ctx, s.rdb, script.Call(append([]any{javaName, "redisson_lock_token:{fair}", javaQueue, javaEnds,
			javaChannel}, args...)...))
		require.NoError(t, err)
	}
	queue := func(owner string) {
		run(lua.FairAcquire, owner, 30000, 330000, "0", visitPlace.Milliseconds(), 30000, "PUBLISH")
		require.Contains(t, s.queue(), owner)
	}
	j.mustLock(s.ctx, 99)
	for thread, wait := range []time.Duration{time.Second, time.Second, javaWait} {
		j.wait = wait
		j.mustWait(s.ctx, thread)
	}
	queue("go:h1")
	j.wait = time.Second
	j.giveUp(s.ctx, 0)
	j.giveUp(s.ctx, 1)
	j.wait = javaWait
	queue("go:h2")
	j.mustWait(s.ctx, 3)
	run(lua.FairRelease, "go:h2", "PUBLISH", 30000, 330000)
	require.Equal(t, []string{j.owner(2), "go:h1", j.owner(3)}, s.queue())
	run(poll, "go", "PUBLISH", 30000, 330000, visitPlace.Milliseconds(), "go:h1")
	require.NoError(t, j.unlock(s.ctx, 99))
	j.mustLock(s.ctx, 2)
	left, stands := s.left("go:h1")
	require.True(t, stands)
	require.Positive(t, left)
	left, stands = s.left(j.owner(3))
	return stands && left > 0
}
