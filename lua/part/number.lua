-- number: the last token as a number.
-- Reads: last, tokens
-- Sets:  n
-- Replies an error if the key holds something else, or if the next token would not be below 2^53
local n = not string.find(last, '%D') and tonumber(last)
if not n or n >= 9007199254740991 then
  return redis.error_reply('HOLDFAST the token key ' .. tokens .. ' does not hold a token: ' .. string.sub(last, 1, 60))
end
