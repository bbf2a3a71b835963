-- acquire: grant a free lock to an owner.
--
-- KEYS  1 lock hash   2 token     3 channel, with ARGV 7 and 8 only: the key of that name has the longest head start
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt of this same call may have run, else '0'
--       5 how many tokens are wanted, for holders of the same client that it is handed to; none: one
--       6 until when this may be executed, us by the server's clock; none: at any time
--       7 head start, ms: if it is refused, this client is to be let go first for so long; 0: none
--       8 head starts up to so many ms are over if it is granted
-- Reply {1, token}    granted: the owner holds it once; token is a decimal string, greater than every one before, and the server's
--                     time in us
--       {1, token, last}  the same, and all tokens up to last are reserved
--       {1, token, token, time}  granted, and the token is not the server's time
--       {0, pttl, field...}  another owner holds it; pttl in ms, -1 if the hash has no time to live. The fields of the hash: a lock has
--                     one, its owner. Of more than four only how many they are, or 'mode', which Redisson's read-write lock has among
--                     them. None where the user may not run HGETALL
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic: the hash, its time to live and the token change together or not at all, also where the user may not run one of
-- the commands. A repeated attempt gets the outcome of the first, with the lease counted anew, because the caller trusts it
-- from the moment of the *last* sending; if the token was evicted meanwhile, it gets a new one. Of tokens that the first attempt
-- reserved it gets the last. A block is reserved only while the clock is ahead of the last token: so tokens are never further
-- ahead of the clock than one block.
--
-- The uncontended path is what a lock costs, so it makes no call that it could spare: HLEN tells "free" and "not a hash"
-- at once, and whether the owner is there already is asked only when it can be.
--
-- Who is refused calls the client that has the lock, if that wants to be called: it may keep the lock without a holder, and gives
-- it back then. A call that is not permitted or not heard fails nothing.
--
-- Who is far away comes too late whenever the lock is released, so it asks for a head start (see pass). That is a hint, which nobody
-- misses: it never fails an attempt. It lives a second longer than the lease in its way, by when whoever waits asks again.
local call = redis.call
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local name, tokens, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
-- A token is the server's time in microseconds, or one more than the last if the clock does not allow that: tokens go on
-- growing when a failover or a FLUSHALL loses the last one, and when the clock is set back. Both fit a double (< 2^53).
-- Until the year 2286 both have 16 digits, so the usual case compares them as they stand: turning strings into numbers
-- and back is most of what a script costs.
local token, block = clock, ARGV[5] and tonumber(ARGV[5]) or 1
local limit, last = ARGV[6], nil
if limit and (#limit < #clock or #limit == #clock and limit < clock) then return {-2, clock} end
local fields = call('HLEN', name)
if fields > 0 then
  if ARGV[4] ~= '1' or call('HEXISTS', name, owner) == 0 then
    if fields > 4 then return {0, call('PTTL', name), call('HEXISTS', name, 'mode') == 1 and 'mode' or fields} end
    if KEYS[3] and ARGV[7] ~= '0' then
      local start = redis.pcall('GET', KEYS[3])
      if type(start) ~= 'string' or (tonumber(start) or 0) <= tonumber(ARGV[7]) then
        redis.pcall('SET', KEYS[3], ARGV[7], 'PX', math.max(call('PTTL', name), 0) + 1000)
      end
    end
    local hash = redis.pcall('HGETALL', name) -- for people: who may not ask waits all the same
    local id, letter = string.match(type(hash[1]) == 'string' and hash[1] or '', '^(.*):([ks])%d+$')
    if id and string.sub(owner, 1, #id) ~= id then
      local tag = string.find(name, '{', 1, true) and name or '{' .. name .. '}'
      local command, to, text = letter == 's' and 'SPUBLISH' or 'PUBLISH', 'redisson_lock__channel:' .. tag .. ':' .. id, '1'
      local sent = redis.pcall(command, to, text)
      if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
        sent = redis.pcall('PUBLISH', to, text)
      end
    end
    return {0, call('PTTL', name), hash[1], hash[3], hash[5], hash[7]}
  end
  last = call('GET', tokens)
  if last then
    -- It may come late, after an Extend or a re-entry: neither the lease nor the count goes back.
    if call('PTTL', name) < tonumber(lease) then call('PEXPIRE', name, lease) end
    return {1, last, last, clock}
  end
else
  last = call('GET', tokens)
end
if last and (#last ~= #token or last >= token or string.find(last, '%D')) then
  local n = not string.find(last, '%D') and tonumber(last)
  if not n or n >= 9007199254740991 then
    return redis.error_reply('HOLDFAST the token key ' .. tokens .. ' does not hold a token: ' .. last)
  end
  if n >= tonumber(token) then block = 1 end
  token = string.format('%.0f', math.max(n + 1, tonumber(token)))
end
last = block > 1 and string.format('%.0f', tonumber(token) + block - 1) or token
call('SET', tokens, last, 'PX', ARGV[3])
call('HSET', name, owner, '1')
local limited = redis.pcall('PEXPIRE', name, lease)
if type(limited) == 'table' then
  redis.pcall('DEL', name)
  return limited
end
if KEYS[3] then
  local start = redis.pcall('GET', KEYS[3])
  if type(start) == 'string' and (tonumber(start) or 0) <= tonumber(ARGV[8]) then redis.pcall('DEL', KEYS[3]) end
end
if token ~= clock then return {1, token, token, clock} end
return {1, token, block > 1 and last or nil}
