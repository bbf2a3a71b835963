-- fence: run a command on a key, unless a greater token has been there.
--
-- KEYS  1 last token: string, decimal   2 key of the command
-- ARGV  1 token   2 command   3... its arguments behind the key
-- Reply {1, reply}   the command ran; what it replied
--       {0, last}    refused: the last token is greater, as text; nothing was changed
--       an error of the command as it is. The token is noted then too: it is the greatest all the same
-- Atomic. Not harmless when repeated unless the command is. The last token gets no time to live: it must outlast late holders.
-- Tokens are compared as text, the longer one being the greater: as numbers of Lua they would be rounded from 2^53 on.
local token, last = ARGV[1], redis.pcall('GET', KEYS[1])
if type(last) == 'table' then -- told apart from an error of the command, which may be the same
  return redis.error_reply('HOLDFAST the key ' .. KEYS[1] .. ' cannot be read as a token: ' .. last.err)
end
if last and not string.find(last, '^[1-9]%d*$') then
  return redis.error_reply('HOLDFAST the key ' .. KEYS[1] .. ' does not hold a token: ' .. string.sub(last, 1, 40))
end
if last and (#last > #token or #last == #token and last > token) then return {0, last} end
if last ~= token then redis.call('SET', KEYS[1], token) end
local reply = redis.pcall(ARGV[2], KEYS[2], unpack(ARGV, 3))
if type(reply) == 'table' and reply.err then return reply end
return {1, reply}
