-- rw_leave: end a read-write lock that is given up early by who writes, at the moment until which it was to stay taken, and wake those
-- who sleep longer.
--
-- KEYS  1 lock hash   2 channel   3 the owner's lease to read
-- ARGV  1 owner       2 how much longer it is to stay, ms, at least 1   3 PUBLISH, SPUBLISH or publish (see announce)
-- Reply {1}           it ends then, or did before, or when the owner has stopped to read
--       {1, error}    the same, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not write; nothing was changed
-- Atomic, and harmless when repeated or late: it never lengthens. The owner is renamed, see leave.lua: so what the network has kept of
-- it is refused as after a release.
local call, name, rest = redis.call, KEYS[1], tonumber(ARGV[2])
local field, left = ARGV[1] .. ':write', string.gsub(ARGV[1], ':h(%d+)$', ':h0%1') .. ':write'
local again = call('HEXISTS', name, left) == 1
if not again and call('HEXISTS', name, field) == 0 then
  if call('HLEN', name) == 0 then call('DEL', name) end -- a replica refuses it
  return {-1}
end
local ttl, reads = call('PTTL', name), call('PTTL', KEYS[3])
local ends = ttl >= 0 and ttl <= math.max(rest, reads)
if not ends then call('PEXPIRE', name, math.max(rest, reads)) end
if not again then
  call('HSET', name, left, '1')
  if call('HDEL', name, field) == 0 then call('DEL', name) end -- it ended just now: see leave.lua
end
if ends then return {1} end
local command, to, text = ARGV[3], KEYS[2], '1'
-- include announce
if type(sent) == 'table' and sent.err then return {1, sent.err} end
return {1}
