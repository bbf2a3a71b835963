-- rw_leave: end a read-write lock that is given up early by who writes, at the moment until which it was to stay taken, and wake those
-- who sleep longer.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 owner       2 how much longer it is to stay, ms, at least 1   3 PUBLISH, SPUBLISH or publish (see announce)
-- Reply {1}           it ends then, or did before; those who read by then go on
--       {1, error}    the same, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not write; nothing was changed
-- Atomic, and harmless when repeated or late: it never lengthens. The owner is renamed, see leave.lua: so what the network has kept of
-- it is refused as after a release.
--
-- If the owner reads, too, the hash lasts as long as that lease, which is renewed. So the end of the stay is the value of the field that
-- stays: "till" and a time of the server's clock, ms. (No number: Redisson's scripts take the value of each field for a count, and count
-- to it.) Where that is over, whoever comes takes the lock for one that is read, see part/stay.lua; and when the owner has stopped to
-- read before, the hash ends with the stay. Clients of Redisson take the lock for written until then, or until the owner renews its
-- lease to read.
local call, name, stay = redis.call, KEYS[1], tonumber(ARGV[2])
local field, left = ARGV[1] .. ':write', string.gsub(ARGV[1], ':h(%d+)$', ':h0%1') .. ':write'
local ends = call('HGET', name, left)
if not ends and call('HEXISTS', name, field) == 0 then
  if call('HLEN', name) == 0 then call('DEL', name) end -- a replica refuses it
  return {-1}
end
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local again, ttl, one = ends, call('PTTL', name), false
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
local stands = again and string.sub(ends, 5) - now or ttl >= 0 and ttl or math.huge -- for how long it would stay without this
if again and stands <= stay then return {1} end
stay = math.min(stay, stands)
call('PEXPIRE', name, math.max(stay, rest, 1)) -- first: see leave.lua
call('HSET', name, left, string.format('till%.0f', now + stay))
if not again and call('HDEL', name, field) == 0 then call('DEL', name) end -- it ended just now: see leave.lua
if stands <= tonumber(ARGV[2]) then return {1} end
local command, to, text = ARGV[3], KEYS[2], '1'
local sent = redis.pcall(command, to, text)
if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', to, text)
end
if type(sent) == 'table' and sent.err then return {1, sent.err} end
return {1}
