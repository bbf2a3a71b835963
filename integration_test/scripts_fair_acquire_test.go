package integration_test

// x is another client of the library, r is Redisson's.

// A lock that is free, without anybody who could be handed it.
var fairAcquireRows = table(`
free, in time
	nothing | fair_acquire until=9000000000000000 | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	limit < clock) => limit > clock)
free, in time by more digits
	nothing | fair_acquire until=10000000000000000 | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	#limit == #clock and =>
too late for a place
	heldByX | fair_acquire place=15s until=1000000000000000 | -2 clock | same |
	then return {-2, clock} end => then end
the server's clock is not known
	heldByX | fair_acquire place=15s until=0 | -2 clock | same | then return {-2, clock} end => then end
free, try
	nothing | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h | redis.pcall('PEXPIRE', name, lease) => 1
free, wait: no place is left behind
	nothing | fair_acquire place=15s | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	return hold(owner, '1', lease) or => enqueue(owner, place)\n  return hold(owner, '1', lease) or
free, a repeated call whose first attempt did not run
	nothing | fair_acquire again=1 | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	call('SET', tokens, token, 'PX', keep)\n  return hold => call('SET', tokens, token)\n  return hold
free again after a lease has ended
	LOCK{b=1}/0 TOKEN=5000/20s | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	return hold(owner, '1', lease) or => return hold(owner, '2', lease) or
clock ahead of the token
	TOKEN=1000000000000000/20s | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	call('GET', tokens), micros() => call('GET', tokens), '1000000000000000'
token ahead of the clock
	TOKEN=9000000000000000/20s | fair_acquire | 1 9000000000000001 9000000000000001 clock |
	LOCK{c:h1=1}/30s TOKEN=9000000000000001/1h | math.max(n + 1, => math.max(n,
token shorter than the clock's, and greater as text
	TOKEN=9/20s | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h | math.max(n + 1, tonumber(token)) => n + 1
token that is no number
	TOKEN=text/20s | fair_acquire | !HOLDFAST | same | if not n or => if not n then n = 0 end\n    if
token of another type
	TOKEN[x]/20s | fair_acquire | !WRONGTYPE | same | call('GET', tokens), micros() => false, micros()
queue of another type
	ORDER=text/20s | fair_acquire | !WRONGTYPE | same | local first = call('LINDEX', queue, 0) => local first = false
deadlines of another type
	ORDER[d:h1]/20s ENDS=text/20s | fair_acquire | !WRONGTYPE | same |
	local deadline = tonumber(call('ZSCORE', deadlines, owner) or nil) => local deadline = 0
dead head
	WAITING(d:h1@0)/8000s | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	(ends(some[n + 1]) or 0) <= now do => not ends(some[n + 1]) do
head without a deadline
	ORDER[d:h1] | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	(ends(some[n + 1]) or 0) <= now do => (ends(some[n + 1]) or now + 1) <= now do
two dead heads before one that counts
	WAITING(d:h1@0 r:7@-5 e:h1@60s)/8000s LISTEN(e) | fair_acquire | 0 ttl:1s clock '' e:h1 |
	LOCK{e:h1=1}/1s TOKEN=clock/1h ENDS(e:h1!+1s)/8000s TOLD(e:h1/1000) |
	call('ZREM', deadlines, unpack(some, 1, n)) =>
the owner is the head, wait
	WAITING(c:h1@9s d:h1@60s)/8000s LISTEN(c d) | fair_acquire place=15s | 1 clock |
	LOCK{c:h1=1}/30s TOKEN=clock/1h WAITING(d:h1@60s)/8000s | if placed then drop(owner) end =>
the owner is the head, try
	WAITING(c:h1@9s)/8000s | fair_acquire | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	if placed then drop(owner) end =>
`)

// The lock is the owner's own already.
var fairOwnRows = table(`
handed over, and the word of it lost
	LOCK{c:h1=1}/900 TOKEN=5000/20s WAITING(d:h1@60s)/8000s LISTEN(d) | fair_acquire place=15s | 1 5000 5000 clock |
	same LOCK{c:h1=1}/30s | (ARGV[4] == '1' or place > 0) => ARGV[4] == '1'
handed over by Redisson's rules
	LOCK{c:h1=1} | fair_acquire place=15s | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	if call('PTTL', name) < tonumber(lease) then call('PEXPIRE', name, lease) end =>
repeated call
	heldByC | fair_acquire again=1 | 1 5000 5000 clock | same LOCK{c:h1=1}/30s | ARGV[4] == '1' or =>
repeated call with a place
	heldByC WAITING(c:h1@9s d:h1@60s)/8000s | fair_acquire again=1 place=15s | 1 5000 5000 clock |
	same LOCK{c:h1=1}/30s WAITING(d:h1@60s)/8000s | drop(owner)\n  return granted(token) => return granted(token)
re-entered since, repeated call that comes late
	LOCK{c:h1=3}/10s TOKEN=5000/20s | fair_acquire again=1 | 1 5000 5000 clock | same LOCK{c:h1=3}/30s |
	drop(owner)\n  return granted(token) => call('HSET', name, owner, '1')\n  return granted(token)
more left, repeated call
	heldByC | fair_acquire lease=1s again=1 place=15s | 1 5000 5000 clock | same |
	if call('PTTL', name) < tonumber(lease) then => if true then
without a token, repeated call
	LOCK{c:h1=1}/10s | fair_acquire again=1 | 1 clock | LOCK{c:h1=1}/30s TOKEN=clock/1h |
	call('SET', tokens, token, 'PX', keep)\n  end\n  if call('PTTL' => end\n  if call('PTTL'
by an earlier call
	heldByC | fair_acquire | 0 ttl:10s clock '' c:h1 | same | (ARGV[4] == '1' or place > 0) => true
another's, repeated call
	heldByX | fair_acquire again=1 | 0 ttl:10s clock '' x:h1 | same |
	and call('HEXISTS', name, owner) == 1 then\n  local token => then\n  local token
`)

// The lock is another's: who waits takes a place.
var fairPlaceRows = table(`
place taken
	heldByX | fair_acquire place=15s | 0 ttl:10s clock '' x:h1 | same WAITING(c:h1+15s)/3615s |
	if call('RPUSH', queue, owner) == 1 or others then limit(tonumber(deadline)) end => call('RPUSH', queue, owner)
repeated call whose first attempt did not run
	heldByX | fair_acquire again=1 place=15s | 0 ttl:10s clock '' x:h1 | same WAITING(c:h1+15s)/3615s |
	call('PEXPIRE', deadlines, ttl) =>
no place for a try
	heldByX | fair_acquire | 0 ttl:10s clock '' x:h1 | same |
	place > 0 and enqueue(owner, place) => enqueue(owner, 15000)
held without a time to live
	LOCK{x:h1=1} | fair_acquire | 0 -1 clock '' x:h1 | same |
	call('PTTL', name), clock, foreign => math.max(0, call('PTTL', name)), clock, foreign
four fields
	LOCK{x:h1=1 c=2 d=3 e=4} | fair_acquire | 0 -1 clock '' x:h1 c d e | same | hash[1], hash[3] => hash[1], hash[2]
five fields
	LOCK{x:h1=1 c=2 d=3 e=4 f=5} | fair_acquire | 0 -1 clock '' 5 | same | and 'mode' or fields => and 'mode' or 4
five fields of a lock of another kind
	LOCK{x:h1=1 c=2 mode=3 e=4 f=5} | fair_acquire | 0 -1 clock '' mode | same |
	call('HEXISTS', name, 'mode') == 1 => false
behind another
	heldByX WAITING(d:h1@9s)/8000s LISTEN(d) | fair_acquire place=15s | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@9s c:h1+15s)/8000s | call('RPUSH', queue, owner) => call('LPUSH', queue, owner)
place kept when asked again
	heldByX WAITING(c:h1@9s d:h1@60s)/8000s | fair_acquire place=15s | 0 ttl:10s clock '' x:h1 | same | 'NX', =>
dead head left to who hands the lock on
	heldByX WAITING(d:h1@0 e:h1@60s)/8000s | fair_acquire | 0 ttl:10s clock '' x:h1 | same |
	if not held then\n  local first = head() => local first = head()\nif not held then
own place that has ended is left to the poll
	heldByX WAITING(c:h1@0 d:h1@60s)/8000s | fair_acquire place=15s | 0 ttl:10s clock '' x:h1 | same | 'NX', =>
behind Redisson's
	heldByX WAITING(r:7@310s)/8000s LISTEN(r:7) | fair_acquire place=15s | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@310s c:h1@325000.5)/8000s | deadline = deadline + 0.5 =>
behind Redisson's that has ended
	heldByX WAITING(d:h1@60s r:7@-400s)/8000s | fair_acquire place=15s | 0 ttl:10s clock 1 x:h1 |
	same WAITING(d:h1@60s r:7@-400s c:h1+315000.5)/8000s | call('RPUSH', queue, owner) => call('LPUSH', queue, owner)
// It waited for 280 s, and its grant will take 300 s off all the same.
behind Redisson's that has waited for long
	heldByX WAITING(r:7@30s)/8000s | fair_acquire place=15s | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@30s c:h1+315000.5)/8000s | local foreignWait = 300000 => local foreignWait = 0
behind two of Redisson's
	heldByX WAITING(r:7@310s r:8@610s)/8000s | fair_acquire place=15s | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@310s r:8@610s c:h1@625000.5)/8000s | deadline = deadline + 0.5 =>
Redisson's have gone, and the room for them is there still
	heldByX WAITING(d:h1@5s d:h2@300000.5)/8000s | fair_acquire place=15s | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@5s d:h2@300000.5 c:h1+15000.5)/8000s | deadline = deadline + 0.5 =>
a queue of Redisson's gets an end
	heldByX WAITING(r:7@310s) | fair_acquire place=15s | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@310s c:h1@325000.5)/3925001 | call('PEXPIRE', deadlines, ttl) =>
time to live left to the polls
	heldByX WAITING(d:h1@9s)/30s | fair_acquire place=15s | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@9s c:h1+15s)/30s | owner) == 1 or others then => owner) > 0 then
time to live long enough
	heldByX WAITING(r:7@310s)/3400s | fair_acquire place=15s | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@310s c:h1@325000.5)/3400s | < ttl - 600000 => < ttl
held, queue of another type
	heldByX ORDER=text/20s | fair_acquire place=15s | !WRONGTYPE | same |
	local tail = call('LINDEX', queue, -1) => call('DEL', queue)\n  local tail = call('LINDEX', queue, -1)
held, deadlines of another type
	heldByX ENDS=text/20s | fair_acquire place=15s | !WRONGTYPE | same |
	if call('ZADD', deadlines, 'NX', => call('RPUSH', queue, owner)\n  if call('ZADD', deadlines, 'NX',
`)

// The lock is free and others wait: it is handed to the first that can be reached.
var fairHandRows = table(`
nobody passes a waiter
	WAITING(d:h1@60s)/8000s LISTEN(d) | fair_acquire | 0 ttl:1s clock '' d:h1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) |
	if not first or first == owner then => if true then
out of reach
	WAITING(d:h1@60s e:h1@60s)/8000s | fair_acquire | 1 clock | same LOCK{c:h1=1}/30s TOKEN=clock/1h |
	if call('HLEN', name) == 0 then return take(true) end =>
handed over
	WAITING(d:h1@60s e:h1@60s)/8000s LISTEN(d e) | fair_acquire | 0 ttl:1s clock '' d:h1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(e:h1@60s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	call('ZADD', deadlines, string.format('%.0f', handed + now + claim), owner) =>
handed over, with the token's end
	WAITING(d:h1@60s)/8000s LISTEN(d) | fair_acquire | 0 ttl:1s clock '' d:h1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) |
	call('SET', tokens, last, 'PX', keep)\n    local failed => call('SET', tokens, last)\n    local failed
handed over, and the caller waits behind
	WAITING(d:h1@60s)/8000s LISTEN(c d) | fair_acquire place=15s | 0 ttl:1s clock '' d:h1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(c:h1+15s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	place > 0 and enqueue(owner, place) => false
passed over
	WAITING(d:h1@60s d:h2@60s e:h1@60s)/8000s LISTEN(e) | fair_acquire | 0 ttl:1s clock '' e:h1 |
	LOCK{e:h1=1}/1s TOKEN=clock/1h WAITING(d:h1@60s d:h2@60s e:h1!+1s)/8000s TOLD(e:h1/1000) |
	for i, owner in ipairs(some) do\n      deadline = => for i, owner in ipairs({}) do\n      deadline =
a place that has ended behind one that is passed over
	WAITING(d:h1@60s e:h1@0 f:h1@60s)/8000s LISTEN(e f) | fair_acquire | 0 ttl:1s clock '' f:h1 |
	LOCK{f:h1=1}/1s TOKEN=clock/1h WAITING(d:h1@60s e:h1@0 f:h1!+1s)/8000s TOLD(f:h1/1000) |
	if not deadline or deadline <= now then return nil end => if not deadline then return nil end
a place that has ended is not its client's end
	WAITING(d:h1@60s e:h1@0 e:h2@60s)/8000s LISTEN(e) | fair_acquire | 0 ttl:1s clock '' e:h2 |
	LOCK{e:h2=1}/1s TOKEN=clock/1h WAITING(d:h1@60s e:h1@0 e:h2!+1s)/8000s TOLD(e:h2/1000) |
	if not deadline or deadline <= now then return nil end => if not deadline or deadline <= now then deaf[id] = true
	  return nil end
a claim has ended: its client's other places are passed over
	WAITING(d:h2@14s d:h3@14s e:h1@15s d:h1!@-500 d:h9=-8200000000000000)/8000s LISTEN(d e) | fair_acquire |
	0 ttl:1s clock '' e:h1 |
	LOCK{e:h1=1}/1s TOKEN=clock/1h WAITING(d:h2@14s d:h3@14s d:h1!@-500 e:h1!+1s d:h9=-8200000000000000)/8000s
	  TOLD(e:h1/1000) | or not since[id] or => or true or
a claim has ended: who was heard of since counts
	WAITING(d:h2@15s e:h1@15s d:h1!@-500)/8000s LISTEN(d e) | fair_acquire | 0 ttl:1s clock '' d:h2 |
	LOCK{d:h2=1}/1s TOKEN=clock/1h WAITING(e:h1@15s d:h1!@-500 d:h2!+1s)/8000s TOLD(d:h2/1000) |
	deadline - silence >= since[id] => false
a claim has ended: a short place says that its client is heard of
	heldByX WAITING(d:h2@14s d:h1!@-500)/8000s | fair_acquire owner=d:h3 place=3s | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h2@14s d:h3+3s)/8000s | if place < silence then lapsed(client(owner)) end =>
a claim has not ended, and a short place changes nothing
	heldByX WAITING(d:h2@14s d:h1!@5s)/8000s | fair_acquire owner=d:h3 place=3s | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h2@14s d:h3+3s d:h1!@5s)/8000s | or id == heard and ended <= now then => or id == heard then
all before the caller are out of reach
	WAITING(d:h1@60s)/8000s | fair_acquire place=15s | 1 clock |
	LOCK{c:h1=1}/30s TOKEN=clock/1h WAITING(d:h1@60s c:h1!+1s)/8000s |
	call('HEXISTS', name, owner) == 1 then -- all => call('HEXISTS', name, owner) == 2 then -- all
all before the caller are out of reach, for the whole lease
	WAITING(d:h1@60s c:h1@60s)/8000s LISTEN(c) | fair_acquire place=15s | 1 clock |
	LOCK{c:h1=1}/30s TOKEN=clock/1h WAITING(d:h1@60s c:h1!+1s)/8000s TOLD(c:h1/1000) |
	call('PEXPIRE', name, lease)\n    return => return
Redisson's first
	WAITING(r:7@310s e:h1@325000.5)/8000s LISTEN(r:7 r e) | fair_acquire | 0 ttl:2s clock '' r:7 |
	LOCK{r:7=0}/2s TOKEN=clock/1h WAITING(e:h1+15000.5)/8000s TOLD(r:7:0) | id and '1' or '0' => '1'
Redisson's first before it has subscribed
	WAITING(r:7@310s)/8000s | fair_acquire claim=0 | 0 ttl:2s clock '' r:7 | LOCK{r:7=0}/2s TOKEN=clock/1h |
	math.max(claim, 2000) => claim
Redisson's behind one that is passed over
	WAITING(d:h1@60s r:7@360s)/8000s LISTEN(r:7) | fair_acquire | 0 ttl:2s clock '' r:7 |
	LOCK{r:7=0}/2s TOKEN=clock/1h WAITING(d:h1@60s)/8000s TOLD(r:7:0) |
	if i == 1 then call('LPOP', queue) else => if true then call('LPOP', queue) else
free, with a token that is no number
	TOKEN=text/20s WAITING(d:h1@60s)/8000s LISTEN(d) | fair_acquire | !HOLDFAST | same |
	local n = not string.find(last, '%D') and tonumber(last) => local n = 0
`)
