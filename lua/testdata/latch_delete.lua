-- latch_delete: take a latch away, which opens it.
--
-- KEYS  1 count   2 this call, so that a repeat of it is known
-- ARGV  1 -   2 -   3 until when this may be executed, us by the server's clock   4 how much longer than that repeats may come, ms
--       5 PUBLISH, SPUBLISH or publish (see announce)   6 channel
-- Reply {1, 1, time}  taken away
--       {1, 0, time}  it was not set
--       {1, 1, time, error}   taken away, but the announcement was refused
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. A repeat gets the reply of the first, and takes nothing away that was set since. Nor does it where the first found nothing
-- to take away: of two requests the later one may come first.
-- The message is Redisson's for "open". Its own delete sends the one for "set", and its waiters sleep on.
local call, name, this = redis.call, KEYS[1], KEYS[2]
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
local limit = ARGV[3]
if limit and (#limit < #clock or #limit == #clock and limit < clock) then return {-2, clock} end
local outcome = call('GET', this)
if outcome then return {1, tonumber(outcome), clock} end
outcome = call('GET', name) and '1' or '0' -- an error if it is no latch
local kept = math.ceil(math.min(2 * (limit - clock) / 1000, 3600000)) + ARGV[4]
call('SET', this, outcome, 'PX', kept)
if outcome == '0' then return {1, 0, clock} end
call('DEL', name)
local command, to, text = ARGV[5], ARGV[6], '0'
local sent = redis.pcall(command, to, text)
if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', to, text)
end
return {1, 1, clock, type(sent) == 'table' and sent.err or nil}
