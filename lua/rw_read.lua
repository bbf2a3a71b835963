-- rw_read: grant an owner a read-write lock to read.
--
-- KEYS  1 lock hash   2 token   3 writers: sorted set, owner that waits to write -> until when its place counts, ms of the server's
--       clock         4 the owner's lease to read
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 until when this may be executed, us by the server's clock
--       5 the ticket of the first refusal, empty if there was none   6 the name by which the owner writes, empty if it does not, or by ARGV[1]
-- Reply {1, token, token, time}  granted: the owner reads once. The token is that of the last write, or the server's time if none is
--                     known, as decimal text
--       {0, ms, ticket, owner}   another owner writes, with so much of its lease left, or its lock stays taken for so long
--       {0, ms, ticket, -2, owner}   no owner writes, but this owner waits to write, and its place counts for so long
--       {0, pttl, ticket, field...}   the key is not a read-write lock: its fields, or how many there are of more than four
--       {-2, time}    it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic: the hash, its time to live, the owner's lease and the token change together or not at all. Harmless when repeated: the lease
-- is counted anew, because the caller trusts it from the moment of the last sending. It may come late, after an Extend or a re-entry:
-- neither the lease nor the count goes back.
--
-- An owner that reads already, or writes, does not wait for a waiting writer: that writer waits for it. All others do; otherwise a
-- lock with many readers would never be free to write. But each waits for one writer at most: its ticket is the token before the write
-- that goes first, and once a greater token was granted, it does not wait for other writers. So readers and writers take turns. (Phase-fair locks:
-- Brandenburg and Anderson, 2009.)
--
-- The hash is Redisson's: the field "mode" is "read" or "write", a reader's field is its owner, a writer's its owner and ":write", and
-- the value is the count. So are the leases of readers: a key for each, which ends with the lease. The hash lasts as long as the longest.
local call = redis.call
local name, tokens, writers, lease, owner, ms = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2])
-- include clock
local limit = ARGV[4]
-- include late
local held = call('HMGET', name, 'mode', owner)
local mode, last = held[1], call('GET', tokens)
-- include stay
if mode == 'write' then held[3] = call('HEXISTS', name, (ARGV[6] ~= '' and ARGV[6] or owner) .. ':write') == 1 end
if last and string.find(last, '%D') then
  -- include number
end
if mode ~= 'read' and not held[3] then
  local ticket = ARGV[5] ~= '' and ARGV[5] or last and string.format('%.0f', last - 1) or '0'
  -- include other
end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not held[2] and not held[3] and (ARGV[5] == '' or tonumber(last or 0) <= tonumber(ARGV[5])) then
  -- include waiting
  if writer then
    local there = writers
    -- include master
    return {0, place - now, ARGV[5] ~= '' and ARGV[5] or last or '0', -2, writer}
  end
end
-- The end of the hash comes first where there is one, because Redis allows that when out of memory, and then allows what is behind it.
local left = call('PTTL', name)
if left >= 0 then call('PEXPIRE', name, math.max(left, ms)) end
if not last then
  last = clock
  call('SET', tokens, last, 'PX', ARGV[3])
end
call('SET', lease, '1', 'PX', held[2] and math.max(ms, call('PTTL', lease)) or ms)
call('HSET', name, 'mode', mode or 'read', owner, held[2] or '1')
if left < 0 then
  local limited = redis.pcall('PEXPIRE', name, ms)
  if type(limited) == 'table' then -- a lock without an end must not stay
    redis.pcall('DEL', name, lease)
    return limited
  end
end
return {1, last, last, clock}
