-- rw_force_writer: free a read-write lock of the owner that writes, and wake those who wait for it.
--
-- KEYS  1 lock hash   2 channel   3 writers, see rw_read.lua   4 token
-- ARGV  1 owner, who was seen to write   2 PUBLISH, SPUBLISH or publish (see announce), empty to tell nobody   3 what the last token has
--       to be, empty: any
-- Reply {1}, {1, error}   as rw_write_release
--       {0, token}     the last token is another one ('0': none is known); nothing was changed
--       {-1, token}    the owner does not write; nothing was changed, also not its place if it waits to write
-- Atomic, and harmless when repeated, as far as owners are not used again, see force_owner.lua.
local last = redis.call('GET', KEYS[4]) or '0'
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then
  if redis.call('HLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end -- a replica refuses it
  return {-1, last}
end
if ARGV[3] ~= '' and ARGV[3] ~= last then return {0, last} end
local call = redis.call
local name, command, field = KEYS[1], ARGV[2], ARGV[1] .. ':write'
if call('HEXISTS', name, field) == 0 then
  -- Also a write that changes nothing, which a replica refuses: it may not know of the holder yet.
  if call('ZREM', KEYS[3], ARGV[1]) == 1 then
    local time = call('TIME')
    local micros = time[2]
    if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
    local clock = time[1] .. micros
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local function tell()
      if command ~= '' then
        local to, text = KEYS[2], '1'
        local sent = redis.pcall(command, to, text)
        if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
          sent = redis.pcall('PUBLISH', to, text)
        end
        if type(sent) == 'table' and sent.err then return {1, sent.err} end
      end
    end
    if call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0 then tell() end -- those of the dead are there for as long as others'
  end
  return {-1}
end
call('ZREM', KEYS[3], ARGV[1]) -- of an attempt that the network kept until a later one was granted
call('HDEL', name, field)
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
if rest > 0 then
  call('PEXPIRE', name, rest)
  call('HSET', name, 'mode', 'read')
else
  call('DEL', name)
end
if command ~= '' then
  local to, text = KEYS[2], '1'
  local sent = redis.pcall(command, to, text)
  if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
    sent = redis.pcall('PUBLISH', to, text)
  end
  if type(sent) == 'table' and sent.err then return {1, sent.err} end
end
return {1}
