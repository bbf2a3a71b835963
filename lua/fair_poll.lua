-- fair_poll: serve the waiters of one client: extend the deadlines of their places, and grant the lock if it is free.
--
-- KEYS  see part/queue.lua
-- ARGV  1 client's id   2 PUBLISH, SPUBLISH or publish (see announce)   3 claim, ms   4 time to live of the token's key, ms
--       5... for how long places are of use, ms, and the owners of the client whose places these are; and so on
-- Reply {1, pttl, time, holder, called, heard, far, missing...}
--         pttl of the lock in ms; time of the server in us, as text; holder: the owner that holds the lock, '' if it is free, how many
--         fields there are if it is not a lock
--         called: the head of the queue if it is the client's and the holder is Redisson's, which will call it on a channel of
--         its own, else ''; heard: how many listen on the client's mailbox at this server, -1 if it cannot know; far: 1 if several
--         other clients stand before all of this one, else 0; missing: those of the owners that have no place
-- Atomic, and harmless when repeated. A queue whose two keys differ is repaired, which reads all of it.
-- In a queue with Redisson's waiters the first places, also those of dead waiters, get only the time that they need.

-- include queue

local id = ARGV[1]
if call('LLEN', queue) ~= call('ZCARD', deadlines) - call('ZCOUNT', deadlines, '-inf', past) then
  local queued = {}
  for _, owner in ipairs(call('LRANGE', queue, 0, -1)) do
    if queued[owner] then call('LREM', queue, -1, owner) end
    queued[owner] = true
  end
  for _, owner in ipairs(call('ZRANGE', deadlines, 0, -1)) do
    if not queued[owner] and ends(owner) then call('ZREM', deadlines, owner) end
  end
  for owner in pairs(queued) do
    if not ends(owner) then call('LREM', queue, 0, owner) end
  end
end
local missing, asked, use, place = {}, {}, {}, nil
for i = 5, #ARGV do
  local owner = ARGV[i]
  if tonumber(owner) then
    place = tonumber(owner)
  else
    local deadline = ends(owner)
    if deadline and deadline >= cancelled then
      asked[owner], use[owner] = deadline, place
    else
      missing[#missing + 1] = owner
    end
  end
end
lapsed(id)
local first = call('LINDEX', queue, 0)
if first and (mixed() or not client(first) or (ends(first) or 0) % 1 > 0) then
  behind(silence, function(owner, deadline, needed)
    if asked[owner] then needed = needed - silence + use[owner] end
    local room = deadline >= cancelled and deadline % 1 > 0
    if asked[owner] and deadline < needed or room and deadline > needed then put(owner, needed) end
    asked[owner] = nil
    return room and math.max(0, math.floor(deadline) - math.floor(needed)) or 0
  end)
end
if next(asked) then limit(now + silence) end
for owner, deadline in pairs(asked) do
  local later = now + use[owner]
  if deadline < later then call('ZADD', deadlines, string.format('%.1f', later + deadline % 1), owner) end
end
if call('HLEN', name) == 0 and call('LLEN', queue) > 0 then
  local failed = grant(ARGV[2], tonumber(ARGV[3]), ARGV[4], id)
  if failed then return failed end
end
local holder = whose() or ''
local called = head()
if not called or client(called) ~= id or holder == '' or client(holder) then called = '' end
local heard, before, seen = listeners(ARGV[2], channel .. ':' .. id) or -1, 0, {}
for _, owner in ipairs(call('LRANGE', queue, 0, 31)) do
  local of = client(owner) or owner
  if of == id then break end
  if not seen[of] then before = before + 1 end
  seen[of] = true
end
return {1, call('PTTL', name), micros(), holder, called, heard, before > 3 and 1 or 0, unpack(missing)}
