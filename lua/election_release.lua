-- election_release: resign, or leave the candidates: fair_release, of which the observers of the election are told.
--
-- KEYS  1 to 5 see part/queue.lua   6 announcement   7 channel of the election
-- ARGV  as fair_release takes them
-- Reply as fair_release
-- Atomic. The announcement of a leader that resigns is deleted with the lock, and observers are told, even without a successor. A
-- candidate that only leaves the queue is not announced. Observers that could not be told ask again when the lease that they know
-- of ends. Out of memory the release goes through. A key of another type is not ours, and stays.
local leads = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
for i = 5, #ARGV do leads = leads or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 end
if leads then
  if type(redis.pcall('GET', KEYS[6])) == 'string' then redis.call('DEL', KEYS[6]) end
  local command, to, text = ARGV[2], KEYS[7], '0'
  -- include announce
end
-- include fair_release
