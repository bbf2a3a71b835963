-- sem_set: set how many permits a semaphore has, and hand out what is free.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many   2 PUBLISH, SPUBLISH or publish (see announce)   3 claim, ms   4 time to live of the token's key, ms
-- Reply {1}           set
--       {1, error}    set, but what is free could not be handed out, or that could not be told
-- Atomic, and harmless when repeated. Those that are out stay out, also if there are more of them.

-- include permits

local failed = count()
if failed then return failed end
change(tonumber(ARGV[1]) - all())
stay(0)
local ok, refused, unheard = pcall(function()
  sweep(0)
  local wrong, untold = grant(ARGV[2], tonumber(ARGV[3]), ARGV[4])
  return wrong, untold or tellOthers(ARGV[2])
end)
if refused then unheard = type(refused) == 'table' and refused.err or refused end
if unheard then return {1, tostring(unheard)} end
return {1}
