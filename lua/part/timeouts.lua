-- timeouts: the leases of readers, each of which is a key of its own.
-- Reads: name
-- Sets:  prefix: the text before an owner and ":rwlock_timeout:" and a number
--        lasts: a function of such a key: for how long it lasts, ms; -2 if it is not there; or an error of the server's
-- While the slot of a cluster moves to another master, that master replies -2 also for a key that is still at the old one. A lock
-- without its readers' leases would look free there. It refuses a command that names such a key and the lock together, so the function
-- asks for both.
local prefix = (string.find(name, '{', 1, true) and name or '{' .. name .. '}') .. ':'
local settled = false -- the slot does not move
local function lasts(key)
  local left = redis.pcall('PTTL', key)
  if left ~= -2 or settled then return left end
  local both = redis.pcall('EXISTS', name, key)
  settled = type(both) ~= 'table'
  return settled and left or both
end
