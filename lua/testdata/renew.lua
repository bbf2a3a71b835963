-- renew: make a holder's lease last at least so long from now.
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
-- Reply {1}           renewed: the time to live is at least the lease
--       {-1}          the owner does not hold the lock; nothing was changed, the key is never brought back
-- Atomic, and harmless when repeated. Never shortens: an older renewal may arrive after a newer, longer one.
-- The token's key is kept with the lock, so that its value is known for as long as the lock is held. It outlives every lease
-- that was set together with it, so it has time enough when the lease is left alone.

local call = redis.call
local name, lease = KEYS[1], tonumber(ARGV[2])
local held = call('HEXISTS', name, ARGV[1]) == 1
if not held and call('HLEN', name) == 0 then call('DEL', name) end
if not held then return {-1} end
if call('PTTL', name) < lease then
  call('PEXPIRE', name, lease)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return {1}
