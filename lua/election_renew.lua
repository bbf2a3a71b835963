-- election_renew: make the lease of a leader last at least so long from now, and its announcement for longer.
--
-- KEYS  1 lock hash   2 token   3 announcement
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key and of the announcement, ms
--       4 the announcement; none: the leader has not announced itself yet
-- Reply {1}           renewed: the time to live is at least the lease
--       {-1}          the owner does not hold the lock; nothing was changed, the key is never brought back
-- Atomic, and harmless when repeated. Never shortens. An announcement that a failover, an eviction or a DEL removed is
-- written again; otherwise the leader would stay unknown until it resigns. Observers find it when they ask next. Out of memory the
-- next renewal writes it.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('PTTL', KEYS[3]) < tonumber(ARGV[3]) then
  if redis.call('PEXPIRE', KEYS[3], ARGV[3]) == 0 and ARGV[4] then
    redis.pcall('SET', KEYS[3], ARGV[4], 'PX', ARGV[3])
  end
end
-- include renew
