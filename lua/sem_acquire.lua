-- sem_acquire: grant an owner permits of a semaphore without waiters, or give it a place in the queue.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many permits there are if the server knows of none yet   2 owner   3 how many it wants   4 lease, ms
--       5 time to live of the token's key, ms
--       6 '1' if an earlier attempt may have run, else '0'. A waiter may have been granted them in any case
--       7 how long a place counts, ms; '0': do not wait   8 claim, ms   9 PUBLISH, SPUBLISH or publish (see announce)
--       10 until when this may be executed, us by the server's clock
-- Reply {1, token, token, time}   granted: all that it wants, for the whole lease
--       {0, ms, time, 0, -3, permits, free, waiters, owner}   not granted. ms until the first lease of a permit ends, and its owner, if
--                                 that is one of this library; time of the server in us, as text; how many permits there are, how many of
--                                 them are free, below 0 if more are out than there are; and how many owners wait, with this one if it has a place
--       {-2, time}                it came too late, or its client does not know the server's clock; nothing was changed
--       an error HOLDFAST_PERMITS if there are not so many; it has no place any more
-- Atomic. A waiter whose place counts and that can be reached is never passed. An owner keeps its place when it asks again, and the
-- permits that it was granted: that is the same grant, with a new token, because its own may not be the last one any more. If these
-- are fewer than it wants, they are given back first. Permits that the first waiter leaves go to those behind it.

-- include permits

local owner, n, lease, place = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[7])
local clock, limit = micros(), ARGV[10]
-- include late
local failed, token = nextToken()
failed = failed or count()
if failed then return failed end
local function granted()
  call('SET', tokens, token, 'PX', ARGV[5])
  return {1, token, token, clock}
end
-- Also a first attempt may find them: one that the network kept, while its repeat was granted them.
if has(owner) and whole(owner, n) then
  local ends = math.max(now + lease, tonumber(call('ZSCORE', permits, owner)))
  several(owner, 1, n, 'ZADD', string.format('%.0f', ends))
  drop(owner)
  return granted()
end
if ARGV[6] == '1' or place > 0 then
  local ended = take(owner)
  if ended > 0 then change(ended) end
end
if n > free and n > all() then
  drop(owner)
  return redis.error_reply('HOLDFAST_PERMITS ' .. n .. ' permits were asked for, and the semaphore ' .. name .. ' has '
    .. string.format('%.0f', all()))
end
local first = head()
-- Also where there is enough: who let a claim end is known before anything is handed out.
if n > free or first and first ~= owner then sweep(n) end
local function get()
  if first then drop(owner) end
  local reply = granted() -- before what it says: if this is refused nothing is held
  return hold(owner, n, lease), reply
end
local present = place > 0 and client(owner) or nil
if n <= free and (not first or first == owner) then
  local wrong, reply = get()
  if wrong then return wrong end
  -- Those behind it get the rest. If that fails it must not look as if nothing had been granted.
  if first and free > 0 then pcall(grant, ARGV[9], tonumber(ARGV[8]), ARGV[5], present) end
  return reply
end
if place > 0 then enqueue(owner, n, place) end
local unheard, waits
if free > 0 then failed, unheard, waits = grant(ARGV[9], tonumber(ARGV[8]), ARGV[5], present) end
if failed then return failed end
if given[owner] then -- all before it are out of reach, or have been served
  several(owner, 1, n, 'ZADD', string.format('%.0f', now + lease))
  drop(owner)
  return {1, given[owner], given[owner], clock}
end
if not waits and n <= free then -- all who wait are out of reach
  failed, token = nextToken()
  if failed then return failed end
  local wrong, reply = get()
  return wrong or reply
end
local there = name
-- include master
local ms, who = nearest()
return {0, ms, clock, 0, -3, all(), free, waiters(), who}
