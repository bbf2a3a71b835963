-- latch_set: set the count of a latch that is not set.
--
-- KEYS  1 count   2 this call, so that a repeat of it is known
-- ARGV  1 count, at least 1   2 how long the latch stays without a word, ms   3 until when this may be executed, us by the server's clock
--       4 how much longer than that repeats may come, ms   5 PUBLISH or SPUBLISH   6 channel
-- Reply {1, 1, time}  set
--       {1, 0, time}  it is set already, and was left as it is
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. A repeat gets the reply of the first, whatever was counted since.
-- The message is Redisson's for "set", which closes the gates of its clients.
local call, name, this = redis.call, KEYS[1], KEYS[2]
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local limit = ARGV[3]
if limit and (#limit < #clock or #limit == #clock and limit < clock) then return {-2, clock} end
if call('EXISTS', this) == 1 then return {1, 1, clock} end
if call('EXISTS', name) == 1 then
  call('GET', name) -- an error if it is no latch
  return {1, 0, clock}
end
local kept = math.ceil(math.min(2 * (limit - clock) / 1000, 3600000)) + ARGV[4]
call('SET', this, '1', 'PX', kept)
call('SET', name, ARGV[1], 'PX', ARGV[2])
local command, to, text = ARGV[5], ARGV[6], '1'
local sent = redis.pcall(command, to, text)
if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', to, text)
end
return {1, 1, clock}
