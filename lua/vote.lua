-- vote: one master's part in a quorum lock: grant it to an owner, set the owner's hold count or the token that the masters agree
-- on, or restore the owner that it has forgotten.
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms   4 hold count   5 token that the owner proposes
--       6 until when this may be executed, us by this master's clock; none: at any time
-- Reply {1, token, 1, '', time}    the owner held it before and holds it now, so many times; the token is the greater one of the last
--                        and the proposed one, as decimal text
--       {1, token, 0, last, time}   the owner holds it now; the token is the proposed one, or one more than the last if that is not smaller.
--                        All above the last one are the owner's: it may use those up to the token for hand-offs
--       {0, pttl, owner, last, time}   another owner holds it, or how many fields there are if it is not a lock; pttl in ms, -1 if the hash
--                        has no time to live; last: its token, '0' if there is none
--       {-2, time}   it came too late, and nothing was changed
--       time: the server's, in us as decimal text
-- Atomic, and harmless when repeated: who holds it keeps it, and the lease does not get shorter.
-- A grant counts when a majority has replied with one and the same token, or has been told the greatest of them by this script. Tokens
-- are proposed, because the masters' clocks differ: what each took from its own would have to be told to the others every
-- time, which is a second round trip. An owner proposes what it believes that the masters' clocks show; it is told them for that.
-- A proposal that nobody can have by such clocks is as if the owner had proposed the time: one more than a day above both the clock and
-- the last token, or one that leaves no room for others. Tokens would no more grow by the clocks when masters have forgotten it. Who holds
-- the lock is told a token that another master granted, and one that is above this clock only because the clock was set back has to be taken.
local call = redis.call
local name, tokens, owner, lease, token = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[5]
-- include clock
local limit = ARGV[6]
-- include late
local held = call('HLEN', name) > 0
if held and call('HEXISTS', name, owner) == 0 then
  local there = name
  -- include master
  local fields = call('HLEN', name)
  local holder = fields > 128 and fields .. ' fields' or call('HKEYS', name)[1] -- not all of somebody else's is looked at
  return {0, call('PTTL', name), holder, call('GET', tokens) or '0', clock}
end
local last = call('GET', tokens)
if #token > #clock or #token == #clock and token > clock then -- mostly it is not, and then needs no numbers
  local day, most = 86400000000, 9007199254740991
  local known = held and most or math.max(tonumber(clock), tonumber(last or 0) or 0)
  if tonumber(token) > math.min(known, most - 2 * day) + day then token = clock end
end
if last and (#last > #token or #last == #token and last >= token or string.find(last, '%D')) then
  -- include number
  token = held and last or string.format('%.0f', n + 1)
end
if held then
  lease = math.max(tonumber(lease), call('PTTL', name))
  call('PEXPIRE', name, lease) -- first, because Redis allows it when out of memory, and then allows what is behind it
end
call('SET', tokens, token, 'PX', ARGV[3])
call('HSET', name, owner, ARGV[4])
if held then return {1, token, 1, '', clock} end
-- include lease
return {1, token, 0, last or '0', clock}
