-- sem_release: all statements of the script sem_release. The script sem_force has them behind its own.
-- Reads: KEYS and ARGV, as the script takes them
-- Replies what the script replies

-- include permits

local owner = ARGV[2]
local held, known, ends = has(owner), call('GET', name), call('ZSCORE', permits, owner)
local n = take(owner)
if n > 0 and tonumber(known or nil) then
  local changed = redis.pcall('INCRBY', name, n)
  if type(changed) == 'table' then -- permits that are neither out nor free would be lost
    several(owner, 1, n, 'ZADD', ends)
    return changed
  end
end
-- What fails from here on must not look as if nothing had been given back.
local ok, failed, unheard = pcall(function()
  drop(owner)
  local wrong = count()
  if wrong then return wrong end
  sweep(0)
  local refused, untold = grant(ARGV[3], tonumber(ARGV[4]), ARGV[5])
  return refused, untold or ARGV[3] ~= '' and tellOthers(ARGV[3]) or nil
end)
if not held then return {-1} end
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
