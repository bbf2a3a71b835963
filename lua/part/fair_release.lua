-- fair_release: all statements of the script fair_release. The script election_release has them behind its own.
-- Reads: KEYS and ARGV, as the script takes them
-- Replies what the script replies

-- include queue

local owner = ARGV[1]
local held = call('HEXISTS', name, owner) == 1
if not held and ARGV[5] then
  local holder = whose()
  for i = 5, #ARGV do
    if ARGV[i] == holder then held, owner = true, holder end
  end
end
if held then
  call('DEL', name)
elseif call('ZCARD', deadlines) > 0 then
  drop(owner)
end
-- What fails from here on must not look as if nothing had been released.
local ok, failed, unheard = pcall(function()
  if held then call('ZREM', deadlines, owner) end -- it has taken what it was handed
  if owner ~= ARGV[1] then drop(ARGV[1]) end
  served(5)
  if held or call('HLEN', name) == 0 then return grant(ARGV[2], tonumber(ARGV[3]), ARGV[4]) end
end)
if not held then return {-1} end
if failed then unheard = type(failed) == 'table' and failed.err or failed end
if unheard then return {1, tostring(unheard)} end
return {1}
