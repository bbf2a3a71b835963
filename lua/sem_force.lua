-- sem_force: take back the permits of an owner that was seen to have them, and hand out free permits.
--
-- KEYS  see part/permits.lua
-- ARGV  1 to 5 as sem_release takes them   6 the required last token, empty: any
-- Reply {1}, {1, error}   as sem_release
--       {0, token}     the last token is another one ('0': none is known); nothing was changed
--       {-1, token}    the owner has none, or their lease has ended; nothing was changed, also not its place if it waits
-- Atomic, and harmless when repeated: each acquisition has an owner of its own.
do
  local call = redis.call
  -- include clock
  local ends, last = call('ZSCORE', KEYS[2], ARGV[2]), call('GET', KEYS[3]) or '0'
  if not ends or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then
    if call('EXISTS', KEYS[2]) == 0 then call('DEL', KEYS[2]) end -- a replica refuses it
    return {-1, last}
  end
  if ARGV[6] ~= '' and ARGV[6] ~= last then return {0, last} end
end
local behind = 7
-- include sem_release
