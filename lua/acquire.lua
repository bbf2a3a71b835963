-- acquire: grant a free lock to an owner.
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 lease, ms   3 '1' if an earlier attempt of this same call may have run, else '0'
-- Reply {1, token}    granted: the owner holds it once; token is a decimal string, greater than every one before
--       {0, pttl}     another owner holds it; pttl in ms, -1 if the hash has no time to live
-- Atomic: the hash, its time to live and the token change together or not at all. A repeated attempt gets the outcome of
-- the first, with the lease counted anew, because the caller trusts it from the moment of the *last* sending.
--
-- The uncontended path is what a lock costs, so it makes no call that it could spare: HLEN tells "free" and "not a hash"
-- at once, and whether the owner is there already is asked only when it can be.
local call = redis.call
local name, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
if call('HLEN', name) > 0 then
  if ARGV[3] == '1' and call('HEXISTS', name, owner) == 1 then
    local token = call('GET', KEYS[2]) or '0'
    call('HSET', name, owner, 1)
    call('PEXPIRE', name, lease)
    return {1, token}
  end
  return {0, call('PTTL', name)}
end
-- A token is the server's time in microseconds, or one more than the last if the clock does not allow that: tokens go on
-- growing when a failover or a FLUSHALL loses the last one, and when the clock is set back. Both fit a double (< 2^53).
local token = 0
local last = call('GET', KEYS[2])
if last then
  token = tonumber(last)
  if not token or token < 0 or token >= 9007199254740991 then
    return redis.error_reply('HOLDFAST the token key ' .. KEYS[2] .. ' does not hold a token: ' .. last)
  end
end
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
if micros > token then token = micros else token = token + 1 end
token = string.format('%.0f', token)
call('HSET', name, owner, 1)
call('PEXPIRE', name, lease)
-- An hour, or twice the lease: after that the clock alone makes the next token greater.
call('SET', KEYS[2], token, 'PX', math.max(3600000, 2 * lease))
return {1, token}
