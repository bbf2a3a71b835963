-- many: take and release many locks at once.
--
-- KEYS  2 of each acquisition, as acquire takes them, then 2 of each release, as release takes them
-- ARGV  1 how many acquisitions; then 6 of each, as acquire takes them; then 2 of each release, as release takes them
-- Reply {1, time, reply, ...}: the server's time in us, then for each acquisition and for each release what acquire or release replies,
--                     or the text of the error that it met. {1, time} and {1} and {-1} are 1, 1 and -1, which are made faster
--       an error      it begins with READONLY; the server is a replica, and nothing was changed. It is no text among others because
--                     go-redis then leaves the connection
-- Each lock is taken or released, or not, as by acquire or release alone: an error of one is no error of the others. All are judged
-- by the same time.
--
-- The acquisitions come first. Redis forbids what needs memory when it is out of memory, but not behind a write: a release in front
-- would let acquisitions through that are refused alone. An acquisition writes nothing before what is forbidden, unless an earlier
-- attempt of it may have run, so one with '1' for its ARGV 4 must not be among many.
-- Nobody else is served meanwhile, so a caller bounds the number of locks.
local call = redis.call
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local function acquire(KEYS, ARGV)
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
end
local function release(KEYS, ARGV)
  local call, name, command = redis.call, KEYS[1], ARGV[2]
  local held = call('HEXISTS', name, ARGV[1]) == 1
  if not held and call('HLEN', name) == 0 then call('DEL', name) end
  if not held then return {-1} end
  call('DEL', name)
  if command == '' then return {1} end
  local to, text = KEYS[2], '0'
  local sent = redis.pcall(command, to, text)
  if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
    sent = redis.pcall('PUBLISH', to, text)
  end
  if type(sent) == 'table' and sent.err then
    return {1, sent.err}
  end
  return {1}
end
-- The text of an error. What is raised is a table from Redis 7 on.
local function text(raised) return type(raised) == 'table' and raised.err or tostring(raised) end
-- One table of each for all locks, with room from the start: otherwise the server took a tenth longer.
local locks, acquisitions = #KEYS / 2, tonumber(ARGV[1])
local reply, keys, arguments, at = {1, clock, 0, 0, 0, 0, 0, 0}, {0, 0}, {0, 0, 0, 0, 0, 0}, 1
for i = 1, locks do
  local run = release
  keys[1], keys[2] = KEYS[2 * i - 1], KEYS[2 * i]
  arguments[1], arguments[2] = ARGV[at + 1], ARGV[at + 2]
  if i <= acquisitions then
    run = acquire
    arguments[3], arguments[4], arguments[5], arguments[6] = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
    at = at + 4
  end
  at = at + 2
  -- Not redis.pcall, which would have to stand at each call.
  local ok, answer = pcall(run, keys, arguments)
  if not ok or answer.err then
    answer = text(answer)
    if string.find(answer, '^%-?READONLY') or string.find(answer, '^@user_script: ?%d+: %-?READONLY') then
      return redis.error_reply('READONLY the server is a replica')
    end
  elseif not answer[2] or answer[2] == clock and answer[1] == 1 and not answer[3] then
    answer = answer[1]
  end
  reply[i + 2] = answer
end
for i = locks + 3, #reply do reply[i] = nil end
return reply
