-- waiting: whether a writer waits for the lock whose place counts.
-- Reads: call, writers, now: the server's time in ms
-- Sets:  writer, place: the writer who waits for longest and until when its place counts, ms; nil if nobody waits
local writer = nil
local place = nil
if call('EXISTS', writers) == 1 then
  local last = call('ZRANGE', writers, -1, -1, 'WITHSCORES')
  if last[2] and tonumber(last[2]) > now then writer, place = last[1], tonumber(last[2]) end
end
