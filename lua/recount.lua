-- recount: set a holder's hold count, for a re-entry (one more) and for an unlock that is not the last (one less).
--
-- KEYS  1 lock hash
-- ARGV  1 owner       2 hold count from now on, at least 1   3 lease, ms: the time to live is at least this afterwards
-- Reply {1}           the count is set
--       {-1}          the owner does not hold the lock; nothing was changed
-- Atomic: count and time to live change together. The count is absolute, so running it again changes nothing.
-- PEXPIRE comes first because Redis allows it when out of memory, and then allows the HSET behind it.
-- The token's key is left to renewals: with one key this works while a cluster moves the lock's slot, and with two it
-- would have to wait whenever they are on different servers.
local call = redis.call
local name = KEYS[1]
-- include holder
call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name)))
call('HSET', name, ARGV[1], ARGV[2])
return {1}
