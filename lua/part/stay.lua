-- stay: end the stay of a lock that its writer has left, if it is over, see rw_leave.lua. The lock is then as after a release of the
-- write: the owner goes on reading, as one of any number, or the lock is free.
-- Reads: call, name; time: the server's; mode: of the hash
-- Sets:  stays: for how long it stays taken, ms; not above 0 if that is over, nil if no writer has left it so
--        mode: as it is afterwards, nil if there is no hash
local stays = nil
if mode == 'write' and call('HLEN', name) <= 128 then
  for _, left in ipairs(call('HKEYS', name)) do
    local ends = string.find(left, ':h0%d+:write$') and string.match(call('HGET', name, left), '^till(%d+)$')
    if ends then
      stays = ends - time[1] * 1000 - math.floor(time[2] / 1000)
      if stays <= 0 then
        call('HDEL', name, left) -- first: it is allowed when out of memory, and then what is behind it is
        mode = call('HLEN', name) > 1 and 'read' or nil
        if mode then call('HSET', name, 'mode', mode) else call('DEL', name) end
      end
    end
  end
end
