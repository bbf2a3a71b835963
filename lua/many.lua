-- many: take and release many locks at once.
--
-- KEYS  2 of each acquisition, as acquire takes them, then 2 of each release, as release takes them
-- ARGV  1 how many acquisitions; then 6 of each, as acquire takes them; then 2 of each release, as release takes them
-- Reply {1, time, reply, ...}: the server's time in us, then for each acquisition and for each release what acquire or release replies,
--                     or the text of the error that it met. The token is 1 if it is the time, and {-1} is -1, which are made faster
--       an error      it begins with READONLY; the server is a replica, and nothing was changed. It is not one text among others, so that
--                     go-redis leaves the connection
-- Each lock is taken or released, or not, as by acquire or release alone: an error of one does not affect the others. All are judged
-- by the same time.
--
-- The acquisitions come first. Redis forbids what needs memory when it is out of memory, but not behind a write: a release in front
-- would let acquisitions through that are refused alone. An acquisition writes nothing before what is forbidden, unless an earlier
-- attempt of it may have run, so one with '1' for its ARGV 4 must not be among many.
-- The server serves no other client meanwhile, so a caller bounds the number of locks.
local call = redis.call
-- include clock
local function acquire(KEYS, ARGV)
  -- include acquire
end
local function release(KEYS, ARGV)
  -- include release
end
-- The text of an error. What is raised is a table from Redis 7 on.
local function text(raised) return type(raised) == 'table' and raised.err or tostring(raised) end
-- One table of each for all locks, with room from the start: otherwise the server took a tenth longer.
local locks, acquisitions = #KEYS / 2, tonumber(ARGV[1])
local reply, keys, arguments, at = {1, clock, 0, 0, 0, 0, 0, 0}, {0, 0}, {0, 0, 0, 0, 0, 0}, 1
for i = 1, locks do
  local run = release
  keys[1], keys[2] = KEYS[2 * i - 1], KEYS[2 * i]
  arguments[1], arguments[2] = ARGV[at + 1], ARGV[at + 2]
  if i <= acquisitions then
    run = acquire
    arguments[3], arguments[4], arguments[5], arguments[6] = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
    at = at + 4
  end
  at = at + 2
  -- Not redis.pcall, which would have to stand at each call.
  local ok, answer = pcall(run, keys, arguments)
  local kind = type(answer)
  if not ok or kind == 'table' and answer.err then
    answer = text(answer)
    if string.find(answer, '^%-?READONLY') or string.find(answer, '^@user_script: ?%d+: %-?READONLY') then
      return redis.error_reply('READONLY the server is a replica')
    end
  elseif kind == 'string' then
    answer = answer == clock and 1 or {1, answer}
  elseif kind == 'table' and not answer[2] then
    answer = answer[1]
  end
  reply[i + 2] = answer
end
for i = locks + 3, #reply do reply[i] = nil end
return reply
