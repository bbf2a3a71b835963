-- fair_join: give several waiters of one client places in the queue.
--
-- KEYS  see part/queue.lua
-- ARGV  1 how long their places count, ms   2 until when this may be executed, us by the server's clock   3 claim, ms
--       4 PUBLISH, SPUBLISH or publish (see announce)   5 time to live of the token's key, ms   6... the owners
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
  local limit = ARGV[2]
  -- include late
end
local fields = call('HLEN', name)
if fields > 4 then return {1} end
if fields == 0 then
  local refused = nextToken()
  if refused then return refused end
end
local hash, owners, fresh = call('HGETALL', name), {}, true
for i = 6, #ARGV do
  if ARGV[i] == hash[1] then return {1} end
  owners[i - 5] = ARGV[i]
  fresh = fresh and not call('ZSCORE', deadlines, ARGV[i])
end
local foreign = false
if fresh and not mixed() then
  short(owners[1], tonumber(ARGV[1]))
  local deadline, scores = string.format('%.1f', now + ARGV[1]), {}
  for i, owner in ipairs(owners) do scores[2 * i - 1], scores[2 * i] = deadline, owner end
  call('ZADD', deadlines, unpack(scores))
  if call('RPUSH', queue, unpack(owners)) == #owners then limit(tonumber(deadline)) end
else
  for _, owner in ipairs(owners) do foreign = enqueue(owner, tonumber(ARGV[1])) or foreign end
end
if fields == 0 then
  local failed = grant(ARGV[4], tonumber(ARGV[3]), ARGV[5], client(owners[1]))
  if failed then return failed end
  hash, clock = call('HGETALL', name), string.format('%.0f', tonumber(clock) - 1)
  if not hash[1] then return {1} end -- those of them who had places already had them for too long
end
foreign = foreign or not client(hash[1])
return {0, call('PTTL', name), clock, foreign and 1 or 0, hash[1], hash[3], hash[5], hash[7]}
