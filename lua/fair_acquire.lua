-- fair_acquire: take a free lock without waiters, or take a place in its queue.
--
-- KEYS  see part/queue.lua
-- ARGV  1 owner       2 lease, ms   3 time to live of the token's key, ms
--       4 '1' if an earlier attempt may have run, else '0'. A waiter may have been granted the lock in any case
--       5 how long a place counts, ms; '0': do not wait
--       6 claim, ms   7 PUBLISH, SPUBLISH or publish (see announce)   8 until when this may be executed, us by the server's clock; none: at any time
-- Reply {1, token}                 granted, for the whole lease; the token is the server's time in us
--       {1, token, token, time}    granted, and the token is not the server's time
--       {0, pttl, time, foreign, field...}   not granted. pttl in ms and the fields of the hash as in acquire; time of the server in
--                                  us, as text; foreign: 1 if the owner has a place, and one of Redisson's holds the lock or may be
--                                  before it, else 0. Such an owner calls only the next one, by its owner id
--       {-2, time}                 it came too late, or its client does not know the server's clock; nothing was changed
-- Atomic. A request that came too late neither locks nor queues: its client may have left. A waiter whose place
-- counts and that can be reached is never passed. A free lock with waiters is handed to the first of them. An owner keeps its place when it asks
-- again, and an owner that was granted the lock keeps it: it is the same grant. It gets the last token of those that were reserved for a
-- run; the run then ends with it.

-- include queue

local owner, lease, keep, place = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local clock, limit = micros(), ARGV[8]
-- include late
local function granted(token)
  if token == clock then return {1, token} end
  return {1, token, token, clock}
end
local fields = call('HLEN', name)
local held = fields > 0
if held and (ARGV[4] == '1' or place > 0) and call('HEXISTS', name, owner) == 1 then
  local token = call('GET', tokens)
  if not token then
    token = micros()
    call('SET', tokens, token, 'PX', keep)
  end
  if call('PTTL', name) < tonumber(lease) then call('PEXPIRE', name, lease) end
  drop(owner)
  return granted(token)
end
local function take(placed)
  local refused, token = nextToken()
  if refused then return refused end
  if placed then drop(owner) end
  call('SET', tokens, token, 'PX', keep)
  return hold(owner, '1', lease) or granted(token)
end
if not held then
  local first = head()
  if not first or first == owner then return take(first) end
end
local foreign = place > 0 and enqueue(owner, place)
if not held then
  local failed = grant(ARGV[7], tonumber(ARGV[6]), keep, place > 0 and client(owner) or nil)
  if failed then return failed end
  if call('HLEN', name) == 0 then return take(true) end -- all who wait are out of reach
  if place > 0 and call('HEXISTS', name, owner) == 1 then -- all before it are
    call('PEXPIRE', name, lease)
    return granted(call('GET', tokens))
  end
end
if held then
  local there = name
  -- include master
end
if fields > 4 then
  local what = call('HEXISTS', name, 'mode') == 1 and 'mode' or fields
  return {0, call('PTTL', name), clock, place > 0 and 1 or 0, what}
end
local hash = (place > 0 and call or redis.pcall)('HGETALL', name) -- who waits needs it for polls in any case
if place > 0 and not foreign then foreign = hash[1] and not client(hash[1]) end
return {0, call('PTTL', name), clock, foreign and 1 or 0, hash[1], hash[3], hash[5], hash[7]}
