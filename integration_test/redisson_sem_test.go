package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// javaPermits plays a client of Redisson 4.7 by the commands of its RPermitExpirableSemaphore, for the
// semaphore "foo". Its permits are 16 random bytes, and its clock is its own.
type javaPermits struct {
	*testing.T
	rdb *redis.Client
}

const javaPermitChannel = "redisson_sc:{foo}"

// forever is the end of a permit without a lease.
const javaForever = 922337203685477

// acquire asks for permits with these ids, until a moment of the client's clock. The reply is OK, the
// nearest end of another permit behind a colon, or nil.
func (j *javaPermits) acquire(now, ends int64, ids ...string) any {
	j.Helper()
	args := []any{len(ids), ends, now, int64(javaForever), "PUBLISH"}
	for _, id := range ids {
		args = append(args, id)
	}
	reply, err := j.rdb.Eval(j.Context(), `
		local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, ARGV[1])
		if #expired > 0 then
			redis.call('zrem', KEYS[2], unpack(expired))
			local value = redis.call('incrby', KEYS[1], #expired)
			if value > 0 then redis.call(ARGV[5], KEYS[3], value) end
		end
		local value = redis.call('get', KEYS[1])
		if value ~= false and tonumber(value) >= tonumber(ARGV[1]) then
			redis.call('decrby', KEYS[1], ARGV[1])
			for i = 6, #ARGV do redis.call('zadd', KEYS[2], ARGV[2], ARGV[i]) end
			local ttl = redis.call('pttl', KEYS[1])
			if ttl > 0 then redis.call('pexpire', KEYS[2], ttl) end
			return 'OK'
		end
		local v = redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES')
		if v[1] ~= nil and v[2] ~= ARGV[4] then return ':' .. v[2] end
		return nil`, []string{"foo", "{foo}:timeout", javaPermitChannel}, args...).Result()
	if err != nil {
		require.ErrorIs(j, err, redis.Nil)
	}
	return reply
}

// release gives a permit back. The reply is 1 if its lease had not ended.
func (j *javaPermits) release(now int64, id string) any {
	j.Helper()
	reply, err := j.rdb.Eval(j.Context(), `
		local ends = redis.call('zscore', KEYS[3], ARGV[1])
		if redis.call('zrem', KEYS[3], ARGV[1]) ~= 1 then return 0 end
		local value = redis.call('incrby', KEYS[1], ARGV[2])
		redis.call(ARGV[4], KEYS[2], value)
		if tonumber(ends) <= tonumber(ARGV[3]) then return 0 end
		return 1`, []string{"foo", javaPermitChannel, "{foo}:timeout"}, id, 1, now, "PUBLISH").Result()
	require.NoError(j, err)
	return reply
}

// sweep takes back all permits whose leases have ended, as its availablePermits does.
func (j *javaPermits) sweep(now int64) error {
	return j.rdb.Eval(j.Context(), `
		local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[1], 'limit', 0, -1)
		if #expired > 0 then
			redis.call('zrem', KEYS[2], unpack(expired))
			redis.call('incrby', KEYS[1], #expired)
		end
		return 1`, []string{"foo", "{foo}:timeout"}, now).Err()
}

// id is a permit of Redisson's.
func id(n int) string { return fmt.Sprintf("%c%c%014d", 200, 7, n) }

// sharedPermits is a semaphore of two permits, which Redisson has made, for a client of this library and
// one of Redisson's.
func sharedPermits(t *testing.T) (ctx context.Context, s *semaphore.Semaphore, j *javaPermits) {
	t.Helper()
	srv := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	rdb := srv.Client(t)
	require.NoError(t, rdb.Set(ctx, "foo", 2, 0).Err())
	return ctx, semaphore.New(newClient(t, srv.Client(t), nil), "foo", 9), &javaPermits{t, rdb}
}

// TestPermitsSharedWithRedisson: what one has taken the other cannot, each wakes the other, and what a
// dead client of one has left the other takes back.
func TestPermitsSharedWithRedisson(t *testing.T) {
	ctx, s, j := sharedPermits(t)
	now := time.Now().UnixMilli()
	require.Equal(t, "OK", j.acquire(now, javaForever, id(1)))
	mine, err := s.Lock(ctx)
	require.NoError(t, err)
	require.Contains(t, j.acquire(now, now+60000, id(2)), ":", "refused")
	_, err = s.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	state, err := s.State(ctx)
	require.NoError(t, err)
	require.Equal(t, [...]int{2, 0, 2}, [...]int{state.Permits, state.Free, len(state.Holders)}, "the number is Redisson's")

	waits := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := s.Lock(ctx)
		require.NoError(t, err) //nolint:testifylint // the test's deadline ends what waits
		waits <- h
	}()
	eventually(ctx, t, "it listens to Redisson's clients", func() bool {
		return j.rdb.PubSubNumSub(ctx, javaPermitChannel).Val()[javaPermitChannel] == 1
	})
	require.EqualValues(t, 1, j.release(now, id(1)))
	next := <-waits

	sub := j.rdb.Subscribe(ctx, javaPermitChannel)
	defer sub.Close()
	_, err = sub.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, next.Unlock(ctx))
	msg, err := sub.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, "1", msg.Payload, "how many are free, by which Redisson's clients wake as many")
	require.Equal(t, "OK", j.acquire(now, now+1, id(3)))
	require.NoError(t, mine.Unlock(ctx))
	two, err := s.Acquire(ctx, 2)
	require.NoError(t, err, "with the one whose lease has ended")
	require.EqualValues(t, 0, j.release(now, id(3)))
	require.Contains(t, j.acquire(now, now+60000, id(4)), ":")
	require.Equal(t, "OK", j.acquire(now+time.Hour.Milliseconds(), javaForever, id(5), id(6)), "it sweeps by its own clock")
	require.ErrorIs(t, two.Unlock(ctx), holdfast.ErrLost)
	require.Equal(t, time.Duration(-1), j.rdb.PTTL(ctx, "foo").Val(), "Redisson's keys stay without an end")
	require.Equal(t, time.Duration(-1), j.rdb.PTTL(ctx, "{foo}:timeout").Val())
}

// TestPermitDefectsOfRedisson: what its commands do, and what those of this library do not.
func TestPermitDefectsOfRedisson(t *testing.T) {
	t.Run("ten thousand leases that ended are too many to take back", func(t *testing.T) {
		ctx, s, j := sharedPermits(t)
		now := time.Now().UnixMilli()
		const many = 10000
		require.NoError(t, j.rdb.Set(ctx, "foo", 0, 0).Err())
		pipe := j.rdb.Pipeline()
		for i := range many {
			pipe.ZAdd(ctx, "{foo}:timeout", redis.Z{Member: id(i), Score: float64(now - 60000)})
		}
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		require.ErrorContains(t, j.sweep(now), "too many results to unpack")
		h, err := s.Acquire(ctx, many)
		require.NoError(t, err)
		require.Equal(t, many, h.Count())
		require.NoError(t, h.Unlock(ctx))
		require.Equal(t, "10000", j.rdb.Get(ctx, "foo").Val())
	})
	t.Run("who wants many is starved by those who want one", func(t *testing.T) {
		ctx, s, j := sharedPermits(t)
		now := time.Now().UnixMilli()
		require.Equal(t, "OK", j.acquire(now, javaForever, id(1)))
		require.Nil(t, j.acquire(now, javaForever, id(2), id(3)))
		require.Equal(t, "OK", j.acquire(now, javaForever, id(4)), "Redisson's passes the one that waits for two")
		require.NoError(t, j.rdb.FlushAll(ctx).Err())
		h, err := s.Acquire(ctx, 8)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			h, err := s.Acquire(ctx, 2)
			if err == nil {
				err = h.Unlock(ctx)
			}
			done <- err
		}()
		eventually(ctx, t, "it waits", func() bool {
			state, err := s.State(ctx)
			return err == nil && state.Waiters == 1
		})
		_, err = s.TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, "one is free")
		require.NoError(t, h.Unlock(ctx))
		require.NoError(t, <-done)
	})
	t.Run("a lease is not renewed", func(t *testing.T) {
		ctx, s, j := sharedPermits(t)
		now := time.Now().UnixMilli()
		require.Equal(t, "OK", j.acquire(now, now+50, id(1)))
		eventually(ctx, t, "and what it held is free", func() bool { return j.sweep(time.Now().UnixMilli()) == nil && j.rdb.Get(ctx, "foo").Val() == "2" })
		h, err := s.Lock(ctx, holdfast.Lease(2*time.Second))
		require.NoError(t, err)
		first := h.Deadline()
		eventually(ctx, t, "more than a lease later", func() bool { return h.Deadline().Sub(first) > 2*time.Second })
		require.NoError(t, h.Unlock(ctx))
	})
}
