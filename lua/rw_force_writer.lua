-- rw_force_writer: free a read-write lock of the owner that writes, and wake its waiters.
--
-- KEYS  1 lock hash   2 channel   3 writers, see rw_read.lua   4 token
-- ARGV  1 the owner that was seen to write   2 PUBLISH, SPUBLISH or publish (see announce), empty for no announcement   3 what the last token has
--       to be, empty: any
-- Reply {1}, {1, error}   as rw_write_release
--       {0, token}     the last token is another one ('0': none is known); nothing was changed
--       {-1, token}    the owner does not write; nothing was changed, also not its place if it waits to write
-- Atomic, and harmless when repeated, as far as owners are not used again, see force_owner.lua.
local last = redis.call('GET', KEYS[4]) or '0'
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then
  if redis.call('HLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end -- a replica refuses it
  return {-1, last}
end
if ARGV[3] ~= '' and ARGV[3] ~= last then return {0, last} end
-- include rw_write_release
