-- latch_look: read what is left to count.
--
-- KEYS  1 count   2 what counts the number: 'latch', or 'semaphore'
-- ARGV  none
-- Reply {1, left, pttl}   0: the latch is open, or was never set; pttl in ms, -1 if the key has no time to live
--       an error if the key holds no count, or a semaphore's
-- Reads only; both are of one moment.
local call, name, counts = redis.call, KEYS[1], KEYS[2]
local stands = call('GET', name)
if not stands then return {1, 0, -2} end
-- include latch
return {1, math.max(left, 0), call('PTTL', name)}
