-- pass: keep a lock for the next holder of the same client, or release it if others listen for a release.
--
-- KEYS  1 lock hash   2 token     3 channel; the key of that name has the longest head start (see acquire)
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms   4 PUBLISH, SPUBLISH or publish (see announce)
--       5 how many tokens are wanted
-- Reply {1, first, last}   kept: the lease is at least that long again, and these tokens are for the next holders
--       {0, heard}         released and announced. heard: how many listened; -1 if this server cannot know
--       {0, heard, '', start}  the same, and one of them needs a head start of so many ms
--       {0, heard, error}  released, but the announcement was refused
--       {-1}               the owner does not hold the lock; nothing was changed. For a repeat see taken.lua
-- Atomic. Repeated after a lost reply it keeps once more, or finds that the lock was released.
-- A head start stays for the client that asked for it, and for clients that waited for it in vain.
-- The listeners on the channel are clients, of this library or of Redisson, that wait for the lock or did so a moment ago.
-- Tokens are reserved by the block only while the clock is ahead of the last one, so they are never further ahead of the
-- clock than one block. PEXPIRE comes first, because Redis allows it when out of memory, and what is behind it then too.
local call = redis.call
local name, tokens, channel = KEYS[1], KEYS[2], KEYS[3]
-- include holder

local heard = -1
if ARGV[4] ~= 'publish' then
  local counted = redis.pcall('PUBSUB', ARGV[4] == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB', channel)
  heard = counted[2] or -1
end
if heard ~= 0 then
  call('DEL', name)
  local command, to, text = ARGV[4], channel, '0'
  -- include announce
  if type(sent) == 'table' and sent.err then return {0, heard, sent.err} end
  local start = redis.pcall('GET', channel)
  if type(start) == 'string' then return {0, heard, '', tonumber(start) or 0} end
  return {0, heard}
end

local last, time = call('GET', tokens), call('TIME')
local first, block = tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(ARGV[5])
if last then
  -- include number
  if n >= first then first, block = n + 1, 1 end
end
last = string.format('%.0f', first + block - 1)
call('PEXPIRE', name, math.max(call('PTTL', name), tonumber(ARGV[2])))
call('SET', tokens, last, 'PX', ARGV[3])
return {1, string.format('%.0f', first), last}
