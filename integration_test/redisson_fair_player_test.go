package integration_test

import (
	"errors"
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

// KEYS: lock, queue, deadlines. ARGV: lease, owner, wait, now. Nil is a grant.
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

// java is a client of Redisson. Its threads are numbered.
type java struct {
	*testing.T
	rdb  *redis.Client
	wait time.Duration // of who comes or goes
}

func (j *java) owner(thread int) string { return "java:" + strconv.Itoa(thread) }

// attempt is the script of lock(): the lock, or a place.
func (j *java) attempt(thread int) (granted bool) {
	err := javaAcquire.Run(j.Context(), j.rdb, []string{javaName, javaQueue, javaEnds},
		visitLease.Milliseconds(), j.owner(thread), j.wait.Milliseconds(), time.Now().UnixMilli()).Err()
	if errors.Is(err, redis.Nil) {
		return true
	}
	require.NoError(j, err)
	return false
}

func (j *java) unlock(thread int) {
	n, err := javaUnlock.Run(j.Context(), j.rdb, []string{javaName, javaQueue, javaEnds, javaChannel},
		visitLease.Milliseconds(), j.owner(thread), time.Now().UnixMilli()).Int64()
	require.NoError(j, err)
	require.EqualValues(j, 1, n, "it still holds it")
}

// giveUp is what follows when the time of a tryLock(wait) is over.
func (j *java) giveUp(thread int) {
	err := javaFailed.Run(j.Context(), j.rdb, []string{javaQueue, javaEnds}, j.owner(thread), j.wait.Milliseconds()).Err()
	if !errors.Is(err, redis.Nil) {
		require.NoError(j, err)
	}
}
