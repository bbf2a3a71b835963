-- latch_look: what is left to count.
--
-- KEYS  1 count
-- ARGV  none
-- Reply {1, left, pttl}   0: the latch is open, or was never set; pttl in ms, -1 if the key has no time to live
--       an error if the key holds no count
-- Reads only; both are of one moment.
local text = redis.call('GET', KEYS[1])
if not text then return {1, 0, -2} end
local left = not string.find(text, '[^%d-]') and tonumber(text)
if not left then return redis.error_reply('HOLDFAST the key ' .. KEYS[1] .. ' does not hold a count') end
return {1, math.max(left, 0), redis.call('PTTL', KEYS[1])}
