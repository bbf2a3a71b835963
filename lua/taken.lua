-- taken: read what shows that another owner has had a lock since an owner's last token.
--
-- KEYS  1 token   2 lock hash; left out where several owners have the lock at once
-- ARGV  1 the owner
-- Reply {1, token, others}   token: the last one as decimal text, '0' if none is known; others: 1 if the lock hash has another owner, or
--                     the key is not a hash, else 0
-- Atomic: all values are of one moment. A client runs it after a release that did not find the owner, if an earlier attempt of that
-- release got no answer: servers do not remember which owner released a lock. Redisson's owners have no tokens, so they are seen only
-- while they hold the lock. An owner that goes on reading a read-write lock has a field of its own name.
local others = false
if KEYS[2] then
  local fields = redis.pcall('HLEN', KEYS[2])
  others = type(fields) == 'table' or fields > redis.call('HEXISTS', KEYS[2], 'mode') + redis.call('HEXISTS', KEYS[2], ARGV[1])
end
return {1, redis.call('GET', KEYS[1]) or '0', others and 1 or 0}
