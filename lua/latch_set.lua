-- latch_set: set the count of a latch that is not set.
--
-- KEYS  1 count   2 this call, so that a repeat of it is known   3 what counts the number: 'latch', or 'semaphore'
-- ARGV  1 count, at least 1   2 how long the latch stays without another call, ms   3 until when this may be executed, us by the server's clock
--       4 how much longer than that repeats may come, ms   5 PUBLISH, SPUBLISH or publish (see announce)   6 channel
-- Reply {1, 1, time}  set
--       {1, 0, time}  it is set already, and was left as it is
--       an error if the number is a semaphore's, or if the key holds none; nothing was changed
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. A repeat gets the reply of the first, whatever was counted since, also if the first found the latch set: of the two
-- requests the later one may arrive first, and its client has gone on when the other one arrives.
-- The message is Redisson's for "set", which closes the gates of its clients.
local call, name, this, counts = redis.call, KEYS[1], KEYS[2], KEYS[3]
-- include clock
local limit = ARGV[3]
-- include late
local outcome = call('GET', this)
if outcome then return {1, tonumber(outcome), clock} end
local stands = call('GET', name)
-- include latch
outcome = stands and '0' or '1'
-- include call
if outcome == '0' then return {1, 0, clock} end
call('SET', name, ARGV[1], 'PX', ARGV[2])
call('SET', counts, 'latch', 'PX', ARGV[2])
local command, to, text = ARGV[5], ARGV[6], '1'
-- include announce
return {1, 1, clock}
