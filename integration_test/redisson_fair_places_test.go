package integration_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// noRoom takes out what keeps our places behind Redisson's: nothing is added for them, neither at
// first nor by polls.
func noRoom() []redis.Hook {
	return []redis.Hook{
		mutant.Hook(lua.FairAcquire, "deadline, others = behind(place)", "deadline = now + place"),
		noRefresh(),
	}
}

// noRefresh leaves our places with the deadlines that they were given at first. Nor does a poll
// hand the lock on: one that came between an unlock and the next lock of Redisson's would spare us
// what Redisson's own grant takes off.
func noRefresh() redis.Hook {
	return mutant.Hook(lua.FairPoll,
		"    asked[ARGV[i]] = deadline\n", "", "if first and (mixed()", "if false and (mixed()",
		"if call('HLEN', name) == 0 and call('LLEN', queue) > 0 then", "if false then")
}

// TestRedissonFairGrantsAhead: each grant of Redisson's takes 300 s off the places behind it, and
// its scripts purge; ours stand all the same, in every round.
func TestRedissonFairGrantsAhead(t *testing.T) {
	t.Parallel()
	for range 3 {
		want, got := grantsAhead(t)
		require.Equal(t, want, got)
	}
}

// TestRedissonFairGrantsAheadControl: without the room for them we lose our turn.
func TestRedissonFairGrantsAheadControl(t *testing.T) {
	t.Parallel()
	want, got := grantsAhead(t, noRoom()...)
	require.NotEqual(t, want, got)
}

// grantsAhead queues J J J G J G G J behind a holder of Redisson's and lets Redisson's threads pass
// the lock on at once, with no time for our clients to put their places off. It returns the queue
// and the grants.
func grantsAhead(t *testing.T, hooks ...redis.Hook) (want, got []string) {
	t.Helper()
	s := newShared(t)
	m, j := s.mutex(hooks...), newJava(t, s.rdb, "java")
	j.lease = 6 * time.Second // for so long a waiter sleeps that is not called, in the control
	j.mustLock(s.ctx, 99)
	for i, java := range []bool{true, true, true, false, true, false, false, true} {
		if java {
			want = append(want, s.waitJava(j, i))
		} else {
			want = append(want, s.wait(m))
		}
	}
	s.mustEnd()
	require.NoError(t, j.unlock(s.ctx, 99))
	s.group.Wait()
	return want, s.order()
}

// TestRedissonFairLongWait: Redisson's waiter has waited for almost 300 s when ours joins, or ours
// has waited as long behind it. The grant ahead takes the 300 s off.
func TestRedissonFairLongWait(t *testing.T) {
	t.Parallel()
	t.Run("joined late", func(t *testing.T) {
		require.True(t, joinedLate(t))
	})
	t.Run("waited long", func(t *testing.T) {
		require.True(t, waitedLong(t))
	})
}

// TestRedissonFairLongWaitControls: the first needs room from the start, or a poll that makes it in
// time, the second the poll.
func TestRedissonFairLongWaitControls(t *testing.T) {
	t.Parallel()
	t.Run("joined late, by the tail's deadline alone", func(t *testing.T) {
		require.False(t, joinedLate(t, mutant.Hook(lua.FairAcquire, "deadline, others = behind(place)",
			"deadline = last + place"), noRefresh()))
	})
	t.Run("waited long, not put off", func(t *testing.T) {
		require.False(t, waitedLong(t, noRefresh()))
	})
}

// joinedLate reports whether our place outlives the grant ahead of it.
func joinedLate(t *testing.T, hooks ...redis.Hook) bool {
	t.Helper()
	s := newShared(t)
	j := newJava(t, s.rdb, "java")
	j.mustLock(s.ctx, 1)
	j.late = 290 * time.Second // its waiter took its place so long ago
	j.mustWait(s.ctx, 2)
	j.late = 0
	return s.outlives(j, s.wait(s.mutex(hooks...)))
}

// waitedLong lets 280 s pass for all places at once, which ours then has to make good.
func waitedLong(t *testing.T, hooks ...redis.Hook) bool {
	t.Helper()
	s := newShared(t)
	j := newJava(t, s.rdb, "java")
	j.mustLock(s.ctx, 1)
	j.mustWait(s.ctx, 2)
	owner := s.wait(s.mutex(hooks...))
	for _, o := range s.queue() {
		require.NoError(t, s.rdb.ZIncrBy(s.ctx, javaEnds, -280_000, o).Err())
	}
	start := s.rdb.Time(s.ctx).Val()
	s.until("it is put off, or the time for that is over", func() bool {
		left, _ := s.left(owner)
		return left > javaWait.Seconds()*1000 || s.rdb.Time(s.ctx).Val().Sub(start) > 8*time.Second
	})
	return s.outlives(j, owner)
}

// outlives lets thread 2 have the lock after thread 1, and give it back, and reports whether ours
// is next. Thread 3 looks on, and purges.
func (s *shared) outlives(j *java, owner string) bool {
	s.t.Helper()
	require.Equal(s.t, []string{j.owner(2), owner}, s.queue())
	require.NoError(s.t, j.unlock(s.ctx, 1))
	j.mustLock(s.ctx, 2)
	j.mustWait(s.ctx, 3)
	left, stands := s.left(owner)
	stands = stands && left > 0 && s.queue()[0] == owner
	j.giveUp(s.ctx, 3)
	require.NoError(s.t, j.unlock(s.ctx, 2))
	s.group.Wait()
	s.mustEnd()
	return stands
}

// TestRedissonFairGivesUp: Redisson's waiters leave in front of ours, between them and behind, and
// take their 300 s with them.
func TestRedissonFairGivesUp(t *testing.T) {
	t.Parallel()
	require.True(t, givesUp(t))
}

// TestRedissonFairGivesUpControl: without the room our places go with them.
func TestRedissonFairGivesUpControl(t *testing.T) {
	t.Parallel()
	require.False(t, givesUp(t, noRoom()...))
}

// givesUp reports whether ours were granted in their order when all of Redisson's have given up,
// and those who look on purged.
func givesUp(t *testing.T, hooks ...redis.Hook) bool {
	t.Helper()
	s := newShared(t)
	m, j := s.mutex(hooks...), newJava(t, s.rdb, "java")
	j.mustLock(s.ctx, 99)
	var want []string
	for thread := range 4 { // J G J G J G J
		j.mustWait(s.ctx, thread)
		if thread < 3 {
			want = append(want, s.wait(m))
		}
	}
	for _, thread := range []int{0, 2, 1, 3} {
		j.giveUp(s.ctx, thread)
		j.mustWait(s.ctx, 50) // purges
		j.giveUp(s.ctx, 50)
	}
	stand := true
	for i, owner := range want {
		left, has := s.left(owner)
		stand = stand && has && left > 0 && len(s.queue()) > i && s.queue()[i] == owner
	}
	require.NoError(t, j.unlock(s.ctx, 99))
	s.group.Wait()
	s.mustEnd()
	return stand
}
