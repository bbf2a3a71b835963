-- rw_read_release: give back a read-write lock that an owner reads, and wake its waiters.
--
-- KEYS  1 lock hash   2 channel   3 the owner's lease to read
-- ARGV  1 owner       2 PUBLISH, SPUBLISH or publish (see announce), empty for no announcement
-- Reply {1}           given back, and announced if no reader is left, or if the lock now ends earlier, see rw_leave.lua
--       {1, error}    given back, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not read; nothing was changed. For a repeat see taken.lua
-- Atomic: the lock is never free before the announcement is on its way.
--
-- If others are left, the script checks whether they are there only if some client listens: otherwise there are no waiters, and the
-- check costs time that grows with the number of readers. The lease of an owner that writes and reads at once is not changed. A lock
-- that stays taken after a write (rw_leave.lua) now ends with its stay: its waiters are told, because they may know the later end.
local call = redis.call
local name, command = KEYS[1], ARGV[2]
if call('HDEL', name, ARGV[1]) == 0 then return {-1} end -- a write also if it changes nothing: a replica refuses it
call('DEL', KEYS[3])
local mode, ends = call('HLEN', name) > 1 and call('HGET', name, 'mode'), 0
if mode == 'write' then
  -- include clock
  -- include stay
  if not stays then return {1} end
  ends = math.max(stays, 0)
elseif mode then
  if command ~= 'publish' then
    local heard = redis.pcall('PUBSUB', command == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[2])
    if heard[2] == 0 then return {1} end
  end
end
if mode then
  local one = ends == 0
  -- include readers
  if rest > ends then return {1} end
end
if ends > 0 then call('PEXPIRE', name, ends) else call('DEL', name) end
-- include free
return {1}
