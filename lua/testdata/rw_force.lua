-- rw_force: free a read-write lock of the readers that somebody has seen there, and wake those who wait.
--
-- KEYS  1 lock hash   2 channel
-- ARGV  1 -           2 PUBLISH, SPUBLISH or publish (see announce), empty to tell nobody   3... the readers
-- Reply {1}           some of them read, and do so no more
--       {1, error}    the same, but the announcement was refused
--       {-1}          none of them read; nothing was changed
-- Atomic, and harmless when repeated: who came later is not among them.
local call = redis.call
local name, command, found = KEYS[1], ARGV[2], 0
local prefix = (string.find(name, '{', 1, true) and name or '{' .. name .. '}') .. ':'
for i = 3, #ARGV do
  local count = tonumber(call('HGET', name, ARGV[i]) or nil)
  if count then
    call('HDEL', name, ARGV[i])
    if string.find(ARGV[i], ':h%d+$') then count = 1 end
    for n = 1, math.min(count, 16) do call('DEL', prefix .. ARGV[i] .. ':rwlock_timeout:' .. n) end
    found = found + 1
  end
end
if found == 0 then
  if call('HLEN', name) == 0 then call('DEL', name) end -- a replica refuses it
  return {-1}
end
local mode = call('HGET', name, 'mode')
if mode == 'write' then
  local time = call('TIME')
  local micros = time[2]
  if #micros < 6 then micros = string.rep('0', 6 - #micros) .. micros end
  local clock = time[1] .. micros
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
end
if call('HLEN', name) == 1 and call('HEXISTS', name, 'mode') == 1 then call('DEL', name) end
if command ~= '' then
  local to, text = KEYS[2], '1'
  local sent = redis.pcall(command, to, text)
  if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
    sent = redis.pcall('PUBLISH', to, text)
  end
  if type(sent) == 'table' and sent.err then return {1, sent.err} end
end
return {1}
