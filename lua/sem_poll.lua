-- sem_poll: serve the waiters of one client: extend the deadlines of their places, and hand out free permits.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many permits there are if the server knows of none yet   2 client's id   3 PUBLISH, SPUBLISH or publish (see announce)   4 claim, ms
--       5 time to live of the token's key, ms
--       6... for how long places are of use, ms, and the owners of the client whose places these are; and so on
-- Reply {1, ms, time, owner, called, heard, far, -3, permits, free, waiters, owner...}
--         ms until the first lease of a permit ends; time of the server in us, as text; the owner of this client that was handed
--         permits last, else the owner of the permit that ends first, '' if that is not known; called: 'redisson'
--         if clients of Redisson have permits, which announce on the channel when they give them back, else ''; heard: how many listen on the
--         client's mailbox at this server, -1 if it cannot know; far: 1 if several other clients stand before all of this one, else 0;
--         permits, free and waiters: as sem_acquire says them;
--         then those of this client that were handed permits, the last ones first, and those of the owners that have no place
-- Atomic, and harmless when repeated.
--
-- Permits of Redisson's are searched among those that end first and last.

-- include permits

local failed = count(true)
if failed then return failed end
local id, place = ARGV[2], nil
local missing, tell = {}, {}
for i = 6, #ARGV do
  local owner = ARGV[i]
  if tonumber(owner) then
    place = tonumber(owner)
  elseif counts(owner) then
    enqueue(owner, 1, place)
  else
    missing[#missing + 1] = owner
  end
end
call('ZREM', places, id)
sweep(0)
failed = grant(ARGV[3], tonumber(ARGV[4]), ARGV[5], id)
if failed then return failed end
local ms, who = nearest()
for _, owner in ipairs(call('ZRANGEBYSCORE', places, '-inf', '(0', 'LIMIT', 0, look)) do
  if client(owner) == id and has(owner) then tell[#tell + 1] = owner end
end
who = tell[1] or who
for _, owner in ipairs(missing) do tell[#tell + 1] = owner end
local called = ''
for _, at in ipairs({{0, 15}, {-16, -1}}) do
  for _, permit in ipairs(call('ZRANGE', permits, at[1], at[2])) do
    if not client((string.gsub(permit, '/%d+$', ''))) then called = 'redisson' end
  end
end
local heard, before, seen = listeners(ARGV[3], channel .. ':' .. id) or -1, 0, {}
for _, owner in ipairs(call('ZRANGE', queue, 0, 31)) do
  local of = client(owner)
  if of == id then break end
  if not seen[of] then before = before + 1 end
  seen[of] = true
end
return {1, ms, micros(), who or '', called, heard, before > 3 and 1 or 0, -3, all(), free, waiters(), unpack(tell)}
