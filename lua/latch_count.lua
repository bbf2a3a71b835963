-- latch_count: count a latch down by one.
--
-- KEYS  1 count   2 this call, so that a repeat of it is known   3 what counts the number: 'latch', or 'semaphore'
-- ARGV  1 -   2 how long the latch stays without another call from now on, ms   3 until when this may be executed, us by the server's clock
--       4 how much longer than that repeats may come, ms   5 PUBLISH, SPUBLISH or publish (see announce)   6 channel
-- Reply {1, left, time}   what is left to count. 0: the latch is open, as it is where none is set
--       {1, left, time, error}   the same, but the announcement that it is open was refused
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
--       an error if the key holds no count, or a semaphore's
-- Atomic. A repeat does not count, and gets the reply of the first, whatever was counted or set since: so exactly one of the callers
-- that count a latch down is told that it is open.
-- A call that found no latch is remembered too: of two requests the later one may arrive first, and when the other one arrives, a
-- latch may be set that this client must not count.
-- A latch of Redisson has no end, and gets none.
local call, name, this, counts = redis.call, KEYS[1], KEYS[2], KEYS[3]
-- include clock
local limit = ARGV[3]
-- include late
local known = call('GET', this)
if known then return {1, tonumber(known), clock} end
local stands = call('GET', name)
-- include latch
local outcome = string.format('%.0f', math.max((left or 1) - 1, 0))
-- include call
if not stands then return {1, 0, clock} end
local ttl = call('PTTL', name)
if ttl >= 0 and ttl < tonumber(ARGV[2]) then
  call('PEXPIRE', name, ARGV[2])
  call('PEXPIRE', counts, ARGV[2])
end
left = call('DECR', name)
if left > 0 then return {1, left, clock} end
call('DEL', name, counts)
local command, to, text = ARGV[5], ARGV[6], '0'
-- include announce
return {1, 0, clock, type(sent) == 'table' and sent.err or nil}
