-- force: free one master's part of a quorum lock, in a way that the holder notices.
--
-- KEYS  1 lock hash   2 token   3 channel
-- ARGV  1 the owner that was seen to hold the lock   2 PUBLISH, SPUBLISH or publish (see announce)   3 time to live of the token's key, ms
--       4 the greatest token that a master was seen to have, '0': none
-- Reply {1}           released, and announced
--       {1, error}    released, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not hold the lock here
-- Atomic, and harmless when repeated. Nothing is changed if another owner holds the lock.
-- A holder asks a master that no longer knows it to restore the hold, because mostly the master has forgotten it. It counts its
-- hold as unbroken if the master's last token is still its own. So this script uses up a token, also if no owner holds the lock: the
-- holder may ask there too. That token is above all tokens that were seen: a master that has none would otherwise be taken for one
-- that had nothing to do with the lock. (Rejected: release alone. The holder's next renewal restored the lock, unnoticed.)
-- HDEL finds nothing. Redis allows it when out of memory, and then allows the SET behind it. DEL comes last: a missing
-- permission shows before any change.
local call, name, tokens, command = redis.call, KEYS[1], KEYS[2], ARGV[2]
local held = call('HEXISTS', name, ARGV[1]) == 1
if not held and call('HLEN', name) > 0 then return {-1} end
-- include clock
local last, token = call('GET', tokens), clock
if last and (#last > #token or #last == #token and last >= token or string.find(last, '%D')) then
  -- include number
  token = string.format('%.0f', n + 1)
end
local most = ARGV[4]
if #most > #token or #most == #token and most >= token then token = string.format('%.0f', tonumber(most) + 1) end
redis.pcall('HDEL', name, '')
call('SET', tokens, token, 'PX', math.max(tonumber(ARGV[3]), call('PTTL', tokens)))
if not held then return {-1} end
call('DEL', name)
local to, text = KEYS[3], '0'
-- include announce
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return {1}
