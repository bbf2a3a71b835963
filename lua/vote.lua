-- vote: one master's part in a quorum lock: grant it to an owner, tell the owner's hold count or the token that the masters agree
-- on, or take the owner back that it has forgotten.
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms   4 hold count   5 token that the owner proposes
-- Reply {1, token, 1}    the owner held it before and holds it now, so many times; the token is the greater one of the last and
--                        the proposed one, as decimal text
--       {1, token, 0, last}   the owner holds it now; the token is the proposed one, or one more than the last if that is not smaller.
--                        All above the last one are the owner's: it may use those up to the token for others that it hands the lock to
--       {0, pttl, owner, last}   another owner holds it; pttl in ms, -1 if the hash has no time to live; last: its token, '0' if there
--                        is none
-- Atomic, and harmless when repeated: who holds it keeps it, and the lease does not get shorter.
-- A grant counts when a majority has replied with one and the same token, or has been told the greatest of them by this script. Tokens
-- are proposed, because the masters' clocks differ: what each took from its own would have to be told to the others every
-- time, which is a second round trip.
local call = redis.call
local name, owner, token = KEYS[1], ARGV[1], ARGV[5]
local held = call('HLEN', name) > 0
if held and call('HEXISTS', name, owner) == 0 then
  return {0, call('PTTL', name), call('HKEYS', name)[1], call('GET', KEYS[2]) or '0'}
end
local last = call('GET', KEYS[2])
if last and (#last > #token or #last == #token and last >= token or string.find(last, '%D')) then
  local n = not string.find(last, '%D') and tonumber(last)
  if not n or n >= 9007199254740991 then
    return redis.error_reply('HOLDFAST the token key ' .. KEYS[2] .. ' does not hold a token: ' .. last)
  end
  token = held and last or string.format('%.0f', n + 1)
end
local lease = ARGV[2]
if held then
  lease = math.max(tonumber(lease), call('PTTL', name))
  call('PEXPIRE', name, lease) -- first, because Redis allows it when out of memory, and then allows what is behind it
end
call('SET', KEYS[2], token, 'PX', ARGV[3])
call('HSET', name, owner, ARGV[4])
if held then return {1, token, 1} end
local limited = redis.pcall('PEXPIRE', name, lease)
if type(limited) == 'table' then -- refused: without an end it must not stay
  redis.pcall('DEL', name)
  return limited
end
return {1, token, 0, last or '0'}
