-- release: all statements of the script release. The script many makes a function of them.
-- Reads: KEYS and ARGV, as the script takes them
-- Replies what the script replies
local call, name, command = redis.call, KEYS[1], ARGV[2]
-- include holder
call('DEL', name)
if command == '' then return 1 end
local to, text = KEYS[2], '0'
-- include announce
if type(sent) == 'table' and sent.err then
  return {1, sent.err}
end
return 1
