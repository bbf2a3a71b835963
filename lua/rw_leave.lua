-- rw_leave: end a read-write lock that its writer releases early, at the moment until which it must stay taken, and wake waiters
-- that sleep longer.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 owner       2 how much longer it must stay, ms, at least 1   3 PUBLISH, SPUBLISH or publish (see announce)
-- Reply {1}           it ends then, or did before; owners that read by then go on
--       {1, error}    the same, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not write; nothing was changed
-- Atomic, and harmless when repeated or late: it never lengthens. The owner is renamed, see leave.lua: so its delayed commands are
-- refused as after a release.
--
-- If the owner reads, too, the hash lasts as long as that lease, which is renewed. So the end of the stay is the value of the field that
-- stays: "till" and a time of the server's clock, ms. (No number: Redisson's scripts take the value of each field for a count, and count
-- to it.) After that time, other scripts treat the lock as read, see part/stay.lua. If the owner has stopped reading
-- before, the hash ends with the stay. Clients of Redisson treat the lock as written until then, or until the owner renews its lease
-- to read.
local call, name, stay = redis.call, KEYS[1], tonumber(ARGV[2])
local field, left = ARGV[1] .. ':write', string.gsub(ARGV[1], ':h(%d+)$', ':h0%1') .. ':write'
local ends = call('HGET', name, left)
if not ends and call('HEXISTS', name, field) == 0 then
  if call('HLEN', name) == 0 then call('DEL', name) end -- a replica refuses it
  return {-1}
end
-- include clock
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local again, ttl, one = ends, call('PTTL', name), false
-- include readers
local stands = again and string.sub(ends, 5) - now or ttl >= 0 and ttl or math.huge -- for how long it would stay without this
if again and stands <= stay then return {1} end
stay = math.min(stay, stands)
call('PEXPIRE', name, math.max(stay, rest, 1)) -- first: see leave.lua
call('HSET', name, left, string.format('till%.0f', now + stay))
if not again and call('HDEL', name, field) == 0 then call('DEL', name) end -- it ended just now: see leave.lua
if stands <= tonumber(ARGV[2]) then return {1} end
local command, to, text = ARGV[3], KEYS[2], '1'
-- include announce
if type(sent) == 'table' and sent.err then return {1, sent.err} end
return {1}
