-- latch: refuse what no latch counts.
-- Reads: call, name; stands: what the key holds, nothing if there is none, counts: the key that says what counts the number
-- Sets:  left: what is left to count, as a number; no number if there is no latch
-- Replies an error if the key holds no number, or a semaphore's
-- A number without the other key counts as a latch, because Redisson writes no such key.
local left = stands and not string.find(stands, '[^%d-]') and tonumber(stands)
if stands and not left then return redis.error_reply('HOLDFAST the key ' .. name .. ' does not hold a count') end
if stands and call('GET', counts) == 'semaphore' then
  return redis.error_reply('HOLDFAST the key ' .. name .. ' is a semaphore, not a latch')
end
