-- release: free a lock and wake those who wait for it.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 owner       2 PUBLISH, SPUBLISH or publish (see announce), empty to tell nobody
-- Reply {1}           released, and announced
--       {1, error}    released, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not hold the lock; nothing was changed
-- Atomic: nobody sees the lock free before the announcement is on its way. DEL is allowed when out of memory.
-- A refused announcement must not keep the lock: waiters then come back when the lease that they know of ends.
local call, name, command = redis.call, KEYS[1], ARGV[2]
local held = call('HEXISTS', name, ARGV[1]) == 1
if not held and call('HLEN', name) == 0 then call('DEL', name) end
if not held then return {-1} end
call('DEL', name)
if command == '' then return {1} end
local to, text = KEYS[2], '0'
local sent = redis.pcall(command, to, text)
if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', to, text)
end
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return {1}
