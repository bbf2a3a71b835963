-- recount: tell a holder's hold count, for a re-entry (one more) and for an unlock that is not the last (one less).
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 hold count from now on, at least 1   3 lease, ms: the time to live is at least this afterwards
--       4 time to live of the token's key, ms
-- Reply {1}           the count stands
--       {-1}          the owner does not hold the lock; nothing was changed
-- Atomic: count and times to live change together. The count is absolute, so running it again changes nothing.
-- The token's key is kept with the lock, as in renew. PEXPIRE of the lock comes before HSET also where it changes nothing:
-- Redis allows it when out of memory, and then allows the HSET behind it.
local call = redis.call
local name, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[3])
if call('HEXISTS', name, owner) == 0 then
  return {-1}
end
local left = call('PTTL', name)
if left < lease then
  left = lease
  call('PEXPIRE', KEYS[2], ARGV[4])
end
call('PEXPIRE', name, left)
call('HSET', name, owner, ARGV[2])
return {1}
