-- rw_read_release: give back a read-write lock that an owner reads, and wake those who wait for it.
--
-- KEYS  1 lock hash   2 channel   3 the owner's lease to read
-- ARGV  1 owner       2 PUBLISH, SPUBLISH or publish (see announce), empty to tell nobody
-- Reply {1}           given back, and announced if nobody is left, or if the lock now ends earlier, see rw_leave.lua
--       {1, error}    given back, but the announcement was refused (no permission for the channel)
--       {-1}          the owner does not read; nothing was changed
-- Atomic: nobody sees the lock free before the announcement is on its way.
--
-- If others are left, it is looked whether they are there only where somebody listens: else nobody waits for that, and it costs time
-- that grows with their number. The lease of who writes and reads at once is left as it is. A lock that stays taken after a write
-- (rw_leave.lua) now ends with its stay: those who wait for it are told, because they may have heard of the later end.
local call = redis.call
local name, command = KEYS[1], ARGV[2]
if call('HDEL', name, ARGV[1]) == 0 then return {-1} end -- a write also if it changes nothing: a replica refuses it
call('DEL', KEYS[3])
local mode, ends = call('HLEN', name) > 1 and call('HGET', name, 'mode'), 0
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
  if not stays then return {1} end
  ends = math.max(stays, 0)
elseif mode then
  if command ~= 'publish' then
    local heard = redis.pcall('PUBSUB', command == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[2])
    if heard[2] == 0 then return {1} end
  end
end
if mode then
  local one = ends == 0
  local rest = 0
  local reader, looks = nil, 0
  local fields = call('HLEN', name)
  local prefix = (string.find(name, '{', 1, true) and name or '{' .. name .. '}') .. ':'
  if fields <= 257 then
    local hash = call('HGETALL', name)
    for i = 1, #hash, 2 do
      local owner = hash[i]
      local leases = string.find(owner, ':h%d+$') and 1 or tonumber(hash[i + 1]) or 0
      if owner == 'mode' or string.find(owner, ':write$') then leases = 0 end
      looks = looks + leases
      if looks > 512 or one and rest > 0 then break end
      for n = 1, leases do
        local left = call('PTTL', prefix .. owner .. ':rwlock_timeout:' .. n)
        if left > rest then rest, reader = left, owner end
      end
    end
  end
  if fields > 257 or looks > 512 then
    rest, reader = math.max(call('PTTL', name), 1), nil
  end
  if rest > ends then return {1} end
end
if ends > 0 then call('PEXPIRE', name, ends) else call('DEL', name) end
if command ~= '' then
  local to, text = KEYS[2], '1'
  local sent = redis.pcall(command, to, text)
  if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
    sent = redis.pcall('PUBLISH', to, text)
  end
  if type(sent) == 'table' and sent.err then return {1, sent.err} end
end
return {1}
