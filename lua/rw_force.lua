-- rw_force: free a read-write lock of the readers that were seen there, and wake the waiters.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 -           2 PUBLISH, SPUBLISH or publish (see announce), empty for no announcement   3... the readers
-- Reply {1}           some of them read, and have lost the lock
--       {1, error}    the same, but the announcement was refused
--       {-1}          none of them read; nothing was changed
-- Atomic, and harmless when repeated: later readers are not among them. If only readers are left whose leases have ended, the lock is
-- free, also for clients of Redisson.
local call = redis.call
local name, command, found = KEYS[1], ARGV[2], 0
-- include timeouts
for i = 3, #ARGV do
  local count = tonumber(call('HGET', name, ARGV[i]) or nil)
  if count then
    call('HDEL', name, ARGV[i])
    if string.find(ARGV[i], ':h%d+$') then count = 1 end
    for n = 1, math.min(count, 16) do
      local gone = redis.pcall('DEL', prefix .. ARGV[i] .. ':rwlock_timeout:' .. n)
      if type(gone) == 'table' and not string.find(gone.err, 'undeclared') then return gone end -- see part/readers.lua
    end
    found = found + 1
  end
end
if found == 0 then
  if call('HLEN', name) == 0 then call('DEL', name) end -- a replica refuses it
  return {-1}
end
local mode = call('HGET', name, 'mode')
if mode == 'write' then
  -- include clock
  -- include stay
end
if mode == 'read' then
  local one = true
  -- include readers
  if rest == 0 then call('DEL', name) end
end
-- include free
return {1}
