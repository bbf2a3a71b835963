-- waiting: find the writer that waits for the lock, if its place counts.
-- Reads: call, writers, now: the server's time in ms
-- Sets:  writer, place: the writer that has waited longest, and until when its place counts, ms; nil if none waits
local writer = nil
local place = nil
if call('EXISTS', writers) == 1 then
  local last = call('ZRANGE', writers, -1, -1, 'WITHSCORES')
  if last[2] and tonumber(last[2]) > now then writer, place = last[1], tonumber(last[2]) end
end
