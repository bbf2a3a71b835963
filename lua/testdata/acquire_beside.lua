-- acquire_beside: acquire, beside other libraries whose locks are strings: where the key is a string, that is somebody's lock.
--
-- KEYS  1 lock hash   2 token     3 channel, with ARGV 7 and 8 only, as in acquire
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt of this same call may have run, else '0'
--       5 how many tokens are wanted   6 until when this may be executed
--       7 head start, ms   8 head starts up to so many ms are over if it is granted
-- Reply as those of acquire, and
--       {0, pttl, -1}  the key is a string; pttl in ms, -1 if it has no time to live. What the string says is not told: with
--                     those libraries it is what a lock is released by
-- Atomic as acquire is. A string is only looked at: there is no write before it is known that the key is none.
--
-- HLEN tells a string from a hash. It is asked once more than in acquire, which has to cost no more for those who do not need this.
-- GET tells a string from other types, by a command that the user may run anyway. (Rejected: TYPE, which is one more permission.
-- Rejected: GET at once, an error in the server's statistics whenever the lock is held by one of ours.)
local stands = redis.pcall('HLEN', KEYS[1])
if type(stands) == 'table' then
  stands = redis.pcall('GET', KEYS[1])
  if type(stands) == 'string' then return {0, redis.call('PTTL', KEYS[1]), -1} end
end
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
