-- sem_join: give several waiters of one client, which want a permit each, places in the queue of a semaphore.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many permits there are if the server knows of none yet   2 until when this may be executed, us by the server's clock
--       3 claim, ms   4 PUBLISH, SPUBLISH or publish (see announce)   5 time to live of the token's key, ms
--       6... for how long places are of use, ms, and the owners who want these; and so on
-- Reply {0, ms, time, 0, -3, permits, free, waiters, owner}   they have places, in this order, before later waiters, as sem_acquire says it. An
--                   owner that was granted a permit is told as by a release; time is before that
--       {1}         they must ask one by one: one of them has a permit, or there are none; nothing was changed
--       {-2, time}  it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. Free permits are granted to the first in the queue that can be reached. It is for a first attempt: an owner that may have
-- been granted a permit asks by sem_acquire.

-- include permits

local clock = micros()
do
  local limit = ARGV[2]
  -- include late
end
local failed = nextToken() or count()
if failed then return failed end
local owners, use, place = {}, {}, nil
for i = 6, #ARGV do
  local owner = ARGV[i]
  if tonumber(owner) then
    place = tonumber(owner)
  else
    if call('ZSCORE', permits, owner) then return {1} end
    owners[#owners + 1], use[owner] = owner, place
  end
end
if all() < 1 then return {1} end
for _, owner in ipairs(owners) do enqueue(owner, 1, use[owner]) end
sweep(0) -- who let a claim end is known before anything is handed out
failed = free > 0 and grant(ARGV[4], tonumber(ARGV[3]), ARGV[5], client(owners[1])) or nil
if failed then return failed end
local ms, who = nearest()
return {0, ms, string.format('%.0f', tonumber(clock) - 1), 0, -3, all(), free, waiters(), who}
