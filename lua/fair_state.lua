-- fair_state: what the server knows of a fair lock at this moment.
--
-- KEYS  see fair.lua
-- ARGV  none
-- Reply {1, owner, count, pttl, token, waiters}   held; token is '0' where none is known; waiters whose places count
--       {0, token, waiters}                       free
-- Reads only; all values are of one moment.
local token, waiters = call('GET', tokens) or '0', call('ZCOUNT', deadlines, '(' .. now, '+inf')
local hash = call('HGETALL', name)
if not hash[1] then
  return {0, token, waiters}
end
return {1, hash[1], hash[2], call('PTTL', name), token, waiters}
