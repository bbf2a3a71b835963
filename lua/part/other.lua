-- other: refuse a lock that another owner writes, or a key that is no read-write lock.
-- Reads: call, name, mode: of the hash, nil or false if it has none; ticket; stays: see stay
-- Replies {0, pttl, ticket, owner} if another owner writes, or {0, stays, ticket, owner} if it only stays taken; {0, pttl, ticket, field...} of a hash without a mode, of more than four fields how many they
-- are; nothing if there is no hash
local fields = call('HLEN', name)
if fields > 0 then
  local there = name
  -- include master
  local pttl = call('PTTL', name)
  if fields > 128 then return {0, pttl, ticket, fields} end
  local some = call('HKEYS', name)
  if mode then
    for _, field in ipairs(some) do
      local writer = string.match(field, '^(.*):write$')
      if writer then return {0, stays or pttl, ticket, writer} end
    end
  end
  if fields > 4 then return {0, pttl, ticket, fields} end
  return {0, pttl, ticket, some[1], some[2], some[3], some[4]}
end
