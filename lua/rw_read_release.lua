-- rw_read_release: give back a read-write lock that an owner reads, and wake those who wait for it.
--
-- KEYS  1 lock hash   2 channel   3 the owner's lease to read
-- ARGV  1 owner       2 PUBLISH, SPUBLISH or publish (see announce), empty to tell nobody
-- Reply {1}           given back, and announced if nobody is left
--       {1, error}    given back, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not read; nothing was changed
-- Atomic: nobody sees the lock free before the announcement is on its way.
--
-- If others are left, it is looked whether they are there only where somebody listens: else nobody waits for that, and it costs time
-- that grows with their number. The lease of who writes and reads at once is left as it is.
local call = redis.call
local name, command = KEYS[1], ARGV[2]
if call('HDEL', name, ARGV[1]) == 0 then return {-1} end -- a write also if it changes nothing: a replica refuses it
call('DEL', KEYS[3])
local left = call('HLEN', name)
if left > 1 then
  if command ~= 'publish' then
    local heard = redis.pcall('PUBSUB', command == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[2])
    if heard[2] == 0 then return {1} end
  end
  if call('HGET', name, 'mode') == 'write' then return {1} end
  local one = true
  -- include readers
  if rest > 0 then return {1} end
end
call('DEL', name)
-- include free
return {1}
