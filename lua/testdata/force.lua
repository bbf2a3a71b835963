-- force: free one master's part of a quorum lock, whoever holds it, in a way that the holder finds out.
--
-- KEYS  1 lock hash   2 token   3 channel
-- ARGV  1 owner, who was seen to hold the lock   2 PUBLISH, SPUBLISH or publish (see announce)   3 time to live of the token's key, ms
--       4 the greatest token that a master was seen to have, '0': none
-- Reply {1}           released, and announced
--       {1, error}    released, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not hold the lock here
-- Atomic, and harmless when repeated. Nothing is changed if another owner holds the lock.
-- A holder asks a master that does not know it any more to take it back, because mostly the master has forgotten it. It counts its
-- hold as unbroken if the master's last token is still its own. So this script uses up a token, also where nobody holds the lock: the
-- holder may ask there too. That token is above all tokens that were seen: a master that has none would otherwise be taken for one
-- that had nothing to do with the lock. (Rejected: release alone. The holder's next renewal restored the lock, and nobody noticed.)
-- HDEL finds nothing. Redis allows it when out of memory, and then allows the SET behind it. DEL comes last: what a user may not run
-- is found out before anything is changed.
local call, name, tokens, command = redis.call, KEYS[1], KEYS[2], ARGV[2]
local held = call('HEXISTS', name, ARGV[1]) == 1
if not held and call('HLEN', name) > 0 then return {-1} end
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local last, token = call('GET', tokens), clock
if last and (#last > #token or #last == #token and last >= token or string.find(last, '%D')) then
  local n = not string.find(last, '%D') and tonumber(last)
  if not n or n >= 9007199254740991 then
    return redis.error_reply('HOLDFAST the token key ' .. tokens .. ' does not hold a token: ' .. last)
  end
  token = string.format('%.0f', n + 1)
end
local most = ARGV[4]
if #most > #token or #most == #token and most >= token then token = string.format('%.0f', tonumber(most) + 1) end
redis.pcall('HDEL', name, '')
call('SET', tokens, token, 'PX', math.max(tonumber(ARGV[3]), call('PTTL', tokens)))
if not held then return {-1} end
call('DEL', name)
local to, text = KEYS[3], '0'
local sent = redis.pcall(command, to, text)
if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', to, text)
end
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return {1}
