-- timeouts: where the leases of readers are kept: the text before an owner and ":rwlock_timeout:" and a number.
-- Reads: name
-- Sets:  prefix
local prefix = (string.find(name, '{', 1, true) and name or '{' .. name .. '}') .. ':'
