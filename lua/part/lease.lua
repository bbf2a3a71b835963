-- lease: give a new grant its end, or take the grant back.
-- Reads: name, lease, ms
-- Sets:  limited
-- Replies the error if the user may not run PEXPIRE: a lock without an end must not stay
local limited = redis.pcall('PEXPIRE', name, lease)
if type(limited) == 'table' then
  redis.pcall('DEL', name)
  return limited
end
