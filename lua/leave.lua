-- leave: end a lock that is released early, at the moment until which it must stay taken, and wake waiters that sleep longer.
--
-- KEYS  1 lock hash   2 channel   3 queue, of a lock whose waiters have places: see part/queue.lua
-- ARGV  1 owner       2 how much longer it must stay, ms, at least 1   3 PUBLISH, SPUBLISH or publish (see announce)
-- Reply {1}           it ends then, or did before: the time to live is at most ARGV[2]
--       {1, error}    the same, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not hold the lock; nothing was changed. For a repeat see taken.lua
-- Atomic, and harmless when repeated or late: it never lengthens, so a late attempt neither postpones the end that a
-- later attempt has set, nor revives the lock. The grant gave the lock a time to live that is long enough, so it never has
-- to be lengthened.
--
-- The owner loses the lock at once: its field gets a 0 before the number, "<uuid>:h07" for "<uuid>:h7". That is
-- still an owner of this library, to State, to ForceUnlock and in a queue, but no other command names it. So delayed
-- commands of this owner are refused as after a release: otherwise a renewal would set the whole lease anew.
-- The count is then 1. An owner without such a number keeps its name.
--
-- The announcement is the one of a release: waiters that receive it ask, are refused, and learn the new end. Otherwise
-- they would sleep until the old one. Waiters with places in a queue do not receive it; the first of them is told to ask,
-- in the mailbox of its client. PEXPIRE comes first because Redis allows it when out of memory, and then allows the
-- HSET behind it.
--
-- The key is never gone in between: where a cluster moves the slot, a script cannot make one that is missing at the source.
-- The first HDEL only shows whether it is permitted. If it is not, the key is made anew, because no other script needs HDEL;
-- there the first HSET shows whether HSET is permitted, before DEL.
--
-- Before 7.2 Redis deletes the key where a millisecond ends while it executes a PEXPIRE of one millisecond, about once in 15 000 times.
-- The lock has then ended in time, and an HSET behind that would make one that never ends. So the script checks whether the old field was
-- still there. (Other scripts set leases, of 4 ms at least.)
local call, name, rest = redis.call, KEYS[1], tonumber(ARGV[2])
local left = string.gsub(ARGV[1], ':h(%d+)$', ':h0%1')
local again = call('HEXISTS', name, left) == 1
if not again then
  -- include holder
end
local ttl = call('PTTL', name)
local ends = ttl >= 0 and ttl <= rest
if ends then rest = math.max(ttl, 1) end
if not ends or not again then call('PEXPIRE', name, rest) end
if not again and type(redis.pcall('HDEL', name, '')) == 'number' then
  call('HSET', name, left, '1')
  if call('HDEL', name, ARGV[1]) == 0 then call('DEL', name) end
elseif not again then
  call('HSET', name, ARGV[1], '1')
  call('DEL', name)
  call('HSET', name, left, '1')
  call('PEXPIRE', name, rest)
end
if ends then return {1} end
local function tell(to, text)
  local command = ARGV[3]
  -- include announce
  return type(sent) == 'table' and sent.err
end
local refused, first = tell(KEYS[2], '0'), KEYS[3] and redis.pcall('LINDEX', KEYS[3], 0)
local id, number = string.match(type(first) == 'string' and first or '', '^(.*):(h%d+)$')
if id then refused = tell(KEYS[2] .. ':' .. id, number .. ' - - -') or refused end
if refused then return {1, refused} end
return {1}
