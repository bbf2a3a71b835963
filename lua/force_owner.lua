-- force_owner: free a lock of one owner, and hand it to who waits. For all kinds whose hash has one owner: plain and fair locks,
-- elections, and one master's part of a quorum lock.
--
-- KEYS  1 to 5 see part/queue.lua   6 announcement   7 channel of the election
-- ARGV  1 the owner that was seen to hold the lock   2 PUBLISH, SPUBLISH or publish (see announce)   3 claim, ms   4 time to live of the
--       token's key, ms   5 the required last token, empty: any
-- Reply {1}            released, and granted to the next waiter or announced
--       {1, error}     released, but the lock could not be granted, or the message not be sent
--       {0, token, owner}   another owner holds it, or the last token is another one ('0': none is known); nothing was changed
--       {-1, token}    the lock is free; nothing was changed
-- Atomic, and harmless when repeated: the next holder is another owner. The exception is an owner whose context takes the lock again,
-- with a greater token; ARGV[5] is for that.
-- A token is used up, so that a quorum lock's holder notices; force.lua has the reason and the order.
-- Places in the queue stay, those of a run too: see part/queue.lua.

-- include queue

local owner, command, keep = ARGV[1], ARGV[2], ARGV[4]
local last, fields = call('GET', tokens) or '0', call('HLEN', name)
if fields == 0 then
  call('DEL', name) -- a replica refuses it
  return {-1, last}
end
if call('HEXISTS', name, owner) == 0 or call('HEXISTS', name, 'mode') == 1 or ARGV[5] ~= '' and ARGV[5] ~= last then
  return {0, last, (whose())}
end
local refused, token = nextToken()
if refused then return refused end
redis.pcall('HDEL', name, '')
call('SET', tokens, token, 'PX', math.max(tonumber(keep), call('PTTL', tokens)))
local said = type(redis.pcall('GET', KEYS[6])) == 'string'
call('DEL', name)
-- What fails from here on must not look as if nothing had been released.
local ok, failed, unheard = pcall(function()
  if said then call('DEL', KEYS[6]) end
  call('ZREM', deadlines, owner)
  local wrong, untold = grant(command, tonumber(ARGV[3]), keep)
  if wrong then return wrong end
  if call('HLEN', name) == 0 then untold = publish(command, channel, '0') or untold end
  if said then untold = publish(command, KEYS[7], '0') or untold end
  return nil, untold
end)
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
