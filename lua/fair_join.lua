-- fair_join: give several waiters of one client places in the queue.
--
-- KEYS  see part/queue.lua
-- ARGV  1 until when this may be executed, us by the server's clock   2 claim, ms   3 PUBLISH, SPUBLISH or publish (see announce)
--       4 time to live of the token's key, ms   5... for how long places are of use, ms, and the owners who want these; and so on
-- Reply {0, pttl, time, foreign, field...}   they have places, in this order, before later waiters. The values are those that
--                   fair_acquire replies to each of them. An owner that was granted the lock is told as by a release; time is before that
--       {1}         they must ask one by one: one of them has the lock, or its hash has more fields than a lock, and nothing was
--                   changed; or the lock is free, and no owner with a place can be reached
--       {-2, time}  it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. A free lock is granted to the first in the queue that can be reached, with those behind it. For the server this is less work
-- than a fair_acquire for each: it looks at the lock and at the end of the queue once. Owners that have a place already keep it. It is
-- for a first attempt: an owner that may have been granted the lock asks by fair_acquire.

-- include queue

local clock = micros()
do
  local limit = ARGV[1]
  -- include late
end
local fields = call('HLEN', name)
if fields > 4 then return {1} end
if fields == 0 then
  local refused = nextToken()
  if refused then return refused end
end
local hash, owners, use, shortest, place, fresh = call('HGETALL', name), {}, {}, silence, nil, true
for i = 5, #ARGV do
  local owner = ARGV[i]
  if tonumber(owner) then
    place = tonumber(owner)
    shortest = math.min(shortest, place)
  else
    if owner == hash[1] then return {1} end
    owners[#owners + 1], use[owner] = owner, place
    fresh = fresh and not call('ZSCORE', deadlines, owner)
  end
end
local foreign = false
if fresh and not mixed() then
  short(owners[1], shortest)
  local scores = {}
  for i, owner in ipairs(owners) do scores[2 * i - 1], scores[2 * i] = string.format('%.1f', now + use[owner]), owner end
  call('ZADD', deadlines, unpack(scores))
  if call('RPUSH', queue, unpack(owners)) == #owners then limit(now + silence) end
else
  for _, owner in ipairs(owners) do foreign = enqueue(owner, use[owner]) or foreign end
end
if fields == 0 then
  local failed = grant(ARGV[3], tonumber(ARGV[2]), ARGV[4], client(owners[1]))
  if failed then return failed end
  hash, clock = call('HGETALL', name), string.format('%.0f', tonumber(clock) - 1)
  if not hash[1] then return {1} end -- those of them who had places already had them for too long
end
foreign = foreign or not client(hash[1])
return {0, call('PTTL', name), clock, foreign and 1 or 0, hash[1], hash[3], hash[5], hash[7]}
