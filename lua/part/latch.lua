-- latch: refuse a number that a semaphore counts.
-- Reads: call, name; stands: what it holds, counts: the key that says what counts the number
-- Replies an error if that is a semaphore
-- A number without that key counts as a latch, because Redisson writes no such key.
if stands and call('GET', counts) == 'semaphore' then
  return redis.error_reply('HOLDFAST the key ' .. name .. ' is a semaphore, and no latch')
end
