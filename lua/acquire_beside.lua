-- acquire_beside: acquire, beside other libraries whose locks are strings: if the key is a string, another library has the lock.
--
-- KEYS  1 lock hash   2 token     3 channel, with ARGV 7 and 8 only, as in acquire
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt of this same call may have run, else '0'
--       5 how many tokens are wanted   6 until when this may be executed
--       7 head start, ms   8 head starts up to so many ms are over if it is granted
-- Reply as those of acquire, and
--       {0, pttl, -1}  the key is a string; pttl in ms, -1 if it has no time to live. The string itself is not returned:
--                     whoever knows it can release the lock of those libraries
-- Atomic as acquire is. A string is only read: the script writes only after it knows that the key is not a string.
--
-- HLEN tells a string from a hash. This script asks once more than acquire, which must not cost more for users without this option.
-- GET tells a string from other types, by a command that the user may run anyway. (Rejected: TYPE, which is one more permission.
-- Rejected: GET at once, an error in the server's statistics whenever the lock is held by one of ours.)
local stands = redis.pcall('HLEN', KEYS[1])
if type(stands) == 'table' then
  stands = redis.pcall('GET', KEYS[1])
  if type(stands) == 'string' then
    local there = KEYS[1]
    -- include master
    return {0, redis.call('PTTL', KEYS[1]), -1}
  end
end
local call = redis.call
-- include clock
-- include acquire
