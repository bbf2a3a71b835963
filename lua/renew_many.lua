-- renew_many: renew the leases of many holders at once.
--
-- KEYS  2 of each holder, as renew takes them
-- ARGV  for each holder how many arguments it has, then those, as renew takes them
-- Reply {1, status, ...}: for each holder the status that renew replies, or the text of the error that it met
-- Each holder is renewed or not as by renew alone: an error of one does not affect the others.
-- The server serves no other client meanwhile, so a caller bounds the number of holders.
local function renew(KEYS, ARGV)
  -- include renew
end
-- One table of each for all holders: with new ones for each, a renewal cost the server a third more.
local reply, keys, arguments, at = {1}, {}, {}, 1
for i = 1, #KEYS / 2 do
  keys[1], keys[2] = KEYS[2 * i - 1], KEYS[2 * i]
  local count = tonumber(ARGV[at])
  for j = 1, math.max(count, #arguments) do
    arguments[j] = j <= count and ARGV[at + j] or nil
  end
  at = at + count + 1
  -- Not redis.pcall, which would have to stand at each call of renew. What is raised is a table from Redis 7 on.
  local ok, answer = pcall(renew, keys, arguments)
  if ok then
    answer = answer[1]
  else
    answer = type(answer) == 'table' and answer.err or tostring(answer)
  end
  reply[i + 1] = answer
end
return reply
