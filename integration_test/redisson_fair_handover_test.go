package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// TestRedissonFairCallsUs: a holder of Redisson's that unlocks calls our waiter in front on the
// channel of its owner, where we listen.
func TestRedissonFairCallsUs(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(1), callsUs(t))
}

// TestRedissonFairCallsUsAtOnce: that does not take a poll. Else each hand-over from Redisson's to
// ours would wait for one.
func TestRedissonFairCallsUsAtOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(1), callsUs(t, mutant.Hook(lua.FairPoll, "if not called or", "if true or")))
}

// TestRedissonFairCallsUsControl: without that nobody listens there, and only the poll finds the
// lock.
func TestRedissonFairCallsUsControl(t *testing.T) {
	t.Parallel()
	require.Zero(t, callsUs(t, mutant.Hook(lua.FairPoll, "if not called or", "if true or"),
		mutant.Hook(lua.FairAcquire, "foreign and 1 or 0, hash[1]", "0, hash[1]")))
}

// callsUs returns how many heard Redisson's call. Ours is granted the lock in any case.
func callsUs(t *testing.T, hooks ...redis.Hook) (heard int64) {
	t.Helper()
	s := newShared(t)
	m, j := s.mutex(hooks...), newJava(t, s.rdb, "java")
	j.mustLock(s.ctx, 1)
	channel := javaChannel + ":" + s.wait(m)
	start := time.Now()
	s.until("it listens, or has had the time for three polls", func() bool {
		heard = s.rdb.PubSubNumSub(s.ctx, channel).Val()[channel]
		return heard > 0 || time.Since(start) > 3500*time.Millisecond
	})
	require.NoError(t, j.unlock(s.ctx, 1))
	s.group.Wait()
	require.Len(t, s.order(), 1)
	return heard
}

// TestRedissonFairDeadJava: a waiter of Redisson's that died in front of ours is handed the lock,
// and has it for two seconds.
func TestRedissonFairDeadJava(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, deadJava(t), 2*time.Second)
}

// TestRedissonFairDeadJavaControl: by Redisson's own rules it would be for a lease.
func TestRedissonFairDeadJavaControl(t *testing.T) {
	t.Parallel()
	require.Greater(t, deadJava(t, mutant.Hook(lua.FairRelease, "math.max(claim, 2000)", "6000")), 2*time.Second)
}

// deadJava returns for how long the dead one has the lock. Ours gets it after that.
func deadJava(t *testing.T, hooks ...redis.Hook) time.Duration {
	t.Helper()
	s := newShared(t)
	m, j := s.mutex(hooks...), newJava(t, s.rdb, "java")
	h := s.mustHold(m)
	j.mustWait(s.ctx, 1)
	owner := s.wait(m)
	require.NoError(t, h.Unlock(s.ctx))
	require.Equal(t, "0", s.rdb.HGet(s.ctx, javaName, j.owner(1)).Val())
	costs := s.rdb.PTTL(s.ctx, javaName).Val()
	s.group.Wait()
	require.Equal(t, []string{owner}, s.order())
	s.mustEnd()
	return costs
}

// deadPlace is for how long the place of a dead client of ours counts here.
const deadPlace = 3 * time.Second

// dieWaiting takes a place for a client of ours that is never heard of again.
func (s *shared) dieWaiting(script *lua.Script) {
	s.t.Helper()
	_, err := lua.Run(s.ctx, s.rdb, script.Call(javaName, "redisson_lock_token:{fair}", javaQueue, javaEnds,
		javaChannel,
		"dead:h1", 30000, 3600000, 0, deadPlace.Milliseconds(), 1000, "PUBLISH"))
	require.NoError(s.t, err)
	require.Contains(s.t, s.queue(), "dead:h1")
}

// TestRedissonFairDeadOurs: a dead waiter of ours in front of Redisson's costs them no more than
// the rest of its place's time, or of their own sleep, when Redisson unlocks.
func TestRedissonFairDeadOurs(t *testing.T) {
	t.Parallel()
	require.True(t, deadOurs(t, lua.FairAcquire))
}

// TestRedissonFairDeadOursControl: with a place that counts for longer they are not served in that
// time.
func TestRedissonFairDeadOursControl(t *testing.T) {
	t.Parallel()
	endless := strings.Replace(lua.FairAcquire.Text(), "local deadline, n = now + place,",
		"local deadline, n = now + 60000,", 1)
	require.NotEqual(t, lua.FairAcquire.Text(), endless)
	require.False(t, deadOurs(t, lua.New("fair_acquire", endless, 5)))
}

// deadOurs reports whether Redisson's waiter behind a dead one of ours is served when the place of
// that has ended, or soon after.
func deadOurs(t *testing.T, script *lua.Script) bool {
	t.Helper()
	s := newShared(t)
	j := newJava(t, s.rdb, "java")
	j.lease = deadPlace // nobody wakes Redisson's waiter: it sleeps until the lease that it knows of would have ended
	j.mustLock(s.ctx, 1)
	s.dieWaiting(script)
	limit := s.rdb.Time(s.ctx).Val().Add(deadPlace + 5*time.Second)
	owner := s.waitJava(j, 2)
	s.mustEnd()
	require.NoError(t, j.unlock(s.ctx, 1))
	s.until("it is served, or should have been", func() bool {
		return len(s.order()) > 0 ||
			s.rdb.Time(s.ctx).Val().After(limit)
	})
	served := len(s.order()) > 0
	require.NoError(t, s.rdb.ZRem(s.ctx, javaEnds, "dead:h1").Err())
	require.NoError(t, s.rdb.LRem(s.ctx, javaQueue, 0, "dead:h1").Err())
	s.group.Wait()
	require.Equal(t, []string{owner}, s.order())
	s.mustEnd()
	return served
}

// TestRedissonFairDeadOursPassed: when a client of ours unlocks, the dead waiter is passed over at
// once.
func TestRedissonFairDeadOursPassed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "java:2", handedTo(t))
}

// TestRedissonFairDeadOursPassedControl: a release that does not look whether anybody listens hands
// the lock to the dead.
func TestRedissonFairDeadOursPassedControl(t *testing.T) {
	t.Parallel()
	require.Equal(t, "dead:h1", handedTo(t, mutant.Hook(lua.FairRelease, "if deaf[id] then return nil end", "")))
}

// handedTo returns who has the lock behind a dead waiter, while its place counts.
func handedTo(t *testing.T, hooks ...redis.Hook) string {
	t.Helper()
	s := newShared(t)
	j, h := newJava(t, s.rdb, "java"), s.mustHold(s.mutex(hooks...))
	s.dieWaiting(lua.FairAcquire)
	j.mustWait(s.ctx, 2)
	require.NoError(t, h.Unlock(s.ctx))
	holder := s.rdb.HKeys(s.ctx, javaName).Val()
	require.Len(t, holder, 1)
	s.mustEnd()
	return holder[0]
}

// TestRedissonFairQueueOutlivesUs: the queue, to which only our scripts give an end, does not end
// before the places of Redisson's that joined it behind us.
func TestRedissonFairQueueOutlivesUs(t *testing.T) {
	t.Parallel()
	require.Positive(t, spare(t))
}

// TestRedissonFairQueueOutlivesUsControl: with an end that is our own places' it would.
func TestRedissonFairQueueOutlivesUsControl(t *testing.T) {
	t.Parallel()
	const slack, none = "+ 3600000\n", "+ 60000\n"
	require.Negative(t, spare(t, mutant.Hook(lua.FairAcquire, slack, none), mutant.Hook(lua.FairPoll, slack, none)))
}

// spare is for how long the queue outlives the place of a waiter of Redisson's when the last of
// ours has been granted.
func spare(t *testing.T, hooks ...redis.Hook) time.Duration {
	t.Helper()
	s := newShared(t)
	j, m := newJava(t, s.rdb, "java"), s.mutex(hooks...)
	h := s.mustHold(m)
	next := make(chan *holdfast.Hold, 1)
	s.placed(func() {
		h, err := m.Lock(s.ctx)
		if err != nil {
			t.Error(err)
		}
		next <- h
	})
	j.mustWait(s.ctx, 1)
	require.NoError(t, h.Unlock(s.ctx))
	h = <-next
	require.Equal(t, []string{j.owner(1)}, s.queue())
	left, _ := s.left(j.owner(1))
	life := min(s.rdb.PTTL(s.ctx, javaQueue).Val(), s.rdb.PTTL(s.ctx, javaEnds).Val())
	require.NoError(t, h.Unlock(s.ctx))
	return life - time.Duration(left)*time.Millisecond
}
