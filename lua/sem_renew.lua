-- sem_renew: make the lease of an owner's permits last at least so long from now.
--
-- KEYS  1 free, 2 permits, 3 token, see part/permits.lua. All of them exist while an owner has permits: so it is renewed also while a
--       cluster moves the slot, during which the server defers scripts that name a missing key
-- ARGV  1 how many permits there are if the server knows of none yet   2 owner   3 lease, ms   4 time to live of the token's key, ms
--       5 how many permits the owner has
-- Reply {1}           renewed
--       {-1}          the owner has none, or fewer, or its lease has ended; permits are never brought back
-- Atomic, and harmless when repeated. Never shortens: an older renewal may arrive after a newer, longer one.

-- include permits

local owner, lease, n = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local ends = tonumber(call('ZSCORE', permits, owner) or nil)
call('ZREM', permits, '') -- a replica refuses it
if not ends or ends <= now or not whole(owner, n) then return {-1} end
if ends < now + lease then several(owner, 1, n, 'ZADD', string.format('%.0f', now + lease)) end
stay(lease)
if call('PTTL', tokens) < tonumber(ARGV[4]) then call('PEXPIRE', tokens, ARGV[4]) end
return {1}
