-- state: read what the server knows of a lock at this moment.
--
-- KEYS  1 lock hash   2 token
-- ARGV  none
-- Reply {1, owner, count, pttl, token}   held; token is '0' where none is known
--       {0, token}                       free
--       an error if there are more than 128 fields, which is not a lock
-- Reads only; all values are of one moment.
local token = redis.call('GET', KEYS[2]) or '0'
local fields = redis.call('HLEN', KEYS[1])
if fields > 128 then
  return redis.error_reply('HOLDFAST the key ' .. KEYS[1] .. ' is a hash of ' .. fields .. ' fields, not a lock')
end
local hash = redis.call('HGETALL', KEYS[1])
if not hash[1] then
  return {0, token}
end
return {1, hash[1], hash[2], redis.call('PTTL', KEYS[1]), token}
