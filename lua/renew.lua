-- renew: make a holder's lease last at least so long from now.
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 the name that it is to be known by from now on, or empty   5... other names that it may be known by
-- Reply {1}           renewed: the time to live is at least the lease
--       {-1}          the owner does not hold the lock; nothing was changed, the key is never brought back
-- Atomic, and harmless when repeated. Never shortens: an older renewal may arrive after a newer, longer one.
-- The token's key is kept with the lock, so that its value is known for as long as the lock is held. It outlives every lease
-- that was set together with it, so it has time enough when the lease is left alone.
-- A new name is for a lock that was handed on within a client. DEL comes first because Redis allows it when out of memory, and
-- then allows what is behind it. (Rejected: HDEL, which leaves the hash its time to live if HSET comes before it. It is one more
-- permission, and one that is missing would leave two owners in the hash.)
-- "Not held" is said after a write that changes nothing, which a replica refuses: it may not have heard of the holder yet, and old
-- connections may lead to a primary that has become one.
local call = redis.call
local name, lease = KEYS[1], tonumber(ARGV[2])
local known = call('HEXISTS', name, ARGV[1]) == 1 and ARGV[1]
for i = 5, #ARGV do known = known or call('HEXISTS', name, ARGV[i]) == 1 and ARGV[i] end
if not known and call('HLEN', name) == 0 then call('DEL', name) end
if not known then
  return {-1}
end
local ttl, new = call('PTTL', name), ARGV[4] or ''
if ttl < lease then
  call('PEXPIRE', name, lease)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
if new ~= '' and new ~= known then
  local count = call('HGETALL', name)[2]
  call('DEL', name)
  call('HSET', name, new, count)
  call('PEXPIRE', name, math.max(ttl, lease))
end
return {1}
