-- sem_release: give back the permits of an owner, or leave the queue of a semaphore, and hand out what is free.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many permits there are if the server knows of none yet   2 owner   3 PUBLISH, SPUBLISH or publish (see announce)   4 claim, ms
--       5 time to live of the token's key, ms
-- Reply {1}           given back
--       {1, error}    given back, but what is free could not be handed out, or that could not be told
--       {-1}          the owner had none, or its lease had ended; it has no place in the queue any more
-- Atomic: nobody sees permits free while somebody waits for them who can be reached. Harmless when repeated: what others were granted
-- meanwhile is not touched. Out of memory the release goes through, and the waiters find out by themselves.

-- include permits

local owner = ARGV[2]
local held, known, ends = has(owner), call('GET', name), call('ZSCORE', permits, owner)
local n = take(owner)
if n > 0 and tonumber(known or nil) then
  local changed = redis.pcall('INCRBY', name, n)
  if type(changed) == 'table' then -- permits that are neither out nor free would be lost
    several(owner, 1, n, 'ZADD', ends)
    return changed
  end
end
-- What fails from here on must not look as if nothing had been given back.
local ok, failed, unheard = pcall(function()
  drop(owner)
  local wrong = count()
  if wrong then return wrong end
  sweep(0)
  local refused, untold = grant(ARGV[3], tonumber(ARGV[4]), ARGV[5])
  return refused, untold or ARGV[3] ~= '' and tellOthers(ARGV[3]) or nil
end)
if not held then return {-1} end
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
