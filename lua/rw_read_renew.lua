-- rw_read_renew: make the lease of an owner that reads last at least so long from now, and set its count.
--
-- KEYS  1 lock hash   2 token   3 the owner's lease to read
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms   4 hold count from now on; 0: as it is
-- Reply {1}           renewed, and the count is set
--       {-1}          the owner does not read; nothing was changed, and the keys are never brought back
-- Atomic, and harmless when repeated. Never shortens: an older renewal may arrive after a newer, longer one.
local call = redis.call
local name, ms = KEYS[1], tonumber(ARGV[2])
-- include holder
call('PEXPIRE', name, math.max(ms, call('PTTL', name))) -- first: see recount.lua
call('SET', KEYS[3], '1', 'PX', math.max(ms, call('PTTL', KEYS[3])))
local mode = call('HGET', name, 'mode')
if mode == 'write' then -- also those may read then who do not know of a stay, as clients of Redisson
  -- include clock
  -- include stay
end
if ARGV[4] ~= '0' then call('HSET', name, ARGV[1], ARGV[4]) end
if call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then call('PEXPIRE', KEYS[2], ARGV[3]) end
return {1}
