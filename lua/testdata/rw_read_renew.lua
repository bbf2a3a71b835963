-- rw_read_renew: make the lease of an owner that reads last at least so long from now, and tell its count.
--
-- KEYS  1 lock hash   2 token   3 the owner's lease to read
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms   4 hold count from now on; 0: as it is
-- Reply {1}           renewed, and the count stands
--       {-1}          the owner does not read; nothing was changed, nothing is ever brought back
-- Atomic, and harmless when repeated. Never shortens: an older renewal may arrive after a newer, longer one.
local call = redis.call
local name, ms = KEYS[1], tonumber(ARGV[2])
local held = call('HEXISTS', name, ARGV[1]) == 1
if not held and call('HLEN', name) == 0 then call('DEL', name) end
if not held then return {-1} end
call('PEXPIRE', name, math.max(ms, call('PTTL', name))) -- first: see recount.lua
call('SET', KEYS[3], '1', 'PX', math.max(ms, call('PTTL', KEYS[3])))
local mode = call('HGET', name, 'mode')
if mode == 'write' then -- also those may read then who do not know of a stay, as clients of Redisson
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
if ARGV[4] ~= '0' then call('HSET', name, ARGV[1], ARGV[4]) end
if call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then call('PEXPIRE', KEYS[2], ARGV[3]) end
return {1}
