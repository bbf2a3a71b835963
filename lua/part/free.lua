-- free: announce that a read-write lock may be free, or free to read. The message is Redisson's for "all who wait".
-- Reads: command: PUBLISH or SPUBLISH, empty for no announcement; KEYS[2], the channel
-- Replies {1, error} where it was refused
if command ~= '' then
  local to, text = KEYS[2], '1'
  -- include announce
  if type(sent) == 'table' and sent.err then return {1, sent.err} end
end
