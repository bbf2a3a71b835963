-- rw_write_release: give back a read-write lock that an owner writes, or its place among those who wait to write, and wake who waits.
--
-- KEYS  1 lock hash   2 channel   3 writers, see rw_read.lua
-- ARGV  1 owner       2 PUBLISH, SPUBLISH or publish (see announce), empty to tell nobody
-- Reply {1}           given back, and announced
--       {1, error}    given back, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not write; its place, if it had one, was given back, and that is announced if no other counts
-- Atomic: nobody sees the lock free before the announcement is on its way.
--
-- If the owner reads too, it goes on reading, as one of any number: the hash lasts as long as its lease to read. Who reads
-- while somebody writes is that owner, by whatever name, see ARGV[6] of rw_read.lua.
local call = redis.call
local name, command, field = KEYS[1], ARGV[2], ARGV[1] .. ':write'
if call('HEXISTS', name, field) == 0 then
  -- Also a write that changes nothing, which a replica refuses: it may not know of the holder yet.
  if call('ZREM', KEYS[3], ARGV[1]) == 1 then
    -- include clock
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local function tell()
      -- include free
    end
    if call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0 then tell() end -- those of the dead are there for as long as others'
  end
  return {-1}
end
call('ZREM', KEYS[3], ARGV[1]) -- of an attempt that the network kept until a later one was granted
call('HDEL', name, field)
local one = false
-- include readers
if rest > 0 then
  call('PEXPIRE', name, rest)
  call('HSET', name, 'mode', 'read')
else
  call('DEL', name)
end
-- include free
return {1}
