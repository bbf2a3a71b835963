-- call: remember a call and its reply, for as long as repeats of it may come.
-- Reads: call, this: its key; outcome: what to remember; limit and clock, see late; ARGV[4]: how much longer, ms
-- Sets:  kept, ms
-- Repeats have a later limit: later by at most the first one's allowance, and by the time for which they are sent.
local kept = math.ceil(math.min(2 * (limit - clock) / 1000, 3600000)) + ARGV[4]
call('SET', this, outcome, 'PX', kept)
