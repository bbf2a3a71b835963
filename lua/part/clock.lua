-- clock: the server's time in us, as decimal text.
-- Reads: call
-- Sets:  clock, beside time and micros
-- Until the year 2286 all such texts have 16 digits.
local time = call('TIME')
local micros = time[2]
if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
local clock = time[1] .. micros
