-- sem_set: set how many permits a semaphore has, and hand out free permits.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many   2 PUBLISH, SPUBLISH or publish (see announce)   3 claim, ms   4 time to live of the token's key, ms
--       5 until when this may be executed, us by the server's clock   6 this call, so that a repeat of it is known; without a colon
--       7 for how long it may be repeated, ms
-- Reply {1}           set
--       {1, error}    set, but what is free could not be handed out, or that could not be announced
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic, and harmless when repeated: also where another call has set another number since, because this call is remembered among
-- the places, for longer than it may be repeated and executed. Permits that are out stay out, also if they are more than the new number.

-- include permits

local clock, limit, this = micros(), ARGV[5], ARGV[6]
-- include late
local failed = count()
if failed then return failed end
call('ZREMRANGEBYSCORE', places, '(' .. silence - now, '(0')
if not call('ZSCORE', places, this) then
  local left = call('PTTL', places)
  change(tonumber(ARGV[1]) - all())
  local more = tonumber(ARGV[7])
  call('ZADD', places, -now - more, this) -- as if it were called as late as that: what is older than a silence is forgotten
  local ends = left >= 4 * silence + more or redis.pcall('PEXPIRE', places, 4 * silence + more)
  if type(ends) == 'table' then
    call('ZREM', places, this) -- which must not stay without an end
    return ends
  end
end
stay(0)
local ok, refused, unheard = pcall(function()
  sweep(0)
  local wrong, untold = grant(ARGV[2], tonumber(ARGV[3]), ARGV[4])
  return wrong, untold or tellOthers(ARGV[2])
end)
if refused then unheard = type(refused) == 'table' and refused.err or refused end
if unheard then return {1, tostring(unheard)} end
return {1}
