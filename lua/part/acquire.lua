-- acquire: what the script acquire does when it knows the time. The script many makes a function of it.
-- Reads: call, clock; KEYS and ARGV, as the script takes them
-- Replies what the script replies
local name, tokens, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
-- A token is the server's time in microseconds, or one more than the last if the clock does not allow that: tokens go on
-- growing when a failover or a FLUSHALL loses the last one, and when the clock is set back. Both fit a double (< 2^53).
-- Until the year 2286 both have 16 digits, so the usual case compares them as they stand: turning strings into numbers
-- and back is most of what a script costs.
local token, block = clock, ARGV[5] and tonumber(ARGV[5]) or 1
local limit, last = ARGV[6], nil
-- include late
local fields = call('HLEN', name)
if fields > 0 then
  if ARGV[4] ~= '1' or call('HEXISTS', name, owner) == 0 then
    local there = name
    -- include master
    if fields > 4 then return {0, call('PTTL', name), call('HEXISTS', name, 'mode') == 1 and 'mode' or fields} end
    if KEYS[3] and ARGV[7] ~= '0' then
      local start = redis.pcall('GET', KEYS[3])
      if type(start) ~= 'string' or (tonumber(start) or 0) <= tonumber(ARGV[7]) then
        redis.pcall('SET', KEYS[3], ARGV[7], 'PX', math.max(call('PTTL', name), 0) + 1000)
      end
    end
    local hash = redis.pcall('HGETALL', name) -- for people: who may not ask waits all the same
    -- include recall
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
  -- include number
  if n >= tonumber(token) then block = 1 end
  token = string.format('%.0f', math.max(n + 1, tonumber(token)))
end
last = block > 1 and string.format('%.0f', tonumber(token) + block - 1) or token
call('SET', tokens, last, 'PX', ARGV[3])
call('HSET', name, owner, '1')
-- include lease
if KEYS[3] then
  local start = redis.pcall('GET', KEYS[3])
  if type(start) == 'string' and (tonumber(start) or 0) <= tonumber(ARGV[8]) then redis.pcall('DEL', KEYS[3]) end
end
if token ~= clock then return {1, token, token, clock} end
if block > 1 then return {1, token, last} end
return token
