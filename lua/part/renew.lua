-- renew: all statements of the script renew. The script renew_many makes a function of them.
-- Reads: KEYS and ARGV, as the script takes them
-- Replies what the script replies
local call = redis.call
local name, lease = KEYS[1], tonumber(ARGV[2])
-- include holder
if call('PTTL', name) < lease then
  call('PEXPIRE', name, lease)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return {1}
