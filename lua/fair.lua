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
-- "<number of the owner> <token> <time of the grant, us> <claim, ms>". PUBLISH tells whether anybody listens; a head that
-- cannot be reached is passed over, and keeps its place. One of Redisson's is handed the lock as count 0, which its own next
-- attempt makes 1, and is called on the channel followed by ":" and its owner id.
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

local function client(owner) return string.match(owner, '^(.*):h%d+$') end

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

-- enqueue gives an owner a place at the end, unless it has one.
local function enqueue(owner, place)
  if call('ZSCORE', deadlines, owner) then return end
  local deadline = now + place
  if mixed() then
    local last = call('ZSCORE', deadlines, call('LINDEX', queue, -1))
    deadline = math.max(math.floor(behind(place)), math.floor(tonumber(last or 0)) + place) + 0.5
  end
  call('RPUSH', queue, owner)
  put(owner, deadline)
end

-- publish sends and returns how many heard it: nil if the server cannot know, which is so for classic channels of a cluster.
local function publish(command, to, text)
  local heard = redis.pcall(command, to, text)
  if type(heard) == 'table' and heard.err and command ~= 'PUBLISH' and string.find(heard.err, 'nknown') then
    heard = redis.pcall('PUBLISH', to, text)
    if type(heard) ~= 'table' then return nil end
  end
  if type(heard) == 'table' and heard.err then return nil, heard.err end
  return heard
end

-- grant hands the free lock to the first waiter that can be reached. present is a client that is known to be there, whatever
-- PUBLISH says, because it asks. Returns an error for the caller to reply with, and why nobody could be told.
local function grant(command, claim, keep, present)
  if not head() then return end
  local token, refused = nextToken()
  if not token then return refused end
  local deaf = {}
  for i = 0, call('LLEN', queue) - 1 do
    local owner = call('LINDEX', queue, i)
    local id, deadline = client(owner), call('ZSCORE', deadlines, owner)
    local counts = deadline and tonumber(deadline) > now -- else it is purged when it is the head
    if counts and not id then
      drop(owner)
      call('SET', tokens, token, 'PX', keep)
      local failed = hold(owner, '0', math.max(claim, 2000))
      return failed, select(2, publish(command, channel .. ':' .. owner, '0'))
    elseif counts and not deaf[id] then
      local number = string.match(owner, 'h%d+$')
      local heard, unheard = publish(command, channel .. ':' .. id,
        number .. ' ' .. token .. ' ' .. micros() .. ' ' .. claim)
      if heard ~= 0 or id == present then
        drop(owner)
        call('SET', tokens, token, 'PX', keep)
        return hold(owner, '1', claim), unheard
      end
      deaf[id] = true
    end
  end
end
