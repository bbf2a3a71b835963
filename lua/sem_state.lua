-- sem_state: read what the server knows of a semaphore at this moment.
--
-- KEYS  see part/permits.lua
-- ARGV  1 how many permits there are if the server knows of none yet
-- Reply {1, permits, free, waiters, permit, ms...}   how many there are, and are free, and wait; then permits that are out, and what is left
--                  of their leases: 1024 at most, those that end first
-- Reads only; all values are of one moment. It does not take back permits whose leases have ended, and counts them as free.
-- Work: grows with the permits that are returned, however many there are.
local call = redis.call
local name, permits, places = KEYS[1], KEYS[2], KEYS[5]
-- include clock
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known, out = call('GET', name), call('ZCARD', permits)
if known and call('GET', KEYS[8]) == 'latch' then
  return redis.error_reply('HOLDFAST the key ' .. name .. ' is a latch, not a semaphore')
end
local free = tonumber(known or ARGV[1] - out)
if not free then
  return redis.error_reply('HOLDFAST the key ' .. name .. ' does not hold a number of permits: ' .. string.sub(known, 1, 60))
end
local reply = {1, free + out, free + call('ZCOUNT', permits, '-inf', now), call('ZCOUNT', places, '(' .. now, '+inf')}
local some = call('ZRANGEBYSCORE', permits, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1024)
for i = 1, #some, 2 do
  reply[#reply + 1], reply[#reply + 2] = some[i], some[i + 1] - now
end
return reply
