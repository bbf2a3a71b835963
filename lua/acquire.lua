-- acquire: grant a free lock to an owner.
--
-- KEYS  1 lock hash   2 token
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt of this same call may have run, else '0'
--       5 how many tokens are wanted, for holders of the same client that it is handed to; none: one
-- Reply {1, token}    granted: the owner holds it once; token is a decimal string, greater than every one before
--       {1, token, last}  the same, and all tokens up to last are reserved
--       {0, pttl}     another owner holds it; pttl in ms, -1 if the hash has no time to live
-- Atomic: the hash, its time to live and the token change together or not at all, also where the user may not run one of
-- the commands. A repeated attempt gets the outcome of the first, with the lease counted anew, because the caller trusts it
-- from the moment of the *last* sending; if the token was evicted meanwhile, it gets a new one. Of tokens that the first attempt
-- reserved it gets the last. A block is reserved only while the clock is ahead of the last token: so tokens are never further
-- ahead of the clock than one block.
--
-- The uncontended path is what a lock costs, so it makes no call that it could spare: HLEN tells "free" and "not a hash"
-- at once, and whether the owner is there already is asked only when it can be.
local call = redis.call
local name, owner = KEYS[1], ARGV[1]
local last
if call('HLEN', name) > 0 then
  if ARGV[4] ~= '1' or call('HEXISTS', name, owner) == 0 then
    return {0, call('PTTL', name)}
  end
  last = call('GET', KEYS[2])
  if last then
    -- It may come late, after an Extend or a re-entry: neither the lease nor the count goes back.
    if call('PTTL', name) < tonumber(ARGV[2]) then call('PEXPIRE', name, ARGV[2]) end
    return {1, last}
  end
else
  last = call('GET', KEYS[2])
end
-- A token is the server's time in microseconds, or one more than the last if the clock does not allow that: tokens go on
-- growing when a failover or a FLUSHALL loses the last one, and when the clock is set back. Both fit a double (< 2^53).
-- Until the year 2286 both have 16 digits, so the usual case compares them as they stand: turning strings into numbers
-- and back is most of what a script costs.
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local token, block = time[1] .. micros, ARGV[5] and tonumber(ARGV[5]) or 1
if last and (#last ~= #token or last >= token or string.find(last, '%D')) then
  local n = not string.find(last, '%D') and tonumber(last)
  if not n or n >= 9007199254740991 then
    return redis.error_reply('HOLDFAST the token key ' .. KEYS[2] .. ' does not hold a token: ' .. last)
  end
  if n >= tonumber(token) then block = 1 end
  token = string.format('%.0f', math.max(n + 1, tonumber(token)))
end
last = block > 1 and string.format('%.0f', tonumber(token) + block - 1) or token
call('SET', KEYS[2], last, 'PX', ARGV[3])
call('HSET', name, owner, '1')
local limited = redis.pcall('PEXPIRE', name, ARGV[2])
if type(limited) == 'table' then -- refused: without an end it must not stay
  redis.pcall('DEL', name)
  return limited
end
return {1, token, block > 1 and last or nil}
