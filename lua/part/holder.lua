-- holder: refuse an owner that does not hold the lock.
-- Reads: call, name; ARGV[1], the owner
-- Sets:  held
-- Replies {-1} to such an owner
-- The refusal follows a write that changes nothing, because a replica refuses every write. A replica
-- may not know of the holder yet, and an old connection may lead to a primary that has become one.
local held = call('HEXISTS', name, ARGV[1]) == 1
if not held and call('HLEN', name) == 0 then call('DEL', name) end
if not held then return {-1} end
