-- fair: what the scripts of the fair lock have in common. It stands in front of each of them.
--
-- KEYS  1 lock hash   2 token   3 queue: list of owners, the next one first   4 deadlines: sorted set, owner -> until when
--       its place counts, in ms of the server's clock   5 channel, as of a plain lock
-- All are Redisson's (fair lock of 4.x). An owner whose id ends in ":h" and a number waits in a client of this library; all
-- others are Redisson's, and its rules hold for them.
--
-- A place counts until its deadline, which its client puts off in time. Only the head can be purged by its deadline, as
-- Redisson does it. Time is the server's alone.
--
-- Granting: when the lock becomes free, the script that sees it hands it to the head, with a claim: a lease that is just long
-- enough for the head's client to hear of it. It hears by its mailbox, the channel followed by ":" and the client's id:
-- "<number of the owner> <token> <time of the grant, us> <claim, ms>". A head on whose mailbox nobody listens at this server is
-- passed over, and keeps its place. (Rejected: to send the message and see how many heard it, which spares the question.
-- Replicas pass messages on, and whoever listens at one would believe what was then given to another.) One of Redisson's is
-- handed the lock as count 0, which its own next attempt makes 1, and is called on the channel followed by ":" and its owner id.
--
-- Redisson's waiters: a deadline is taken off by each grant before it, by the wait of the one who was granted. So who stands
-- behind one of them needs a later deadline, and what is added for that is inherited by those behind. Whether there is one
-- in the queue is seen at the tail: it is the tail, or the tail's deadline has half a millisecond on top. (Who queues behind
-- such a tail gets that too. Redisson only adds and takes off whole ones.)
local call = redis.call
local name, tokens, queue, deadlines, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local foreignWait = 300000 -- ms: Redisson's default for a wait without a limit

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function micros()
  return clock[1] .. string.rep('0', 6 - #clock[2]) .. clock[2]
end

-- client is the id of an owner's client, and the owner's number there; nil if it is Redisson's.
local function client(owner) return string.match(owner, '^(.*):(h%d+)$') end

-- nextToken is the time in microseconds, or one more than the last if the clock does not allow that; see acquire.lua.
local function nextToken()
  local last, token = call('GET', tokens), micros()
  if last and (#last ~= #token or last >= token or string.find(last, '%D')) then
    local n = not string.find(last, '%D') and tonumber(last)
    if not n or n >= 9007199254740991 then
      return nil, redis.error_reply('HOLDFAST the token key ' .. tokens .. ' does not hold a token: ' .. last)
    end
    token = string.format('%.0f', math.max(n + 1, tonumber(token)))
  end
  return token
end

-- hold writes a grant, or nothing: a lock must not stay without an end where the user may not set one.
local function hold(owner, count, lease)
  call('HSET', name, owner, count)
  local limited = redis.pcall('PEXPIRE', name, lease)
  if type(limited) == 'table' then
    redis.pcall('DEL', name)
    return limited
  end
end

-- drop takes a place out of the queue; it reports whether there was one.
local function drop(owner)
  if call('ZREM', deadlines, owner) == 0 then return false end
  call('LREM', queue, 1, owner)
  return true
end

-- head is the first whose place counts. Those before it are purged.
local function head()
  while true do
    local first = call('LINDEX', queue, 0)
    if not first then return nil end
    local deadline = call('ZSCORE', deadlines, first)
    if deadline and tonumber(deadline) > now then return first end
    call('LPOP', queue)
    call('ZREM', deadlines, first)
  end
end

-- mixed tells whether one of Redisson's waiters may be in the queue.
local function mixed()
  local tail = call('LINDEX', queue, -1)
  if not tail then return false end
  return not client(tail) or (tonumber(call('ZSCORE', deadlines, tail) or 0) % 1 > 0)
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

-- behind walks through the queue, and calls visit with each owner of this library and the deadline that its place needs: each
-- of Redisson's before it may take its wait off. Returns the deadline that another place at the end would need.
local function behind(place, visit)
  local before, needed, others = now, now + place, false
  for _, owner in ipairs(call('LRANGE', queue, 0, -1)) do
    local deadline = tonumber(call('ZSCORE', deadlines, owner) or now)
    if not client(owner) then
      others = true
      needed = needed + math.max(foreignWait, deadline - before)
    elseif visit then
      visit(owner, deadline, needed, others)
    end
    before = deadline
  end
  return needed
end

local function put(owner, deadline)
  call('ZADD', deadlines, string.format('%.1f', deadline), owner)
  limit(deadline)
end

-- enqueue gives an owner a place at the end, unless it has one. The first place, and those in a mixed queue, see to the time to
-- live; for the others the polls do.
local function enqueue(owner, place)
  local deadline, others = now + place, mixed()
  if others then
    local last = call('ZSCORE', deadlines, call('LINDEX', queue, -1))
    deadline = math.max(math.floor(behind(place)), math.floor(tonumber(last or 0)) + place) + 0.5
  end
  if call('ZADD', deadlines, 'NX', string.format('%.1f', deadline), owner) == 0 then return end
  if call('RPUSH', queue, owner) == 1 or others then limit(deadline) end
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
  local counted = redis.pcall('PUBSUB', command == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB', to)
  return counted[2]
end

-- grant hands the free lock to the first waiter that can be reached. present is a client that is known to be there, whoever
-- listens, because it asks. Returns an error for the caller to reply with, and why nobody could be told.
local function grant(command, claim, keep, present)
  local owner, i, deaf = head(), 0, {}
  if not owner then return end
  local token, refused = nextToken()
  if not token then return refused end
  while owner do
    local id, number = client(owner)
    local reached = not id or id == present
    if not reached and deaf[id] == nil then deaf[id] = listeners(command, channel .. ':' .. id) == 0 end
    if reached or not deaf[id] then
      call('ZREM', deadlines, owner)
      if i == 0 then call('LPOP', queue) else call('LREM', queue, 1, owner) end
      call('SET', tokens, token, 'PX', keep)
      local failed = hold(owner, id and '1' or '0', id and claim or math.max(claim, 2000))
      if failed then return failed end
      if not id then return nil, publish(command, channel .. ':' .. owner, '0') end
      return nil, publish(command, channel .. ':' .. id,
        number .. ' ' .. token .. ' ' .. micros() .. ' ' .. claim)
    end
    local deadline
    repeat -- those that have ended are purged when they are the head
      i = i + 1
      owner = call('LINDEX', queue, i)
      deadline = owner and call('ZSCORE', deadlines, owner)
    until not owner or deadline and tonumber(deadline) > now
  end
end
