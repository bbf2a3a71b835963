-- leave: end a lock that is given up early, at the moment until which it was to stay taken, and wake those who sleep longer.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 owner       2 how much longer it is to stay, ms, at least 1   3 PUBLISH or SPUBLISH
-- Reply {1}           it ends then, or did before: the time to live is at most ARGV[2]
--       {1, error}    the same, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not hold the lock; nothing was changed
-- Atomic, and harmless when repeated or late: it never lengthens, so a straggler does not put off the end that was set by the attempt
-- after it, nor revive anything. Whoever took the lock for that long gave it a time to live to match, so there is nothing to lengthen.
-- The announcement is the one of a release: who hears of it asks, is refused, and is told the new end. Who sleeps until the old one
-- would else oversleep.
-- PEXPIRE comes first because Redis allows it when out of memory.
local call, name, rest = redis.call, KEYS[1], tonumber(ARGV[2])
-- include holder
local left = call('PTTL', name)
if left >= 0 and left <= rest then return {1} end
call('PEXPIRE', name, ARGV[2])
local command, to, text = ARGV[3], KEYS[2], '0'
-- include announce
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return {1}
