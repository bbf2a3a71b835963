-- recount: tell a holder's hold count, for a re-entry (one more) and for an unlock that is not the last (one less).
--
-- KEYS  1 lock hash
-- ARGV  1 owner       2 hold count from now on, at least 1   3 lease, ms: the time to live is at least this afterwards
--       4... other names that the owner may be known by; it keeps the one that it has
-- Reply {1}           the count stands
--       {-1}          the owner does not hold the lock; nothing was changed
-- Atomic: count and time to live change together. The count is absolute, so running it again changes nothing.
-- PEXPIRE comes first because Redis allows it when out of memory, and then allows the HSET behind it.
-- The token's key is left to renewals: with one key this works while a cluster moves the lock's slot, and with two it
-- would have to wait whenever they are on different servers.
-- "Not held" is said after a write that changes nothing, which a replica refuses: it may not have heard of the holder yet, and old
-- connections may lead to a primary that has become one.
local call = redis.call
local name = KEYS[1]
local owner = call('HEXISTS', name, ARGV[1]) == 1 and ARGV[1]
for i = 4, #ARGV do owner = owner or call('HEXISTS', name, ARGV[i]) == 1 and ARGV[i] end
if not owner and call('HLEN', name) == 0 then call('DEL', name) end
if not owner then
  return {-1}
end
call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name)))
call('HSET', name, owner, ARGV[2])
return {1}
