-- force_owner: free a lock of one owner, and hand it to who waits. For all kinds whose hash has one owner: plain and fair locks,
-- elections, and one master's part of a quorum lock.
--
-- KEYS  1 to 5 see part/queue.lua   6 announcement   7 channel of the election
-- ARGV  1 owner, who was seen to hold the lock   2 PUBLISH, SPUBLISH or publish (see announce)   3 claim, ms   4 time to live of the
--       token's key, ms   5 what the last token has to be, empty: any
-- Reply {1}            released, and handed on or announced
--       {1, error}     released, but the lock could not be handed on, or that could not be told
--       {0, token, owner}   another owner holds it, or the last token is another one ('0': none is known); nothing was changed
--       {-1, token}    nobody holds it; nothing was changed
-- Atomic, and harmless when repeated: who comes next is another owner. One of them is not: under one owner, a context of the user's may
-- take a lock again, with a greater token, which is what ARGV[5] is for.
-- A token is used up, so that a quorum lock's holder finds out, see force.lua; and in what order is said there.
-- Places in the queue stay, those of a run too: see part/queue.lua.

local call = redis.call
local name, tokens, queue, deadlines, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local foreignWait = 300000 -- ms: Redisson's default for a wait without a limit
local longestWait = 3600000 -- ms: of one of its waiters, as far as room is left for it
local look = 128 -- places that are looked at, at a time
local longestRun = 64 -- grants by one message
local silence = 15000 -- ms: a client that was not heard of for so long has no places
local handed, past = -9e15, -1e15 -- the end of a claim is counted from the one, and lies before the other
local cancelled = 2 -- a deadline before this one is that of a place that was given up

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function micros()
  return time[1] .. string.rep('0', 6 - #time[2]) .. time[2]
end

-- client is the id of an owner's client, and the owner's number there; nil if it is Redisson's.
local function client(owner) return string.match(owner, '^(.*):(h%d+)$') end

-- nextToken returns an error, or nil and the time in microseconds: one more than the last token if the
-- clock does not allow that; see acquire.lua.
local function nextToken()
  local last, token = call('GET', tokens), micros()
  if last and (#last ~= #token or last >= token or string.find(last, '%D')) then
    local n = not string.find(last, '%D') and tonumber(last)
    if not n or n >= 9007199254740991 then
      return redis.error_reply('HOLDFAST the token key ' .. tokens .. ' does not hold a token: ' .. last)
    end
    token = string.format('%.0f', math.max(n + 1, tonumber(token)))
  end
  return nil, token
end

-- hold writes a grant, or nothing.
local function hold(owner, count, lease)
  call('HSET', name, owner, count)
  local limited = redis.pcall('PEXPIRE', name, lease)
  if type(limited) == 'table' then
    redis.pcall('DEL', name)
    return limited
  end
end

-- whose is the owner that holds the lock, and its count; nil if nobody does. Not all is looked at of a hash of somebody else's, which may
-- have any number of fields.
local function whose()
  local n = call('HLEN', name)
  if n > look then return n .. ' fields' end
  local hash = call('HGETALL', name)
  return hash[1], hash[2]
end

-- ends is the deadline of an owner's place; nil if it has none.
local function ends(owner)
  local deadline = tonumber(call('ZSCORE', deadlines, owner) or nil)
  return deadline and deadline > past and deadline or nil
end

-- cut takes the first places out of the queue: some, of which there are n.
local function cut(some, n)
  call('LTRIM', queue, n, -1)
  call('ZREM', deadlines, unpack(some, 1, n))
end

-- head is the first whose place counts. Those before it are purged: each of them once.
local function head()
  local first = call('LINDEX', queue, 0)
  if not first or (ends(first) or 0) > now then return first end
  while true do
    local some, n = call('LRANGE', queue, 0, look - 1), 0
    while some[n + 1] and (ends(some[n + 1]) or 0) <= now do n = n + 1 end
    if n > 0 then cut(some, n) end
    if some[n + 1] or n < look then return some[n + 1] end
  end
end

-- drop takes an owner out of the queue. Out of the middle of a long one it takes only the deadline: the entry goes when it is the
-- head. The deadline is one that has passed, and not none: Redisson waits for ever behind a head that has none.
local function drop(owner)
  local deadline = ends(owner)
  call('ZREM', deadlines, owner)
  if not deadline then return end
  if call('LLEN', queue) <= 8 * look then
    call('LREM', queue, 1, owner)
  elseif call('LINDEX', queue, -1) == owner then
    call('LREM', queue, -1, owner)
  else
    call('ZADD', deadlines, 1, owner)
    head()
  end
end

-- mixed tells whether one of Redisson's waiters may be in the queue, and returns the last place and its deadline. Who gave its place
-- up does not stay at the end, where Redisson's waiters look for the deadline of their own.
local function mixed()
  while true do
    local tail = call('LINDEX', queue, -1)
    if not tail then return false end
    local deadline = ends(tail) or 0
    if deadline == 0 or deadline >= cancelled then return not client(tail) or deadline % 1 > 0, tail, deadline end
    call('LREM', queue, -1, tail)
    call('ZREM', deadlines, tail)
  end
end

-- limit gives the queue a time to live that is longer than all places, by an hour: Redisson's waiters, who join it without
-- saying so to us, are not to lose it when the last of ours has gone.
local function limit(deadline)
  local ttl = math.ceil(deadline - now) + 3600000
  if call('PTTL', queue) < ttl - 600000 then -- not each time
    call('PEXPIRE', queue, ttl)
    call('PEXPIRE', deadlines, ttl)
  end
end

local function put(owner, deadline)
  call('ZADD', deadlines, string.format('%.1f', deadline), owner)
  limit(deadline)
end

-- takes is what one of Redisson's may take off the places behind it: its wait, which is known as far as its deadline is later than the
-- one before.
local function takes(deadline, before)
  return math.min(math.max(foreignWait, deadline - before), longestWait)
end

-- behind walks through the first places, and calls visit with each owner of this library and the deadline that its place needs:
-- what each of Redisson's before it may take off. What visit takes off a place, and returns, is taken off those of Redisson's behind it
-- too, or their waits would look longer by so much; but they keep what they need, as ours do, and their own wait. (The place behind
-- which one of them queued may have been earlier than the one that is before it now.) Returns the deadline that another place behind
-- them would need, and whether any of them is Redisson's.
local function behind(place, visit)
  local before, needed, others, taken = now, now + place, false, 0
  local some = call('LRANGE', queue, 0, look - 1)
  for _, owner in ipairs(some) do
    local deadline = ends(owner) or now
    if not client(owner) then
      others = true
      needed = needed + takes(deadline, before)
      if taken > 0 and #some < look then put(owner, math.max(deadline - taken, math.min(deadline, needed))) end
    elseif visit then
      taken = visit(owner, deadline, math.floor(needed) + (others and 0.5 or 0))
    end
    if deadline >= cancelled then before = deadline end
  end
  return math.floor(needed), others
end

-- enqueue gives an owner a place at the end, unless it has one, and tells whether Redisson's may be before it. The first place, and
-- those in a mixed queue, see to the time to live; for the others the polls do. In a long mixed queue a place lasts as long as
-- the one before it, which is long enough for the same waiters of Redisson's.
local function enqueue(owner, place)
  local others, tail, last = mixed()
  local deadline, n = now + place, others and call('LLEN', queue) or 0
  if n > look then
    local most = deadline + n * foreignWait
    if not client(tail) then last = math.min(last + foreignWait + place, most) end
    deadline = math.floor(math.max(deadline, last)) + 0.5
  elseif others then
    deadline, others = behind(place)
    deadline = deadline + 0.5 -- also if none is left: those before it may have the room still, which a poll takes away
  end
  deadline = string.format('%.1f', deadline)
  if call('ZADD', deadlines, 'NX', deadline, owner) == 0 then
    local old = ends(owner)
    if old then return old % 1 > 0 end
    call('ZADD', deadlines, deadline, owner) -- it was handed the lock, and did not take it in time
  end
  if call('RPUSH', queue, owner) == 1 or others then limit(tonumber(deadline)) end
  return others
end

-- publish sends, by the command of this server, and returns why that was refused.
local function publish(command, to, text)
  local sent = redis.pcall(command, to, text)
  if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
    sent = redis.pcall('PUBLISH', to, text)
  end
  return type(sent) == 'table' and sent.err or nil
end

-- listeners is how many listen on a channel at this server; nil if it does not know all of them, which is so for classic
-- channels of a cluster.
local function listeners(command, to)
  if command == 'publish' then return nil end
  local counted = redis.pcall('PUBSUB', command == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB', to)
  return counted[2]
end

-- lapsed are the clients that did not take what they were handed, each with when its claim ended.
local function lapsed()
  local since, lowest = {}, call('ZRANGE', deadlines, 0, 0, 'WITHSCORES')
  if not lowest[1] or tonumber(lowest[2]) > past then return since end
  lowest = call('ZRANGE', deadlines, 0, look - 1, 'WITHSCORES')
  for i = 1, #lowest, 2 do
    local score, id = tonumber(lowest[i + 1]), client(lowest[i])
    if score > past then break end
    local ended = score - handed
    if ended < now - silence or not id then
      call('ZREM', deadlines, lowest[i])
    elseif ended <= now then
      since[id] = math.max(since[id] or 0, ended)
    end
  end
  return since
end

-- settle takes off those behind one of Redisson's that is granted what was left of its time, as its own grant would. That may be more
-- than its wait, by which the places behind it were made: those who stood before it, and whose time its own was added to, have left.
-- So a place of ours keeps what it needs behind those of Redisson's that are still before it.
local function settle(owner, left)
  if left <= 0 or call('LLEN', queue) > look then return end
  local after, before, needed = false, now, now + silence
  for _, other in ipairs(call('LRANGE', queue, 0, look - 1)) do
    local deadline = after and ends(other)
    if deadline and deadline >= cancelled then
      local lowered = deadline - left
      if client(other) then
        lowered = math.max(lowered, math.min(deadline, math.floor(needed) + deadline % 1))
      else
        needed = needed + takes(lowered, before)
      end
      call('ZADD', deadlines, string.format('%.1f', lowered), other)
      before = lowered
    end
    after = after or other == owner
  end
end

-- run returns the numbers of those of a client who stand behind the first n places and before any other, each behind a space, and how
-- many they are.
local function run(id, n)
  local numbers, count = '', 0
  if client(call('LINDEX', queue, n) or '') ~= id then return numbers, count end -- mostly, and then this is cheaper
  for _, owner in ipairs(call('LRANGE', queue, n, n + longestRun - 2)) do
    local of, number = client(owner)
    if of ~= id then break end
    numbers, count = numbers .. ' ' .. number, count + 1
  end
  return numbers, count
end

-- served takes the places of those who had the lock in a run: ARGV from the i-th on. Mostly they are the first ones.
local function served(i)
  local had, n = {}, 0
  for j = i, #ARGV do had[ARGV[j]] = true end
  if not ARGV[i] then return end
  local some = call('LRANGE', queue, 0, #ARGV - i)
  while some[n + 1] and had[some[n + 1]] do
    n = n + 1
    had[some[n]] = nil
  end
  if n > 0 then cut(some, n) end
  for j = i, #ARGV do
    if had[ARGV[j]] then drop(ARGV[j]) end
  end
end

-- grant hands the free lock to the first waiter that can be reached. present is a client that is known to be there, whoever
-- listens, because it asks. Returns an error for the caller to reply with, and why nobody could be told.
-- Where more than a hundred in front cannot be reached they lose their places: it is not a connection that is down for a moment, and
-- each grant would have to pass them again.
local function grant(command, claim, keep, present)
  local first = head()
  if not first then return end
  local refused, token = nextToken()
  if refused then return refused end
  local since, deaf = lapsed(), {}
  local function hears(owner) -- returns its deadline
    local id = client(owner)
    if id and id ~= present then
      if deaf[id] == nil then deaf[id] = listeners(command, channel .. ':' .. id) == 0 end
      if deaf[id] then return nil end
    end
    local deadline = ends(owner)
    if not deadline or deadline <= now then return nil end
    local known = not id or id == present or not since[id] or deadline - silence >= since[id]
    return known and deadline or nil
  end
  local function hand(owner, i, deadline)
    local id, number = client(owner)
    if not id then settle(owner, math.floor(deadline - now)) end
    if i == 1 then call('LPOP', queue) else call('LREM', queue, 1, owner) end
    if id then
      call('ZADD', deadlines, string.format('%.0f', handed + now + claim), owner)
    else
      call('ZREM', deadlines, owner)
    end
    local last, behindIt, n = token, '', 0
    -- Tokens are reserved only while the clock is ahead of the last one, so they are never further ahead of it than a run is long.
    if id and token == micros() then behindIt, n = run(id, i - 1) end
    if n > 0 then last = string.format('%.0f', tonumber(token) + n) end
    call('SET', tokens, last, 'PX', keep)
    local failed = hold(owner, id and '1' or '0', id and claim or math.max(claim, 2000))
    if failed then return failed end
    if not id then return nil, publish(command, channel .. ':' .. owner, '0') end
    return nil, publish(command, channel .. ':' .. id,
      number .. ' ' .. token .. ' ' .. micros() .. ' ' .. claim .. behindIt)
  end
  local deadline = hears(first)
  if deadline then return hand(first, 1, deadline) end
  while true do
    local some = call('LRANGE', queue, 0, look - 1)
    for i, owner in ipairs(some) do
      deadline = hears(owner)
      if deadline then return hand(owner, i, deadline) end
    end
    if #some < look then return end
    cut(some, look)
  end
end

local owner, command, keep = ARGV[1], ARGV[2], ARGV[4]
local last, fields = call('GET', tokens) or '0', call('HLEN', name)
if fields == 0 then
  call('DEL', name) -- a replica refuses it
  return {-1, last}
end
if call('HEXISTS', name, owner) == 0 or call('HEXISTS', name, 'mode') == 1 or ARGV[5] ~= '' and ARGV[5] ~= last then
  return {0, last, (whose())}
end
local refused, token = nextToken()
if refused then return refused end
redis.pcall('HDEL', name, '')
call('SET', tokens, token, 'PX', math.max(tonumber(keep), call('PTTL', tokens)))
local said = type(redis.pcall('GET', KEYS[6])) == 'string'
call('DEL', name)
-- What fails from here on must not look as if nothing had been released.
local ok, failed, unheard = pcall(function()
  if said then call('DEL', KEYS[6]) end
  call('ZREM', deadlines, owner)
  local wrong, untold = grant(command, tonumber(ARGV[3]), keep)
  if wrong then return wrong end
  if call('HLEN', name) == 0 then untold = publish(command, channel, '0') or untold end
  if said then untold = publish(command, KEYS[7], '0') or untold end
  return nil, untold
end)
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
