-- latch_delete: take a latch away, which opens it.
--
-- KEYS  1 count   2 this call, so that a repeat of it is known   3 what counts the number: 'latch', or 'semaphore'
-- ARGV  1 -   2 -   3 until when this may be executed, us by the server's clock   4 how much longer than that repeats may come, ms
--       5 PUBLISH, SPUBLISH or publish (see announce)   6 channel
-- Reply {1, 1, time}  taken away
--       {1, 0, time}  it was not set
--       {1, 1, time, error}   taken away, but the announcement was refused
--       an error if the number is a semaphore's, or if the key holds none; nothing was changed
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. A repeat gets the reply of the first, and does not take away a latch that was set since, also if the first found no latch: of
-- two requests the later one may arrive first.
-- The message is Redisson's for "open". Its own delete sends the one for "set", and its waiters sleep on.
local call, name, this, counts = redis.call, KEYS[1], KEYS[2], KEYS[3]
-- include clock
local limit = ARGV[3]
-- include late
local outcome = call('GET', this)
if outcome then return {1, tonumber(outcome), clock} end
local stands = call('GET', name)
-- include latch
outcome = stands and '1' or '0'
-- include call
if outcome == '0' then return {1, 0, clock} end
call('DEL', name, counts)
local command, to, text = ARGV[5], ARGV[6], '0'
-- include announce
return {1, 1, clock, type(sent) == 'table' and sent.err or nil}
