package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What Redisson 4.7 sends for its fair lock, as it was recorded; the scripts are written anew to do
// the same commands. Its times are those of its clients.

const (
	javaName    = "fair"
	javaQueue   = "redisson_lock_queue:{fair}"
	javaEnds    = "redisson_lock_timeout:{fair}"
	javaChannel = "redisson_lock__channel:{fair}"
	javaLease   = 30 * time.Second
	javaWait    = 300 * time.Second // fairLockWaitTimeout
)

// javaPurge begins each of its scripts but the one for giving up: heads whose deadline has passed
// go, to the first one that has another or none.
const javaPurge = `
local call = redis.call
local function purge(now)
  while true do
    local first = call('LINDEX', KEYS[2], 0)
    local score = first and call('ZSCORE', KEYS[3], first)
    if not score or tonumber(score) > tonumber(now) then return end
    call('ZREM', KEYS[3], first)
    call('LPOP', KEYS[2])
  end
end
`

// KEYS: lock, queue, deadlines. ARGV: lease, owner, wait, now, "1" to wait. Nil is a grant.
var javaAcquire = redis.NewScript(javaPurge + `
local name, lease, owner, wait, now = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
purge(now)
if call('EXISTS', name) == 0 and (call('EXISTS', KEYS[2]) == 0 or call('LINDEX', KEYS[2], 0) == owner) then
  call('LPOP', KEYS[2])
  call('ZREM', KEYS[3], owner)
  for _, other in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do call('ZINCRBY', KEYS[3], -wait, other) end
  call('HSET', name, owner, 1)
  call('PEXPIRE', name, lease)
  return nil
end
if call('HEXISTS', name, owner) == 1 then
  call('HINCRBY', name, owner, 1)
  call('PEXPIRE', name, lease)
  return nil
end
if ARGV[5] ~= '1' then return 1 end
if call('ZSCORE', KEYS[3], owner) then return math.max(0, call('PTTL', name)) end
local ttl, last = call('PTTL', name), call('LINDEX', KEYS[2], -1)
if last and last ~= owner and call('ZSCORE', KEYS[3], last) then ttl = tonumber(call('ZSCORE', KEYS[3], last)) - now end
if call('ZADD', KEYS[3], ttl + wait + now, owner) == 1 then call('RPUSH', KEYS[2], owner) end
return ttl`)

// KEYS: lock, queue, deadlines, channel. ARGV: lease, owner, now. Nil: another's. 0: still held. 1:
// free; then who was called.
var javaUnlock = redis.NewScript(javaPurge + `
local name, owner = KEYS[1], ARGV[2]
purge(ARGV[3])
local function tell()
  local first = call('LINDEX', KEYS[2], 0)
  if first then call('PUBLISH', KEYS[4] .. ':' .. first, '0') end
  return 1
end
if call('EXISTS', name) == 0 then return tell() end
if call('HEXISTS', name, owner) == 0 then return nil end
if call('HINCRBY', name, owner, -1) > 0 then
  call('PEXPIRE', name, ARGV[1])
  return 0
end
call('DEL', name)
return tell()`)

// KEYS: queue, deadlines. ARGV: owner, wait.
var javaFailed = redis.NewScript(`
local behind = false
for _, other in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if behind then redis.call('ZINCRBY', KEYS[2], -ARGV[2], other) end
  behind = behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])`)

// java is one client of Redisson. Its threads are numbered.
type java struct {
	t    testing.TB
	rdb  *redis.Client
	id   string
	wait time.Duration // of all its waiters
	late time.Duration // how far its clock is behind

	lease time.Duration
}

func newJava(t testing.TB, rdb *redis.Client, id string) *java {
	return &java{t: t, rdb: rdb, id: id, wait: javaWait, lease: javaLease}
}

func (j *java) owner(thread int) string { return j.id + ":" + strconv.Itoa(thread) }

func (j *java) now() int64 { return time.Now().Add(-j.late).UnixMilli() }

// attempt is the script of lock() or tryLock(); not granted, it says for how long the holder's
// lease lasts.
func (j *java) attempt(ctx context.Context, thread int, place bool) (left time.Duration, granted bool, err error) {
	waits := 0
	if place {
		waits = 1
	}
	ms, err := javaAcquire.Run(ctx, j.rdb, []string{javaName, javaQueue, javaEnds},
		j.lease.Milliseconds(), j.owner(thread), j.wait.Milliseconds(), j.now(), waits).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, true, nil
	}
	return time.Duration(ms) * time.Millisecond, false, err
}

// lock waits as lock() does: a place, then the channel, then attempts: at a message and when the
// lease that it knows of ends. That may be at once, and then it asks without a pause. placed is
// called between the first attempt and the subscription.
func (j *java) lock(ctx context.Context, thread int, placed func()) error {
	_, granted, err := j.attempt(ctx, thread, true)
	if granted || err != nil {
		return err
	}
	if placed != nil {
		placed()
	}
	sub := j.rdb.Subscribe(ctx, javaChannel+":"+j.owner(thread))
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	for {
		left, granted, err := j.attempt(ctx, thread, true)
		if granted || err != nil {
			return err
		}
		select {
		case <-sub.Channel():
		case <-time.After(left):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (j *java) unlock(ctx context.Context, thread int) error {
	n, err := javaUnlock.Run(ctx, j.rdb, []string{javaName, javaQueue, javaEnds, javaChannel},
		j.lease.Milliseconds(), j.owner(thread), j.now()).Int64()
	if err == nil && n != 1 {
		err = fmt.Errorf("%s still holds it", j.owner(thread))
	}
	return err
}

// giveUp is what follows when the time of a tryLock(wait) is over.
func (j *java) giveUp(ctx context.Context, thread int) {
	j.t.Helper()
	err := javaFailed.Run(ctx, j.rdb, []string{javaQueue, javaEnds}, j.owner(thread), j.wait.Milliseconds()).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		require.NoError(j.t, err)
	}
}

// mustLock gets a lock that is free.
func (j *java) mustLock(ctx context.Context, thread int) {
	j.t.Helper()
	_, granted, err := j.attempt(ctx, thread, true)
	require.NoError(j.t, err)
	require.True(j.t, granted)
}

// mustWait takes a place, and does nothing more: its thread lives and sleeps, or is dead.
func (j *java) mustWait(ctx context.Context, thread int) {
	j.t.Helper()
	_, granted, err := j.attempt(ctx, thread, true)
	require.NoError(j.t, err)
	require.False(j.t, granted)
}
