-- election_release: resign, or leave the candidates: fair_release, of which those hear who observe the election.
--
-- KEYS  1 to 5 see part/queue.lua   6 announcement   7 channel of the election
-- ARGV  as fair_release takes them
-- Reply as fair_release
-- Atomic. The announcement of who resigns goes with the lock, and observers are told, also if nobody follows. Whoever only leaves
-- the queue tells nobody. Observers who could not be told look again when the lease ends that they know of. Out of memory the
-- release goes through. A key of another type is somebody else's, and stays.
local leads = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
for i = 5, #ARGV do leads = leads or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 end
if leads then
  if type(redis.pcall('GET', KEYS[6])) == 'string' then redis.call('DEL', KEYS[6]) end
  local command, to, text = ARGV[2], KEYS[7], '0'
  -- include announce
end
-- include fair_release
