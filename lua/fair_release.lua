-- fair_release: free a lock, or leave its queue, and hand a free lock to the next waiter.
--
-- KEYS  see part/queue.lua
-- ARGV  1 owner       2 PUBLISH or SPUBLISH   3 claim, ms   4 time to live of the token's key, ms
--       5... owners that had the lock as this one's, in a run: their places end
-- Reply {1}           released
--       {1, error}    released, but the lock could not be handed to the next waiter, or that could not be told
--       {-1}          the owner did not hold the lock; it has no place in the queue any more
-- Atomic: nobody sees the lock free while somebody waits who can be reached. Harmless when repeated: what another was handed
-- meanwhile is not touched. Out of memory the release goes through, and the waiters find out by themselves.

-- include queue

local owner = ARGV[1]
local held = call('HEXISTS', name, owner) == 1
if held then
  call('DEL', name)
elseif call('ZCARD', deadlines) > 0 then
  drop(owner)
end
-- What fails from here on must not look as if nothing had been released.
local ok, failed, unheard = pcall(function()
  if held then call('ZREM', deadlines, owner) end -- it has taken what it was handed
  served(5)
  if held or call('HLEN', name) == 0 then return grant(ARGV[2], tonumber(ARGV[3]), ARGV[4]) end
end)
if not held then return {-1} end
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
