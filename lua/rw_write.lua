-- rw_write: grant an owner a read-write lock to write.
--
-- KEYS  1 lock hash   2 token   3 writers, see rw_read.lua
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt of this same call may have run, else '0'
--       5 until when this may be executed, us by the server's clock
--       6 for how long the owner has a place among the waiting writers if it is refused, ms; 0: it has none
-- Reply {1, token, token, time}  granted: the owner writes once; the token is a decimal string, greater than every one before
--       {0, ms, '', owner}   another owner writes or reads, with so much of the lease left, or the lock stays taken for so long; of several readers it is one, and the longest lease
--       {0, pttl, '', field...}   the key is not a read-write lock: its fields, or how many there are of more than four
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic: the hash, its time to live, the token and the place change together or not at all. A repeated attempt gets the outcome of the
-- first, with the lease counted anew.
--
-- Readers whose leases have all ended do not count: their fields stay if a client of Redisson goes on renewing the hash.
local call = redis.call
local name, tokens, writers, owner, ms = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])
-- include clock
local limit = ARGV[5]
-- include late
local mode, field = call('HGET', name, 'mode'), owner .. ':write'
-- include stay
local mine = mode == 'write' and ARGV[4] == '1' and call('HEXISTS', name, field) == 1
local blocked, dead = nil, false
if mode == 'read' then
  local one = false
  -- include readers
  if rest > 0 then
    local there = name
    -- include master
    blocked = {0, rest, '', reader}
  else
    dead = true
  end
elseif not mine then
  local ticket = ''
  local function refuse()
    -- include other
  end
  blocked = refuse()
end
if blocked then
  if ARGV[6] ~= '0' then
    local now, stays = time[1] * 1000 + math.floor(time[2] / 1000), math.max(call('PTTL', writers), tonumber(ARGV[6]))
    call('ZADD', writers, now + ARGV[6], owner)
    local limited = redis.pcall('PEXPIRE', writers, stays)
    if type(limited) == 'table' then -- places without an end must not stay
      redis.pcall('ZREM', writers, owner)
      return limited
    end
  end
  return blocked
end
local token, last = clock, call('GET', tokens)
if mine and last then
  if call('PTTL', name) < ms then call('PEXPIRE', name, ms) end
  return {1, last, last, clock}
end
if last and (#last ~= #token or last >= token or string.find(last, '%D')) then
  -- include number
  token = string.format('%.0f', math.max(n + 1, tonumber(token)))
end
if dead then call('DEL', name) end
call('SET', tokens, token, 'PX', ARGV[3])
call('HSET', name, 'mode', 'write', field, '1')
local lease = ms
-- include lease
redis.pcall('ZREM', writers, owner) -- a place ends by itself, and a grant without an end would not
return {1, token, token, clock}
