-- release: free a lock and wake those who wait for it.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 owner       2 PUBLISH or SPUBLISH   3... other names that the owner may be known by
-- Reply {1}           released, and announced
--       {1, error}    released, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not hold the lock; nothing was changed
-- Atomic: nobody sees the lock free before the announcement is on its way. DEL is allowed when out of memory.
-- A refused announcement must not keep the lock: waiters then come back when the lease that they know of ends.
-- A cluster before Redis 7 does not know SPUBLISH, and its clients listen with SUBSCRIBE.
-- "Not held" is said after a write that changes nothing, which a replica refuses: it may not have heard of the holder yet, and old
-- connections may lead to a primary that has become one.
local name = KEYS[1]
local held = redis.call('HEXISTS', name, ARGV[1]) == 1
for i = 3, #ARGV do held = held or redis.call('HEXISTS', name, ARGV[i]) == 1 end
if not held and redis.call('HLEN', name) == 0 then redis.call('DEL', name) end
if not held then
  return {-1}
end
redis.call('DEL', name)
local sent = redis.pcall(ARGV[2], KEYS[2], '0')
if type(sent) == 'table' and sent.err and ARGV[2] ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', KEYS[2], '0')
end
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return {1}
