-- fair_poll: look after the waiters of one client: put off the deadlines of their places, and hand the lock on if it is free.
--
-- KEYS  see fair.lua
-- ARGV  1 client's id   2 PUBLISH or SPUBLISH   3 claim, ms   4 time to live of the token's key, ms
--       5 how long a place counts, ms   6... owners of the client that wait
-- Reply {1, pttl, time, holder, called, heard, missing...}
--         pttl of the lock in ms; time of the server in us, as text; holder: the owner that holds the lock, '' if nobody does
--         called: the head of the queue if it is the client's and the holder is Redisson's, who will call it on a channel of
--         its own, else ''; heard: how many listen on the client's mailbox at this server, -1 if it cannot know; missing:
--         those of the owners that have no place
-- Atomic, and harmless when repeated. A queue whose two keys do not tell the same is repaired.
local id, place = ARGV[1], tonumber(ARGV[5])
if call('LLEN', queue) ~= call('ZCARD', deadlines) then
  local queued = {}
  for _, owner in ipairs(call('LRANGE', queue, 0, -1)) do queued[owner] = true end
  for _, owner in ipairs(call('ZRANGE', deadlines, 0, -1)) do
    if not queued[owner] then call('ZREM', deadlines, owner) end
  end
  for owner in pairs(queued) do
    if not call('ZSCORE', deadlines, owner) then call('LREM', queue, 0, owner) end
  end
end
local missing, asked = {}, {}
for i = 6, #ARGV do
  asked[ARGV[i]] = true
  if not call('ZSCORE', deadlines, ARGV[i]) then missing[#missing + 1] = ARGV[i] end
end
if #ARGV > 5 and mixed() then
  behind(place, function(owner, deadline, needed, others)
    if not asked[owner] then return end
    deadline = math.floor(math.max(deadline, needed))
    put(owner, others and deadline + 0.5 or deadline)
  end)
elseif #ARGV > 5 then
  for i = 6, #ARGV do
    local deadline = call('ZSCORE', deadlines, ARGV[i])
    if deadline and tonumber(deadline) < now + place then call('ZADD', deadlines, now + place, ARGV[i]) end
  end
  if call('LLEN', queue) > 0 then limit(now + place) end
end
if call('HLEN', name) == 0 and call('LLEN', queue) > 0 then
  local failed = grant(ARGV[2], tonumber(ARGV[3]), ARGV[4], id)
  if failed then return failed end
end
local holder = call('HGETALL', name)[1] or ''
local called = head()
if not called or client(called) ~= id or holder == '' or client(holder) then called = '' end
local heard = listeners(ARGV[2], channel .. ':' .. id) or -1
return {1, call('PTTL', name), micros(), holder, called, heard, unpack(missing)}
