-- inspect: read all that the server knows of a name at this moment, for any kind of lock.
--
-- KEYS  1 name   2 token   3 queue   4 deadlines (see part/queue.lua)   5 announcement of an election   6 permits   7 queue of a semaphore
--       8 places   9 wants (see part/permits.lua)   10 writers (see rw_read.lua)   11 another name with the same keys 2 to 10, or KEYS[1]
-- ARGV  1 how many entries of each list to return, at most   2 NUMSUB or SHARDNUMSUB, empty: do not count listeners
--       3 to 6 channels: of a lock, a read-write lock, a semaphore, a latch
-- Reply {1, time, type, pttl, size, content, token, other, said, queue, permits, line, writers, heard, strange}
--       time     of the server, us, as text            type, pttl  of the name's key, ms as PTTL has it
--       size     how many fields, or how long a text   content     each field, its value, and what is left of a reader's lease, ms, -3: it is
--                                                                  no reader's; or the first bytes of a text
--       token    empty: none is known                  other       1 if the other name is a key, too
--       said     empty: nothing                        queue       how long, how many count; then owners, what is left of their places, ms,
--                                                                  and how many listen on their mailboxes, -1: not known
--       permits  how many are out, and have ended; then permits and what is left of them, ms
--       line     as queue, with how many permits each wants behind that
--       writers  how long, how many count; then owners and what is left of their places
--       heard    how many listen on each channel, -1: not known   strange  the keys that have a wrong type
-- Reads only; all values are of one moment. Work: some calls for each returned entry, and some more.
local call, name, most = redis.call, KEYS[1], tonumber(ARGV[1])
-- include clock
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local strange = {}
local function is(key, wanted)
  local kind = call('TYPE', key).ok
  if kind ~= wanted and kind ~= 'none' then strange[#strange + 1] = key end
  return kind == wanted
end

local known = {}
local function heard(on)
  if not known[on] then
    local counted = ARGV[2] ~= '' and redis.pcall('PUBSUB', ARGV[2], on)
    known[on] = type(counted) == 'table' and counted[2] or -1
  end
  return known[on]
end

-- mailbox is where an owner is called: with all others of its client, or alone if it is Redisson's.
local function mailbox(channel, owner) return channel .. ':' .. (string.match(owner, '^(.*):h%d+$') or owner) end

-- left is what is left of a place, far below 0 if there is none.
local function left(places, owner)
  local ends = places and call('ZSCORE', places, owner)
  return ends and math.floor(ends - now) or -9e12
end

local kind, size, content = call('TYPE', name).ok, 0, {}
if kind == 'hash' then
  size = call('HLEN', name)
  local reads, some = call('HEXISTS', name, 'mode') == 1, nil
  if size <= most then
    some = call('HKEYS', name)
  else -- somebody else's, or more readers than anybody looks at
    some = {reads and 'mode' or nil}
    for i, field in ipairs(call('HSCAN', name, 0, 'COUNT', most)[2]) do
      if i % 2 == 1 and #some < most and field ~= 'mode' then some[#some + 1] = field end
    end
  end
  -- include timeouts
  for _, field in ipairs(some) do
    local value, rest = '', -3
    if call('HSTRLEN', name, field) <= 64 then value = call('HGET', name, field) end
    if reads and field ~= 'mode' and not string.find(field, ':write$') then
      rest = lasts(prefix .. field .. ':rwlock_timeout:' .. (string.find(field, ':h%d+$') and 1 or value))
      if type(rest) == 'table' then -- see part/readers.lua
        if not string.find(rest.err, 'undeclared') then return rest end
        rest = call('PTTL', name)
      end
    end
    content[#content + 1], content[#content + 2], content[#content + 3] = string.sub(field, 1, 256), value, rest
  end
elseif kind == 'string' then
  size, content[1] = call('STRLEN', name), call('GETRANGE', name, 0, 63)
end

local token = is(KEYS[2], 'string') and call('GETRANGE', KEYS[2], 0, 31) or ''
local other = KEYS[11] ~= name and call('EXISTS', KEYS[11]) or 0
local said = is(KEYS[5], 'string') and call('GETRANGE', KEYS[5], 0, 1023) or ''

local queue, deadlines = {0, 0}, is(KEYS[4], 'zset') and KEYS[4]
if is(KEYS[3], 'list') then
  queue[1], queue[2] = call('LLEN', KEYS[3]), deadlines and call('ZCOUNT', deadlines, '(' .. now, '+inf') or 0
  for _, owner in ipairs(call('LRANGE', KEYS[3], 0, most - 1)) do
    local n = #queue
    queue[n + 1], queue[n + 2], queue[n + 3] = owner, left(deadlines, owner), heard(mailbox(ARGV[3], owner))
  end
end

local permits = {0, 0}
if is(KEYS[6], 'zset') then
  permits[1], permits[2] = call('ZCARD', KEYS[6]), call('ZCOUNT', KEYS[6], '-inf', now)
  local some = call('ZRANGEBYSCORE', KEYS[6], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #some, 2 do permits[i + 2], permits[i + 3] = some[i], math.floor(some[i + 1] - now) end
end

local line = {0, 0}
if is(KEYS[7], 'zset') then
  local places, wants = is(KEYS[8], 'zset') and KEYS[8], is(KEYS[9], 'hash')
  line[1], line[2] = call('ZCARD', KEYS[7]), places and call('ZCOUNT', places, '(' .. now, '+inf') or 0
  for _, owner in ipairs(call('ZRANGE', KEYS[7], 0, most - 1)) do
    local n = #line
    line[n + 1], line[n + 2], line[n + 3] = owner, left(places, owner), heard(mailbox(ARGV[5], owner))
    line[n + 4] = wants and call('HGET', KEYS[9], owner) or '1'
  end
end

local writers = {0, 0}
if is(KEYS[10], 'zset') then
  writers[1], writers[2] = call('ZCARD', KEYS[10]), call('ZCOUNT', KEYS[10], '(' .. now, '+inf')
  local some = call('ZRANGE', KEYS[10], 0, most - 1, 'WITHSCORES')
  for i = 1, #some, 2 do writers[i + 2], writers[i + 3] = some[i], math.floor(some[i + 1] - now) end
end

return {1, clock, kind, call('PTTL', name), size, content, token, other, said, queue, permits, line, writers,
  {heard(ARGV[3]), heard(ARGV[4]), heard(ARGV[5]), heard(ARGV[6])}, strange}
