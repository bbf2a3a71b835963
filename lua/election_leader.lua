-- election_leader: read the leader at this moment, and what it said of itself.
--
-- KEYS  1 lock hash   2 announcement
-- ARGV  none
-- Reply {1, owner, token, value, pttl}   the leader: it holds the lock and has announced itself; pttl of the lease in ms
--       {0}                              there is none
-- Reads only; all values are of one moment.
local said = redis.call('GET', KEYS[2])
local token, owner, value = string.match(said or '', '^(%d+) (%S+) (.*)$')
if not token or redis.call('HEXISTS', KEYS[1], owner) == 0 then
  return {0}
end
return {1, owner, token, value, redis.call('PTTL', KEYS[1])}
