-- fair_acquire: take a free lock that nobody waits for, or take a place in its queue.
--
-- KEYS  see fair.lua
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt may have run, else '0'. Who waits may have been handed the lock in any case
--       5 how long a place counts, ms; '0': do not wait
--       6 claim, ms   7 PUBLISH or SPUBLISH
-- Reply {1, token}         granted, for the whole lease
--       {0, pttl, time}    not granted. pttl in ms as in acquire; time of the server in us, as text
-- Atomic. Nobody passes a waiter whose place counts. A free lock with waiters is handed to the first of them.
-- An owner keeps its place when it asks again, and one that was handed the lock keeps that: it is the same grant.
local owner, lease, keep, place = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local held = call('HLEN', name) > 0
if held and (ARGV[4] == '1' or place > 0) and call('HEXISTS', name, owner) == 1 then
  local token = call('GET', tokens)
  if not token then
    token = micros()
    call('SET', tokens, token, 'PX', keep)
  end
  if call('PTTL', name) < tonumber(lease) then call('PEXPIRE', name, lease) end
  drop(owner)
  return {1, token}
end
if not held then
  local first = head()
  if not first or first == owner then
    local token, refused = nextToken()
    if not token then return refused end
    if first then drop(owner) end
    call('SET', tokens, token, 'PX', keep)
    return hold(owner, '1', lease) or {1, token}
  end
end
if place > 0 then enqueue(owner, place) end
if not held then
  local failed = grant(ARGV[7], tonumber(ARGV[6]), keep, place > 0 and client(owner) or nil)
  if failed then return failed end
  if place > 0 and call('HEXISTS', name, owner) == 1 then -- all before it are out of reach
    call('PEXPIRE', name, lease)
    return {1, call('GET', tokens)}
  end
end
return {0, call('PTTL', name), micros()}
