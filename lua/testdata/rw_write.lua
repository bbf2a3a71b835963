-- rw_write: grant an owner a read-write lock to write.
--
-- KEYS  1 lock hash   2 token   3 writers, see rw_read.lua
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt of this same call may have run, else '0'
--       5 until when this may be executed, us by the server's clock
--       6 for how long the owner has a place among the waiting writers if it is refused, ms; 0: it has none
-- Reply {1, token, token, time}  granted: the owner writes once; the token is a decimal string, greater than every one before
--       {0, ms, '', owner}   somebody else writes, or reads, and the lease has so much left, or the lock stays taken for so long; of readers it is one of them and the longest lease
--       {0, pttl, '', field...}   the key is no read-write lock: its fields, or how many there are of more than four
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic: the hash, its time to live, the token and the place change together or not at all. A repeated attempt gets the outcome of the
-- first, with the lease counted anew.
--
-- Readers whose leases have all ended are no readers: their fields are left where a client of Redisson goes on renewing the hash.
local call = redis.call
local name, tokens, writers, owner, ms = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local limit = ARGV[5]
if limit and (#limit < #clock or #limit == #clock and limit < clock) then return {-2, clock} end
local mode, field = call('HGET', name, 'mode'), owner .. ':write'
local stays = nil
if mode == 'write' and call('HLEN', name) <= 128 then
  for _, left in ipairs(call('HKEYS', name)) do
    local ends = string.find(left, ':h0%d+:write$') and string.match(call('HGET', name, left), '^till(%d+)$')
    if ends then
      stays = ends - time[1] * 1000 - math.floor(time[2] / 1000)
      if stays <= 0 then
        call('HDEL', name, left) -- first: it is allowed when out of memory, and then what is behind it is
        mode = call('HLEN', name) > 1 and 'read' or nil
        if mode then call('HSET', name, 'mode', mode) else call('DEL', name) end
      end
    end
  end
end
local mine = mode == 'write' and ARGV[4] == '1' and call('HEXISTS', name, field) == 1
local blocked, dead = nil, false
if mode == 'read' then
  local one = false
  local rest = 0
  local reader, looks = nil, 0
  local fields = call('HLEN', name)
  local prefix = (string.find(name, '{', 1, true) and name or '{' .. name .. '}') .. ':'
  if fields <= 257 then
    local hash = call('HGETALL', name)
    for i = 1, #hash, 2 do
      local owner = hash[i]
      local leases = string.find(owner, ':h%d+$') and 1 or tonumber(hash[i + 1]) or 0
      if owner == 'mode' or string.find(owner, ':write$') then leases = 0 end
      looks = looks + leases
      if looks > 512 or one and rest > 0 then break end
      for n = 1, leases do
        local left = call('PTTL', prefix .. owner .. ':rwlock_timeout:' .. n)
        if left > rest then rest, reader = left, owner end
      end
    end
  end
  if fields > 257 or looks > 512 then
    rest, reader = math.max(call('PTTL', name), 1), nil
  end
  if rest > 0 then blocked = {0, rest, '', reader} else dead = true end
elseif not mine then
  local ticket = ''
  local function refuse()
    local fields = call('HLEN', name)
    if fields > 0 then
      local pttl = call('PTTL', name)
      if fields > 128 then return {0, pttl, ticket, fields} end
      local some = call('HKEYS', name)
      if mode then
        for _, field in ipairs(some) do
          local writer = string.match(field, '^(.*):write$')
          if writer then return {0, stays or pttl, ticket, writer} end
        end
      end
      if fields > 4 then return {0, pttl, ticket, fields} end
      return {0, pttl, ticket, some[1], some[2], some[3], some[4]}
    end
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
  local n = not string.find(last, '%D') and tonumber(last)
  if not n or n >= 9007199254740991 then
    return redis.error_reply('HOLDFAST the token key ' .. tokens .. ' does not hold a token: ' .. last)
  end
  token = string.format('%.0f', math.max(n + 1, tonumber(token)))
end
if dead then call('DEL', name) end
call('SET', tokens, token, 'PX', ARGV[3])
call('HSET', name, 'mode', 'write', field, '1')
local lease = ms
local limited = redis.pcall('PEXPIRE', name, lease)
if type(limited) == 'table' then
  redis.pcall('DEL', name)
  return limited
end
redis.pcall('ZREM', writers, owner) -- a place ends by itself, and a grant without an end would not
return {1, token, token, clock}
