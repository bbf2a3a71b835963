-- recall: call the client of the owner that has a lock, if it wants to be called.
-- Reads: name, owner; hash: the fields of the lock
-- An owner's letter says by which command: k by PUBLISH, s by SPUBLISH. The mailbox is the lock's channel, followed by the client.
-- A client does not call itself: it knows its own waiters.
local id, letter = string.match(type(hash[1]) == 'string' and hash[1] or '', '^(.*):([ks])%d+$')
if id and string.sub(owner, 1, #id) ~= id then
  local tag = string.find(name, '{', 1, true) and name or '{' .. name .. '}'
  local command, to, text = letter == 's' and 'SPUBLISH' or 'PUBLISH', 'redisson_lock__channel:' .. tag .. ':' .. id, '1'
  -- include announce
end
