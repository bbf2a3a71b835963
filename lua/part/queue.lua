-- queue: the functions that the scripts of the fair lock share. They stand in front of each script.
-- Reads: KEYS, which are the same for all of these scripts
-- Sets:  the locals and functions of this file
--
-- KEYS  1 lock hash   2 token   3 queue: list of owners, the next one first   4 deadlines: sorted set, owner -> until when
--       its place counts, in ms of the server's clock   5 channel, as of a plain lock
-- All are Redisson's (fair lock of 4.x). An owner whose id ends in ":h" and a number waits in a client of this library; all
-- others are Redisson's, and its rules hold for them.
--
-- A place counts until its deadline, which its client extends in time. The place of a waiter that leaves sooner ends when a grant could
-- not reach it in time any more, unless it was extended: so few grants go to waiters that have left, or are about to.
-- Only the head can be purged by its deadline, as Redisson does it. Time is the server's alone.
--
-- Granting: when the lock becomes free, the script that sees it grants it to the head, with a claim: a lease that is just long
-- enough for the head's client to be told. The message goes to its mailbox, the channel followed by ":" and the client's id:
-- "<number of the owner> <token> <time of the grant, us> <claim, ms> <number of the next in the run>...". A head whose
-- mailbox has no listener at this server is passed over, and keeps its place. (Rejected: to send the message and count its receivers,
-- which saves a command. Replicas forward messages, and a listener at one would believe a grant that then went to another.) A head of
-- Redisson's is granted the lock as count 0, which its own next attempt makes 1, and is called on the channel followed by ":" and its
-- owner id.
--
-- "<number> - - -" tells a waiter to ask: the lock stays taken for a while, and ends earlier than it was told. See leave.lua.
--
-- Runs: the message also names the waiters of the same client that stand directly behind the new holder, by their numbers, in their
-- order. The tokens that follow its own are theirs, one each. The client hands the lock off among them without asking. At the server
-- the first of them holds the lock, with one claim or lease, and all others keep their places: so a run cannot be lost. A waiter that
-- leaves gives back its own place; if the client dies, or loses the lock, the others keep their positions; and a client that does not
-- understand the message, or does not get it, is served one by one. The last one's release removes the places of all that were served.
-- Until then these count as waiters. The order is that of the queue, because the server grants the lock to no other waiter meanwhile.
-- (Rejected: to remove the places when the run begins. Then a lost message, or a lost lock, costs waiters of a live client their
-- places.)
-- A client of an earlier version does not know messages of more than four words. Its next poll finds the grant.
--
-- The owner that was granted the lock stays among the deadlines until it gives the lock back, with the end of its claim for a deadline,
-- far below all others. If it is still there when the lock is free, it did not take the lock: the other places of its client are passed
-- over too, until the client sends a command. So a dead or stopped client costs one claim, and not one for each waiter.
--
-- Redisson's waiters: each grant reduces the deadlines behind it by the wait of the waiter that was granted the lock. So a waiter behind
-- some of Redisson's has a later deadline, by the wait of each, and half a millisecond on top, which marks that the queue has such
-- waiters. (Redisson only adds and subtracts whole milliseconds, and so passes the half on to those that queue behind.)
-- That extra time is computed anew from the waiters that are still in front: at each enqueuing, and by each poll, which also removes
-- what is no longer needed, from the places of dead waiters too. (Rejected: to make a place last longer than the one before it, as
-- Redisson does. It is never subtracted again, and deadlines grow with every enqueuing.)
--
-- Work: however long the queue is, a script reads a bounded number of places, or removes those that it reads for good. In longer queues
-- the rules are coarser: see grant, drop, enqueue. One script in as many as there are waiters reads all places: see compact.
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
    -- include number
    token = string.format('%.0f', math.max(n + 1, tonumber(token)))
  end
  return nil, token
end

-- hold writes a grant, or nothing.
local function hold(owner, count, lease)
  call('HSET', name, owner, count)
  -- include lease
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

-- compact takes out the entries of places that were given up, if they are more than half of the queue. So a long queue behind one head
-- that stays is not longer than twice those who wait, and each that leaves costs a few elements on the average.
local function compact()
  local n = call('LLEN', queue)
  local gone = call('ZCOUNT', deadlines, '(' .. past, '(' .. cancelled)
  if 2 * gone <= n then return end
  for from = 0, n - 1, look do
    local stay, left = {}, {}
    for _, owner in ipairs(call('LRANGE', queue, from, math.min(from + look, n) - 1)) do
      local some = (ends(owner) or cancelled) < cancelled and left or stay
      some[#some + 1] = owner
    end
    if stay[1] then call('RPUSH', queue, unpack(stay)) end
    if left[1] then call('ZREM', deadlines, unpack(left)) end
  end
  call('LTRIM', queue, n, -1)
end

-- drop takes an owner out of the queue. Out of the middle of a long one it takes only the deadline: the entry goes when it is the
-- head, or when it is one of many. The deadline is one that has passed, and not none: Redisson waits for ever behind a head that has none.
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
    compact()
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

-- lapsed are the clients that did not take what they were handed, each with when its claim ended. One that is heard of now is none
-- any more.
local function lapsed(heard)
  local since, lowest = {}, call('ZRANGE', deadlines, 0, 0, 'WITHSCORES')
  if not lowest[1] or tonumber(lowest[2]) > past then return since end
  lowest = call('ZRANGE', deadlines, 0, look - 1, 'WITHSCORES')
  for i = 1, #lowest, 2 do
    local score, id = tonumber(lowest[i + 1]), client(lowest[i])
    if score > past then break end
    local ended = score - handed
    if ended < now - silence or not id or id == heard and ended <= now then
      call('ZREM', deadlines, lowest[i])
    elseif ended <= now then
      since[id] = math.max(since[id] or 0, ended)
    end
  end
  return since
end

-- short notes that the client of an owner is heard of, where its place is too short for the deadline to say so.
local function short(owner, place)
  if place < silence then lapsed(client(owner)) end
end

-- enqueue gives an owner a place at the end, unless it has one, and tells whether Redisson's may be before it. The first place, and
-- those in a mixed queue, see to the time to live; for the others the polls do. In a long mixed queue a place lasts as long as
-- the one before it, which is long enough for the same waiters of Redisson's.
local function enqueue(owner, place)
  short(owner, place)
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
  -- include announce
  return type(sent) == 'table' and sent.err or nil
end

-- listeners is how many listen on a channel at this server; nil if it does not know all of them, which is so for classic
-- channels of a cluster.
local function listeners(command, to)
  if command == 'publish' then return nil end
  local counted = redis.pcall('PUBSUB', command == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB', to)
  return counted[2]
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
