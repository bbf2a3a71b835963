-- sem_release: all statements of the script sem_release. The script sem_force has them behind its own.
-- Reads: KEYS and ARGV, as the script takes them; behind: where other owners begin in ARGV
-- Replies what the script replies

-- include permits

local held, known = false, call('GET', name)
local function back(owner)
  local ends = call('ZSCORE', permits, owner)
  held = held or has(owner)
  local n = take(owner)
  if n > 0 and tonumber(known or nil) then
    local changed = redis.pcall('INCRBY', name, n)
    if type(changed) == 'table' then -- permits that are neither out nor free would be lost
      several(owner, 1, n, 'ZADD', ends)
      return changed
    end
  end
end
local refused = back(ARGV[2])
for i = behind, #ARGV do refused = refused or back(ARGV[i]) end
if refused then return refused end
-- What fails from here on must not look as if nothing had been given back.
local ok, failed, unheard = pcall(function()
  drop(ARGV[2])
  for i = behind, #ARGV do drop(ARGV[i]) end
  local wrong = count(true)
  if wrong then return wrong end
  sweep(0)
  local refused, untold = grant(ARGV[3], tonumber(ARGV[4]), ARGV[5])
  return refused, untold or ARGV[3] ~= '' and tellOthers(ARGV[3]) or nil
end)
if not held then return {-1} end
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
