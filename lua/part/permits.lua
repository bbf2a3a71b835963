-- permits: the functions that the scripts of the semaphore share. They stand in front of each script.
-- Reads: KEYS, which are the same for all of these scripts; ARGV[1], how many permits there are if the server knows of none yet
-- Sets:  the locals and functions of this file
--
-- KEYS  1 free: how many permits are free   2 permits: sorted set, permit -> until when, ms of the server's clock   3 token
--       4 queue: sorted set, owner that waits -> when it came, us   5 places: sorted set, owner -> until when its place counts, ms
--       6 wants: hash, owner that waits -> how many permits, if more than one   7 channel
--       8 what counts the number: 'semaphore', or 'latch'; written with the number, because only this tells the two apart
-- 1, 2 and 7 are Redisson's (RPermitExpirableSemaphore). The number of permits is the free ones and those that are out. It may be less
-- than those that are out: then the free number is negative.
--
-- A permit of this library has the name of its owner; further permits of the same owner have "/2", "/3" and so on behind that. All have
-- one end. Redisson takes back those that have ended in the order of their ends and then of their names, so the one without a
-- number first: while that exists, all do. Redisson's own permits have random names, by which they are told from these.
--
-- Waiters: an owner that comes while others wait, or while too few permits are free, takes a place at the end of the queue. Only the
-- first waiter is granted permits, when all that it wants are free; those behind it wait for that, so a waiter for many is not starved.
-- The script that sees permits come back grants them: with a claim, a lease that is just long enough for the client to be told, on its
-- mailbox, which is the channel with ":" and the client's id behind it: "<number of the owner> <token> <time, us> <claim, ms>", and
-- behind that the number of permits, if more than one. A waiter that wants another number asks: the server has lost the key with it.
-- "<number of the owner> - - -" tells a waiter to ask. A client whose mailbox has no listener at this server is passed over, and its
-- waiters keep their places. (See part/queue.lua.)
--
-- A negative deadline is not a deadline. It marks an owner that was granted permits by a message, until it gives them back or has asked
-- for them, or a client of which such an owner let its lease end: its other waiters are passed over until the client sends a command, so a
-- dead or stopped client costs a claim for each permit, and not one for each waiter. The number is the time of that. So are calls that set
-- the number of permits, under names that no owner has, until they cannot come again: their number is when they may last be repeated.
--
-- Work: a script reads a bounded number of places and permits, or removes those that it reads for good. Its other work grows with the
-- permits that it grants or gives back.
local call = redis.call
local name, permits, tokens, queue, places, wants, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local look = 128 -- places or permits that are looked at, at a time
local few = 4 -- places that are looked at first: mostly the first ones count, and each that is read costs time
local silence = 15000 -- ms: for how long a place counts without a word of its client
local most = 100 -- grants by one script. Where there are more to be made, the next who waits is told to ask, and that script goes on
local remembered = 2592000000 -- ms: for how long the number of permits is, without a grant

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function micros()
  return time[1] .. string.rep('0', 6 - #time[2]) .. time[2]
end

-- client is the id of an owner's client, and the owner's number there; nil if it is no owner of this library.
local function client(owner) return string.match(owner, '^(.*):(h%d+)$') end

local free = nil -- permits
local known = nil -- how many of them the server knew to be free; false: nothing

-- count finds out how many permits are free, and returns an error if the key holds no number, or a latch's. A number that the server does
-- not know is written, unless anytime is true and neither permits nor waiters are there: a call that may come at any time, also from a
-- client that was closed long ago, makes no semaphore on a server that has lost it.
local function count(anytime)
  known = call('GET', name)
  if known and call('GET', KEYS[8]) == 'latch' then
    return redis.error_reply('HOLDFAST the key ' .. name .. ' is a latch, not a semaphore')
  end
  free = tonumber(known or nil)
  if known and not free then
    return redis.error_reply('HOLDFAST the key ' .. name .. ' does not hold a number of permits: ' .. string.sub(known, 1, 60))
  end
  if not known then
    free = tonumber(ARGV[1]) - call('ZCARD', permits)
    if anytime and call('EXISTS', permits, queue) == 0 then return nil end
    call('SET', name, free, 'PX', remembered)
    call('SET', KEYS[8], 'semaphore', 'PX', remembered)
  end
end

local function change(by) free = call('INCRBY', name, by) end

-- all is how many permits there are.
local function all() return free + call('ZCARD', permits) end

-- has tells whether an owner has permits.
local function has(owner)
  local ends = call('ZSCORE', permits, owner)
  return ends and tonumber(ends) > now
end

-- whole tells whether an owner that has permits has n of them. It may have fewer if the key that says how many it wants was lost.
local function whole(owner, n)
  return n == 1 or call('ZSCORE', permits, owner .. '/' .. n)
end

-- several calls a command for permits of an owner from the i-th to the last, each behind what is in front of it, if that is given.
local function several(owner, i, last, command, front)
  local done = 0
  for from = i, last, 1000 do
    local args = {}
    for j = from, math.min(last, from + 999) do
      if front then args[#args + 1] = front end
      args[#args + 1] = j == 1 and owner or owner .. '/' .. j
    end
    done = done + call(command, permits, unpack(args))
  end
  return done
end

-- take removes the permits of an owner, and returns how many it had.
local function take(owner)
  local n = call('ZREM', permits, owner)
  if n == 0 or call('ZREM', permits, owner .. '/2') == 0 then return n end
  n = 2
  repeat
    local more = several(owner, n + 1, n + look, 'ZREM')
    n = n + more
  until more < look
  return n
end

-- sweep takes back permits whose leases have ended, until so many are free.
local function sweep(enough)
  repeat
    local ended = call('ZRANGEBYSCORE', permits, '-inf', now, 'LIMIT', 0, look)
    if #ended > 0 then
      change(0) -- fails here if it would fail below, where permits would be gone that nobody counts
      call('ZREM', permits, unpack(ended))
      for _, owner in ipairs(ended) do
        local id = client(owner)
        if id and call('ZREM', places, owner) == 1 then
          call('ZREMRANGEBYSCORE', places, '(' .. silence - now, '(0')
          call('ZADD', places, -now, id)
          if call('PTTL', places) < 4 * silence then call('PEXPIRE', places, 4 * silence) end
        end
      end
      change(#ended)
    end
  until #ended < look or free >= enough
end

-- stay puts off the ends of the keys, if they have any: Redisson's have none.
local function stay(lease)
  local left, needed = call('PTTL', name), math.max(remembered, 2 * lease)
  if left < 0 then -- also if it had one: Redisson's addPermits takes that away, and that of the permits would come with them still out
    local last = call('PTTL', permits)
    if last >= 0 and last < needed - 86400000 then call('PEXPIRE', permits, needed) end
    return
  end
  if left < needed - 86400000 then -- not each time
    left = needed
    call('PEXPIRE', name, left)
    if KEYS[8] then call('PEXPIRE', KEYS[8], left) end
  end
  local last = call('PTTL', permits)
  if last < left - 86400000 then call('PEXPIRE', permits, left) end
end

-- hold grants an owner n permits for so long, or returns an error. What Redisson has left of permits of the same owner that have ended
-- is out, and not counted again.
local function hold(owner, n, lease)
  local added = several(owner, 1, n, 'ZADD', string.format('%.0f', now + lease))
  local changed = redis.pcall('INCRBY', name, 0 - added) -- (-0 is no integer to Redis)
  if type(changed) == 'table' then
    take(owner)
    return changed
  end
  free = changed
  local ok, refused = pcall(stay, lease)
  if ok then return end
  take(owner) -- permits without an end must not stay
  change(n)
  return type(refused) == 'table' and refused or redis.error_reply(refused)
end

-- nextToken returns an error, or nil and the time in microseconds: one more than the last token if the clock does not allow that.
local function nextToken()
  local last, token = call('GET', tokens), micros()
  if last and (#last ~= #token or last >= token or string.find(last, '%D')) then
    -- include number
    token = string.format('%.0f', math.max(n + 1, tonumber(token)))
  end
  return nil, token
end

local function drop(owner)
  call('ZREM', queue, owner)
  call('ZREM', places, owner)
  call('HDEL', wants, owner)
end

-- counts tells whether an owner's place does.
local function counts(owner)
  local deadline = call('ZSCORE', places, owner)
  return deadline and tonumber(deadline) > now and tonumber(deadline)
end

-- head is the first whose place counts. Those before it are taken out, each of them once.
local function head()
  local step = few
  while true do
    local some, n = call('ZRANGE', queue, 0, step - 1), 0
    while some[n + 1] and not counts(some[n + 1]) do n = n + 1 end
    if n > 0 then
      call('ZREM', queue, unpack(some, 1, n))
      call('ZREM', places, unpack(some, 1, n))
      call('HDEL', wants, unpack(some, 1, n))
    end
    if some[n + 1] or n < step then return some[n + 1] end
    step = look
  end
end

-- enqueue gives an owner a place at the end, unless it has one.
local function enqueue(owner, n, place)
  if place < silence then call('ZREM', places, client(owner)) end -- it is heard of, which so early a deadline does not say
  local fresh = not counts(owner) or not call('ZSCORE', queue, owner) -- one key may be lost, and not the other
  call('ZADD', places, now + place, owner)
  if fresh then
    local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    local came = math.max(tonumber(micros()), (tonumber(last[2]) or 0) + 1)
    call('ZADD', queue, string.format('%.0f', came), owner)
  end
  if n > 1 then call('HSET', wants, owner, n) end -- each time, for the key may have been lost since
  -- Not each time. The queue is never there without the other two for longer: each is made with the first place or later, and all
  -- are put off together.
  if call('PTTL', queue) < 2 * place then
    for _, key in ipairs({queue, wants}) do call('PEXPIRE', key, 4 * place) end
    if call('PTTL', places) < 4 * place then call('PEXPIRE', places, 4 * place) end -- it may have to know calls for longer
  elseif n > 1 and call('PTTL', wants) < 0 then
    call('PEXPIRE', wants, 4 * place)
  end
end

-- publish sends, by the command of this server, and returns why that was refused.
local function publish(command, to, text)
  -- include announce
  return type(sent) == 'table' and sent.err or nil
end

-- listeners is how many listen on a channel at this server; nil if it does not know all of them.
local function listeners(command, to)
  if command == 'publish' then return nil end
  local counted = redis.pcall('PUBSUB', command == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB', to)
  return counted[2]
end

-- toAsk tells a waiter to ask, and returns why that was refused.
local function toAsk(command, owner)
  local id, number = client(owner)
  return publish(command, channel .. ':' .. id, number .. ' - - -')
end

-- grant hands out what is free to those who wait, in their order. present is a client that is known to be there, whoever listens,
-- because it asks. Returns an error for the caller to reply with; why somebody could not be told; and whether somebody who can be
-- reached waits on. given has the tokens, by the owner.
local given = {}
local function grant(command, claim, keep, present)
  local unheard, deaf, passed, n = nil, {}, 0, 0
  local function hears(owner, deadline)
    local id = client(owner)
    if id == present then return true end
    if deaf[id] == nil then deaf[id] = listeners(command, channel .. ':' .. id) == 0 end
    if deaf[id] then return false end
    local lapsed = call('ZSCORE', places, id)
    return not lapsed or deadline - silence >= -tonumber(lapsed)
  end
  local function hand(owner, wanted)
    local refused, token = nextToken()
    refused = refused or hold(owner, wanted, claim)
    if refused then return refused end
    call('SET', tokens, token, 'PX', keep)
    call('ZREM', queue, owner)
    if wanted > 1 then call('HDEL', wants, owner) end
    call('ZADD', places, -now, owner)
    given[owner], n = token, n + 1
    local id, number = client(owner)
    local text = number .. ' ' .. token .. ' ' .. micros() .. ' ' .. claim
    if wanted > 1 then text = text .. ' ' .. wanted end
    unheard = publish(command, channel .. ':' .. id, text) or unheard
  end
  local step = few
  while head() do
    local some = call('ZRANGE', queue, passed, passed + step - 1)
    for _, owner in ipairs(some) do
      if n > 0 and free < 1 then return nil, unheard, true end -- the usual end: what came back has been handed out
      local deadline = counts(owner)
      if not deadline then
        drop(owner)
      elseif not hears(owner, deadline) then
        passed = passed + 1
      else
        local wanted = tonumber(call('HGET', wants, owner) or nil) or 1
        if wanted > free then sweep(wanted) end
        if wanted > free and wanted > all() then -- there were more when it came: it asks, and is told
          drop(owner)
          unheard = toAsk(command, owner) or unheard
        elseif wanted > free then
          return nil, unheard, true
        elseif n >= most then
          return nil, toAsk(command, owner) or unheard, true
        else
          local failed = hand(owner, wanted)
          if failed then return failed end
        end
      end
    end
    if #some < step or passed > 8 * look then break end
    step = look
  end
  return nil, unheard, false
end

-- tellOthers says on Redisson's channel how many are free, if any are. Returns why that was refused.
local function tellOthers(command)
  return free > 0 and publish(command, channel, string.format('%.0f', free)) or nil
end

-- waiters is how many wait: those of a refused owner are among them.
local function waiters() return call('ZCOUNT', places, '(' .. now, '+inf') end

-- nearest is what a permit says of who has it, the one that ends first, and how much of its lease is left, ms.
local function nearest()
  local first = call('ZRANGE', permits, 0, 0, 'WITHSCORES')
  if not first[1] then return silence, nil end
  local owner = string.gsub(first[1], '/%d+$', '')
  return math.max(0, first[2] - now), client(owner) and owner or nil
end
