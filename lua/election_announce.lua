-- election_announce: store what a leader says of itself, which makes it the leader for others.
--
-- KEYS  1 lock hash   2 announcement: string: token, owner and value, with a space between them   3 channel of the election
-- ARGV  1 owner       2 token   3 value   4 time to live of the announcement, ms; longer than the lease   5 PUBLISH, SPUBLISH or publish (see announce)
-- Reply {1}           announced
--       {1, error}    announced, but the observers could not be told
--       {-1}          the owner does not hold the lock, or one with a greater token has announced itself; nothing was changed
-- Atomic, and harmless when repeated. A late announcement of an earlier leader never replaces that of a later one.
-- Tokens are compared as text, the longer one being the greater.
local call, name, token = redis.call, KEYS[1], ARGV[2]
-- include holder
local last = string.match(call('GET', KEYS[2]) or '', '^(%d+) ') or ''
if #last > #token or #last == #token and last > token then return {-1} end
call('SET', KEYS[2], token .. ' ' .. ARGV[1] .. ' ' .. ARGV[3], 'PX', ARGV[4])
local command, to, text = ARGV[5], KEYS[3], token
-- include announce
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return {1}
