-- state: what the server knows of a lock at this moment.
--
-- KEYS  1 lock hash   2 token
-- ARGV  none
-- Reply {1, owner, count, pttl, token}   held; token is '0' where none is known
--       {0, token}                       free
-- Reads only; all values are of one moment.
local token = redis.call('GET', KEYS[2]) or '0'
local hash = redis.call('HGETALL', KEYS[1])
if not hash[1] then
  return {0, token}
end
return {1, hash[1], hash[2], redis.call('PTTL', KEYS[1]), token}
