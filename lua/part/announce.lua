-- announce: publish a text on a channel.
-- Reads: command: PUBLISH, SPUBLISH or publish; to: the channel; text
-- Sets:  sent: the reply of the command, a table with err if the command was refused
-- A cluster before Redis 7 does not know SPUBLISH, and its clients listen with SUBSCRIBE.
-- In small letters, which are the same command to Redis, it is PUBLISH in a cluster: listeners may be at any of its servers, so
-- no server can count them.
local sent = redis.pcall(command, to, text)
if type(sent) == 'table' and sent.err and command ~= 'PUBLISH' and string.find(sent.err, 'nknown') then
  sent = redis.pcall('PUBLISH', to, text)
end
