-- fair_state: read what the server knows of a fair lock at this moment.
--
-- KEYS  see part/queue.lua
-- ARGV  none
-- Reply {1, owner, count, pttl, token, waiters}   held; token is '0' where none is known; waiters whose places count
--       {0, token, waiters}                       free
--       an error if there are more than 128 fields, which is not a lock
-- Reads only; all values are of one moment.

-- include queue

local token, waiters = call('GET', tokens) or '0', call('ZCOUNT', deadlines, '(' .. now, '+inf')
local owner, count = whose()
if not owner then
  return {0, token, waiters}
end
if not count then
  return redis.error_reply('HOLDFAST the key ' .. name .. ' is a hash of ' .. owner .. ', not a lock')
end
return {1, owner, count, call('PTTL', name), token, waiters}
