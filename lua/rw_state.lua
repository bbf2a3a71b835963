-- rw_state: read what the server knows of a read-write lock at this moment.
--
-- KEYS  1 lock hash   2 token   3 writers, see rw_read.lua
-- ARGV  none
-- Reply {1, mode, pttl, token, waiting, owner, count, ms...}   held; token is '0' where none is known; how many owners wait to write; then each
--                          field of the hash with its count, and what is left of its lease, which for a writer is what the hash has, or for how long the lock stays taken that it has left
--       {0, token, waiting}   free, or only readers are left whose leases have ended
--       an error if there are more than 1025 fields, or no mode among them that is read or write
-- Reads only; all values are of one moment. Readers whose leases have ended are left out, as a writer does not wait for them.
-- Work: a reader of Redisson's has a lease for each count, of which the last live one is returned. After 2048 leases, the
-- remaining readers get the time to live of the hash.
local call = redis.call
local name, token = KEYS[1], call('GET', KEYS[2]) or '0'
-- include clock
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting = call('ZCOUNT', KEYS[3], '(' .. now, '+inf')
local fields = call('HLEN', name)
if fields == 0 then return {0, token, waiting} end
local mode = call('HGET', name, 'mode')
local stays = nil
if mode == 'write' and fields <= 128 then
  -- a lock that its writer has left, see rw_leave.lua: when its time is over, who reads is left
  for _, left in ipairs(call('HKEYS', name)) do
    local ends = string.find(left, ':h0%d+:write$') and string.match(call('HGET', name, left), '^till(%d+)$')
    if ends then stays = ends - now end
  end
end
if stays and stays <= 0 then mode = 'read' end
local known = mode == 'read' or mode == 'write'
if not known or fields > 1025 then
  return redis.error_reply('HOLDFAST the key ' .. name .. ' is a hash of ' .. fields .. ' fields'
    .. (known and '' or ' without a mode of ours, not a read-write lock'))
end
-- include timeouts
local reply, hash, looks = {1, mode, call('PTTL', name), token, waiting}, call('HGETALL', name), 0
for i = 1, #hash, 2 do
  local owner, count = hash[i], hash[i + 1]
  local writes = string.find(owner, ':write$')
  if owner ~= 'mode' and not (writes and mode == 'read') then
    local left = reply[3]
    if writes and stays then
      count, left = '1', stays
    elseif not writes then
      left = 0
      for n = string.find(owner, ':h%d+$') and 1 or tonumber(count) or 0, 1, -1 do
        looks = looks + 1
        left = looks > 2048 and reply[3] or lasts(prefix .. owner .. ':rwlock_timeout:' .. n)
        if type(left) == 'table' then -- see part/readers.lua
          if not string.find(left.err, 'undeclared') then return left end
          left, looks = reply[3], 2049
        end
        if left > 0 or looks > 2048 then break end
      end
    end
    if writes or left > 0 then reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = owner, count, left end
  end
end
if mode == 'read' and #reply == 5 then return {0, token, waiting} end
return reply
