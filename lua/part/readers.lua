-- readers: find readers of a lock whose leases last.
-- Reads: call, name; one: whether it is enough to find one
-- Sets:  rest: for how long the last of their leases lasts, ms, or that of the one that was found; 0 if there is none
--        reader: one of them; nil if there is none, or if they are too many to check
-- Replies an error of the server, except one that refuses keys that are not among KEYS, such as the leases of other readers: then the
--        hash alone says who reads, and all readers count as there.
-- A reader of this library has one lease, whatever its count, and one of Redisson's has one for each. If there are too many
-- to check, all count as there: the hash then lasts as long as the last renewal of any of them.
local rest = 0
local reader, looks = nil, 0
local fields = call('HLEN', name)
-- include timeouts
if fields <= 257 then
  local hash = call('HGETALL', name)
  for i = 1, #hash, 2 do
    local owner = hash[i]
    local leases = string.find(owner, ':h%d+$') and 1 or tonumber(hash[i + 1]) or 0
    if owner == 'mode' or string.find(owner, ':write$') then leases = 0 end
    looks = looks + leases
    if looks > 512 or one and rest > 0 then break end
    for n = 1, leases do
      local left = lasts(prefix .. owner .. ':rwlock_timeout:' .. n)
      if type(left) == 'table' then
        if not string.find(left.err, 'undeclared') then return left end
        left, looks = 0, 513
      end
      if left > rest then rest, reader = left, owner end
    end
  end
end
if fields > 257 or looks > 512 then
  rest, reader = math.max(call('PTTL', name), 1), nil
end
