-- rw_write_release: all statements of the script rw_write_release. The script rw_force_writer has them behind its own.
-- Reads: KEYS and ARGV, as the script takes them
-- Replies what the script replies
local call = redis.call
local name, command, field = KEYS[1], ARGV[2], ARGV[1] .. ':write'
if call('HEXISTS', name, field) == 0 then
  -- Also a write that changes nothing, which a replica refuses: it may not know of the holder yet.
  if call('ZREM', KEYS[3], ARGV[1]) == 1 then
    -- include clock
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local function tell()
      -- include free
    end
    if call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0 then tell() end -- those of the dead are there for as long as others'
  end
  return {-1}
end
call('ZREM', KEYS[3], ARGV[1]) -- of an attempt that the network kept until a later one was granted
call('HDEL', name, field)
local one = false
-- include readers
if rest > 0 then
  call('PEXPIRE', name, rest)
  call('HSET', name, 'mode', 'read')
else
  call('DEL', name)
end
-- include free
return {1}
