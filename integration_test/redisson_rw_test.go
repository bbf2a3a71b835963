package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// javaReadWrite plays a client of Redisson 4.7 by the commands that its scripts were seen to run, for the lock
// "foo".
type javaReadWrite struct {
	*testing.T
	rdb   *redis.Client
	owner string
}

const javaRwChannel = "redisson_rwlock:{foo}"

func (j *javaReadWrite) eval(script string, args ...any) any {
	j.Helper()
	reply, err := j.rdb.Eval(j.Context(), script, []string{"foo", "{foo}:" + j.owner + ":rwlock_timeout", javaRwChannel}, args...).Result()
	if err != nil {
		require.ErrorIs(j, err, redis.Nil)
	}
	return reply
}

// read asks to read. The reply is nil, or the milliseconds that are left to who writes.
func (j *javaReadWrite) read(lease int) any {
	return j.eval(`local mode = redis.call('hget', KEYS[1], 'mode')
		if not mode then
			redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], 1)
			redis.call('set', KEYS[2] .. ':1', 1, 'px', ARGV[1])
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		if mode == 'read' or redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 1 then
			local n = redis.call('hincrby', KEYS[1], ARGV[2], 1)
			redis.call('set', KEYS[2] .. ':' .. n, 1, 'px', ARGV[1])
			redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[1]))
			return nil
		end
		return redis.call('pttl', KEYS[1])`, lease, j.owner)
}

// write asks to write, as read.
func (j *javaReadWrite) write(lease int) any {
	return j.eval(`local mode, field = redis.call('hget', KEYS[1], 'mode'), ARGV[2] .. ':write'
		if not mode then
			redis.call('hset', KEYS[1], 'mode', 'write', field, 1)
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		if mode == 'write' and redis.call('hexists', KEYS[1], field) == 1 then
			redis.call('hincrby', KEYS[1], field, 1)
			redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
			return nil
		end
		return redis.call('pttl', KEYS[1])`, lease, j.owner)
}

// unread gives a read back. The reply is 1 if the lock is free then, 0 if it is not, nil if the owner does not read.
func (j *javaReadWrite) unread() any {
	return j.eval(`local mode = redis.call('hget', KEYS[1], 'mode')
		if not mode then redis.call('publish', KEYS[3], '0') return nil end
		if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
		local n = redis.call('hincrby', KEYS[1], ARGV[1], -1)
		if n == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
		redis.call('del', KEYS[2] .. ':' .. (n + 1))
		if redis.call('hlen', KEYS[1]) > 1 then
			local most = -3
			for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
				local count = tonumber(redis.call('hget', KEYS[1], field))
				for i = count or 0, 1, -1 do
					most = math.max(most, redis.call('pttl', '{foo}:' .. field .. ':rwlock_timeout:' .. i))
				end
			end
			if most > 0 then redis.call('pexpire', KEYS[1], most) return 0 end
			if mode == 'write' then return 0 end
		end
		redis.call('del', KEYS[1])
		redis.call('publish', KEYS[3], '0')
		return 1`, j.owner)
}

// unwrite gives a write back, as unread.
func (j *javaReadWrite) unwrite() any {
	return j.eval(`local mode, field = redis.call('hget', KEYS[1], 'mode'), ARGV[1] .. ':write'
		if not mode then redis.call('publish', KEYS[3], '1') return nil end
		if redis.call('hexists', KEYS[1], field) == 0 then return nil end
		if redis.call('hincrby', KEYS[1], field, -1) > 0 then return 0 end
		redis.call('hdel', KEYS[1], field)
		if redis.call('hlen', KEYS[1]) == 1 then
			redis.call('del', KEYS[1])
			redis.call('publish', KEYS[3], '1')
		else
			redis.call('hset', KEYS[1], 'mode', 'read')
		end
		return 1`, j.owner)
}

// renew is its watchdog's, which does it for the readers that it has, and for all of the hash with them.
func (j *javaReadWrite) renew(lease int) {
	j.eval(`local n = redis.call('hget', KEYS[1], ARGV[2])
		if not n then return 0 end
		for i = n, 1, -1 do redis.call('pexpire', KEYS[2] .. ':' .. i, ARGV[1]) end
		return redis.call('pexpire', KEYS[1], ARGV[1])`, lease, j.owner)
}

// sharedReadWrite is a lock for one client of this library and two of Redisson's.
func sharedReadWrite(t *testing.T) (ctx context.Context, m *rwlock.RWMutex, a, b *javaReadWrite) {
	t.Helper()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx, rwlock.New(newClient(t, srv.Client(t), nil), "foo"),
		&javaReadWrite{t, rdb, "8743c9c0-0795-4907-87fd-6c719a6b4586:1"}, &javaReadWrite{t, rdb, "8743c9c0-0795-4907-87fd-6c719a6b4586:2"}
}

// TestReadWriteSharedWithRedisson: readers of both are inside together, writers of both alone, and
// each wakes the other.
func TestReadWriteSharedWithRedisson(t *testing.T) {
	ctx, m, a, b := sharedReadWrite(t)
	require.Nil(t, a.read(30000))
	mine, err := m.RLock(ctx)
	require.NoError(t, err)
	require.Nil(t, b.read(30000))
	require.Positive(t, a.write(30000), "refused")
	_, err = m.TryLock(ctx)
	require.Error(t, err)
	require.EqualValues(t, 0, a.unread(), "others read")
	require.EqualValues(t, 0, b.unread(), "the reader of this library is alive, by its key")
	require.NoError(t, mine.Context().Err())
	require.NoError(t, mine.Unlock(ctx))
	require.Zero(t, a.rdb.Exists(ctx, "foo").Val())

	require.Nil(t, a.write(30000))
	_, err = m.TryRLock(ctx)
	require.ErrorContains(t, err, "held by "+a.owner)
	read := make(chan error, 1)
	go func() {
		h, err := m.RLock(ctx)
		if err == nil {
			err = h.Unlock(ctx)
		}
		read <- err
	}()
	eventually(ctx, t, "it listens", func() bool { return a.rdb.PubSubNumSub(ctx, javaRwChannel).Val()[javaRwChannel] == 1 })
	require.EqualValues(t, 1, a.unwrite())
	require.NoError(t, <-read)

	sub := a.rdb.Subscribe(ctx, javaRwChannel)
	defer sub.Close()
	_, err = sub.Receive(ctx)
	require.NoError(t, err)
	mine, err = m.Lock(ctx)
	require.NoError(t, err)
	require.Positive(t, a.read(30000))
	require.NoError(t, mine.Unlock(ctx))
	msg, err := sub.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, "1", msg.Payload, "all who wait")
	require.Nil(t, a.read(30000))
}

// TestReadWriteDefectsOfRedisson: what its commands do, and what those of this library do not.
func TestReadWriteDefectsOfRedisson(t *testing.T) {
	const lease, short = 60000, 2000
	t.Run("W2: a read cuts the lease to write", func(t *testing.T) {
		ctx, m, a, _ := sharedReadWrite(t)
		require.Nil(t, a.write(lease))
		require.Nil(t, a.read(short))
		require.Nil(t, a.read(short))
		a.unread()
		require.LessOrEqual(t, a.rdb.PTTL(ctx, "foo").Val(), short*time.Millisecond, "Redisson's")
		require.NoError(t, a.rdb.FlushAll(ctx).Err())
		w, err := m.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Extend(ctx, lease*time.Millisecond))
		for range 2 {
			r, err := m.RLock(w.Context())
			require.NoError(t, err)
			require.NoError(t, r.Unlock(ctx))
		}
		require.Greater(t, a.rdb.PTTL(ctx, "foo").Val(), lease/2*time.Millisecond)
	})
	t.Run("W3: who stops to write and goes on reading tells nobody", func(t *testing.T) {
		ctx, m, a, _ := sharedReadWrite(t)
		sub := a.rdb.Subscribe(ctx, javaRwChannel)
		defer sub.Close()
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
		require.Nil(t, a.write(lease))
		require.Nil(t, a.read(lease))
		a.unwrite()
		require.NoError(t, a.rdb.Publish(ctx, javaRwChannel, "nothing before").Err())
		msg, err := sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "nothing before", msg.Payload, "Redisson's")
		a.unread()
		_, err = sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		own := holdfast.WithOwner(ctx)
		h, err := m.Lock(own)
		require.NoError(t, err)
		reads, err := m.RLock(own)
		require.NoError(t, err)
		defer reads.Unlock(ctx)
		require.NoError(t, h.Unlock(ctx))
		msg, err = sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "1", msg.Payload)
	})
	t.Run("W3: a reader of this library that waits looks by itself", func(t *testing.T) {
		ctx, m, a, _ := sharedReadWrite(t)
		require.Nil(t, a.write(lease))
		require.Nil(t, a.read(lease))
		type result struct {
			hold *holdfast.Hold
			err  error
		}
		read := make(chan result, 1)
		go func() {
			h, err := m.RLock(ctx) // which ends before Redisson's lease
			read <- result{h, err}
		}()
		eventually(ctx, t, "it listens", func() bool { return a.rdb.PubSubNumSub(ctx, javaRwChannel).Val()[javaRwChannel] == 1 })
		a.unwrite()
		r := <-read
		require.NoError(t, r.err)
		require.NoError(t, r.hold.Unlock(ctx))
	})
	t.Run("W5: a dead reader is kept by those who live, and readers pass writers that wait", func(t *testing.T) {
		ctx, m, a, b := sharedReadWrite(t)
		require.Nil(t, b.read(lease))
		require.Nil(t, a.read(1)) // second, as the lock lasts as long as the longest lease
		eventually(ctx, t, "the lease of the first has ended",
			func() bool { return a.rdb.Exists(ctx, "{foo}:"+a.owner+":rwlock_timeout:1").Val() == 0 })
		b.renew(lease)
		require.Equal(t, "1", a.rdb.HGet(ctx, "foo", a.owner).Val(), "Redisson's")
		wrote := make(chan error, 1)
		go func() {
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Unlock(ctx)
			}
			wrote <- err
		}()
		eventually(ctx, t, "a writer waits", func() bool {
			s, err := m.State(ctx)
			return err == nil && s.Waiters == 1
		})
		require.Nil(t, b.read(lease), "Redisson's readers pass it")
		_, err := m.TryRLock(ctx)
		require.ErrorContains(t, err, "held by", "readers of this library do not")
		b.unread()
		b.unread()
		require.NoError(t, <-wrote)
	})
	t.Run("W6: each write of the same owner adds a lease", func(t *testing.T) {
		ctx, m, a, _ := sharedReadWrite(t)
		require.Nil(t, a.write(lease))
		require.Nil(t, a.write(lease))
		require.Greater(t, a.rdb.PTTL(ctx, "foo").Val(), (lease+lease/2)*time.Millisecond, "Redisson's")
		require.NoError(t, a.rdb.FlushAll(ctx).Err())
		w, err := m.Lock(ctx)
		require.NoError(t, err)
		again, err := m.Lock(w.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, a.rdb.PTTL(ctx, "foo").Val(), 30*time.Second)
		require.NoError(t, again.Unlock(ctx))
		require.NoError(t, w.Unlock(ctx))
	})
}
