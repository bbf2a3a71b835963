package integration_test

// The rows of the scripts for those who wait, and for who hands the lock off.

// A holder goes, or one who waits.
var fairReleaseRows = table(`
held, nobody waits
	heldByC LISTEN(c d) | fair_release | 1 | same -LOCK | call('DEL', name)\nelseif => elseif
held more than once
	LOCK{c:h1=3}/10s TOKEN=5000/20s | fair_release | 1 | same -LOCK |
	call('DEL', name)\nelseif => call('HINCRBY', name, owner, -1)\nelseif
held without a time to live
	LOCK{c:h1=1} | fair_release | 1 | nothing | call('DEL', name)\nelseif => call('PEXPIRE', name, 100000)\nelseif
held, the waiter is out of reach
	heldByC WAITING(d:h1@60s)/8000s | fair_release | 1 | same -LOCK | if deaf[id] then return nil end =>
held, the first waiter may listen elsewhere, by classic channels of a cluster
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s LISTEN(e) | fair_release by=publish | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(e:h1@60s d:h1!+1s)/8000s |
	if command == 'publish' then return nil end => if command == 'publish' then return 0 end
held, the waiter listens
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s LISTEN(c d e) | fair_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(e:h1@60s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	handed + now + claim), owner) => handed + now + claim), owner)\n      call('RPUSH', queue, owner)
held, a waiter of the same client listens
	heldByC WAITING(c:h2@60s)/8000s LISTEN(c) | fair_release | 1 |
	LOCK{c:h2=1}/1s TOKEN=clock/1h ENDS(c:h2!+1s)/8000s TOLD(c:h2/1000) |
	number .. ' ' .. token => owner .. ' ' .. token
held, three of one client wait, then another, then the first
	heldByC WAITING(d:h1@60s d:h2@60s d:h3@60s e:h1@60s d:h4@60s)/8000s LISTEN(c d e) | fair_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=run/1h WAITING(d:h2@60s d:h3@60s e:h1@60s d:h4@60s d:h1!+1s)/8000s TOLD(d:h1/1000/h2/h3) |
	if of ~= id then break end =>
held, and a run begins behind who is out of reach
	heldByC WAITING(e:h1@60s d:h1@60s d:h2@60s d:h3@60s)/8000s LISTEN(d) | fair_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=run/1h WAITING(e:h1@60s d:h2@60s d:h3@60s d:h1!+1s)/8000s TOLD(d:h1/1000/h2/h3) |
	run(id, i - 1) => run(id, 0)
held, Redisson's stands in a run
	heldByC WAITING(d:h1@60s d:h2@60s r:7@310s d:h3@325000.5)/8000s LISTEN(d) | fair_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=run/1h WAITING(d:h2@60s r:7@310s d:h3@325000.5 d:h1!+1s)/8000s TOLD(d:h1/1000/h2) |
	if of ~= id then break end => number = number or 'r'
held, a run's tokens are ahead of the clock
	LOCK{c:h1=1} TOKEN=9000000000000000 WAITING(d:h1@60s d:h2@60s)/8000s LISTEN(d) | fair_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=9000000000000001/1h WAITING(d:h2@60s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	if id and token == micros() then => if id then
held, the end of a run
	heldByC WAITING(c:h2@60s c:h3@60s c:h4@60s d:h1@60s)/8000s LISTEN(c d) | fair_release c:h2 c:h4 | 1 |
	LOCK{c:h3=1}/1s TOKEN=clock/1h WAITING(d:h1@60s c:h3!+1s)/8000s TOLD(c:h3/1000) |
	if had[ARGV[j]] then drop(ARGV[j]) end =>
held, the end of a whole run
	heldByC WAITING(c:h2@60s c:h3@60s d:h1@60s)/8000s LISTEN(c d) | fair_release c:h2 c:h3 | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) | served(5) =>
another holds, the end of a run
	LOCK{d:h1=1}/10s TOKEN=5000/20s WAITING(c:h2@60s c:h3@60s d:h2@60s)/8000s LISTEN(c d) | fair_release c:h2 c:h3 |
	-1 | same WAITING(d:h2@60s)/8000s | served(5) =>
one of several who leave was handed it
	LOCK{c:h2=1}/10s TOKEN=5000/20s WAITING(c:h1@60s c:h3@60s d:h1@60s)/8000s LISTEN(c d) | fair_release c:h2 c:h3 | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) | if ARGV[i] == holder then held, owner = true, holder end =>
several leave, and the first of them has a place
	LOCK{c:h2=1}/10s TOKEN=5000/20s WAITING(c:h1@60s d:h1@60s)/8000s LISTEN(c d) | fair_release c:h2 | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) | if owner ~= ARGV[1] then drop(ARGV[1]) end =>
held, the token is ahead of the clock
	LOCK{c:h1=1} TOKEN=9000000000000000 WAITING(d:h1@60s)/8000s LISTEN(d) | fair_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=9000000000000001/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) | math.max(n + 1, => math.max(n,
held, the head is dead
	heldByC WAITING(d:h1@0 e:h1@60s)/8000s LISTEN(d e) | fair_release | 1 |
	LOCK{e:h1=1}/1s TOKEN=clock/1h ENDS(e:h1!+1s)/8000s TOLD(e:h1/1000) |
	(ends(some[n + 1]) or 0) <= now do => not ends(some[n + 1]) do
held, all are dead
	heldByC WAITING(d:h1@0 e:h1@-9 r:7@0)/8000s LISTEN(d e r:7) | fair_release | 1 | TOKEN=5000/20s |
	(ends(some[n + 1]) or 0) <= now do => not ends(some[n + 1]) do
held, Redisson's is next
	heldByC WAITING(r:7@310s d:h1@325000.5)/8000s LISTEN(r:7 d) | fair_release | 1 |
	LOCK{r:7=0}/2s TOKEN=clock/1h WAITING(d:h1+15000.5)/8000s TOLD(r:7:0) |
	channel .. ':' .. owner, '0') => channel .. ':' .. owner, '1')
held, Redisson's alone wait
	heldByC WAITING(r:7@310s r:8@610s) LISTEN(r:7 r:8) | fair_release | 1 |
	LOCK{r:7=0}/2s TOKEN=clock/1h WAITING(r:8+300s) TOLD(r:7:0) | id and '1' or '0' => '1'
another's, not in the queue
	heldByX WAITING(d:h1@60s)/8000s LISTEN(d) | fair_release | -1 | same |
	held or call('HLEN', name) == 0 then => true then
another's, no queue
	heldByX | fair_release | -1 | same | call('HEXISTS', name, owner) == 1 => call('EXISTS', name) == 1
another's, in the queue
	heldByX WAITING(d:h1@60s c:h1@60s r:7@360s)/8000s LISTEN(d r:7) | fair_release | -1 |
	same WAITING(d:h1@60s r:7@360s)/8000s |
	elseif call('ZCARD', deadlines) > 0 then\n  drop(owner) => elseif false then
another's, alone in the queue
	heldByX WAITING(c:h1@60s)/8000s | fair_release | -1 | same -WAITING | call('LREM', queue, 1, owner)\n =>
free, in the queue
	WAITING(c:h1@60s d:h1@60s)/8000s LISTEN(c d) | fair_release | -1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h ENDS(d:h1!+1s)/8000s TOLD(d:h1/1000) |
	held or call('HLEN', name) == 0 then => held then
handed to another since, repeated call
	LOCK{d:h1=1}/900 TOKEN=5000/20s WAITING(e:h1@60s)/8000s LISTEN(d e) | fair_release | -1 | same |
	held or call('HLEN', name) == 0 then => true then
held, with a token that is no number
	LOCK{c:h1=1} TOKEN=text/20s WAITING(d:h1@60s)/8000s LISTEN(d) | fair_release | 1 error | same -LOCK |
	if refused then return refused end => if refused then return end
held, with a token of another type
	LOCK{c:h1=1}/10s TOKEN[x]/20s WAITING(d:h1@60s)/8000s LISTEN(d) | fair_release | 1 error | same -LOCK |
	call('DEL', name)\nelseif => elseif
held, with a queue of another type
	heldByC ORDER=text/20s | fair_release | 1 error | same -LOCK | call('DEL', name)\nelseif => elseif
held, with deadlines of another type
	heldByC ORDER[d:h1]/20s ENDS=text/20s | fair_release | 1 error | same -LOCK | call('DEL', name)\nelseif => elseif
another's, deadlines of another type
	heldByX ENDS=text/20s | fair_release | !WRONGTYPE | same |
	elseif call('ZCARD', deadlines) > 0 then => elseif call('EXISTS', queue) > 0 then
key of another type
	notALock | fair_release | !WRONGTYPE | same |
	local held = call('HEXISTS', name, owner) == 1 => call('DEL', name)\nlocal held = false
`)

// The look of one client, or several, of the library.
var fairPollRows = table(`
nothing there
	nothing | fair_poll | 1 -2 clock '' '' '' '' | nothing | whose() or '' => whose() or 'nobody'
no place
	heldByX WAITING(c:h2@60s)/8000s | fair_poll c:h1 c:h2 c:h3 | 1 ttl:10s clock x:h1 '' '' '' c:h1 c:h3 | same |
	missing[#missing + 1] = owner =>
a place of no more use than a caller stays
	heldByX WAITING(c:h1@5s c:h2@5s c:h3@5s)/8000s | fair_poll place=7s c:h1 3000 c:h2 9000 c:h3 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(c:h1+7s c:h2@5s c:h3+9s)/8000s | place = tonumber(owner) => place = place or tonumber(owner)
its client is heard of, however soon its callers leave
	heldByX WAITING(d:h1@60s c:h1@14s c:h2!@-500)/8000s | fair_poll place=3s c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(d:h1@60s c:h1@14s)/8000s | lapsed(id)\nlocal => local
places put off
	heldByX WAITING(c:h1@5s d:h1@5s c:h2@9s c:h3@5s)/8000s LISTEN(c d) | fair_poll c:h1 c:h2 |
	1 ttl:10s clock x:h1 '' 1 '' | same WAITING(c:h1+15s d:h1@5s c:h2+15s c:h3@5s)/8000s |
	if deadline < later then call('ZADD' => if false then call('ZADD'
a place that ends late enough
	heldByX WAITING(c:h1@60s)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' | same |
	if deadline < later then call('ZADD' => if true then call('ZADD'
time to live put off
	heldByX WAITING(c:h1@5s)/30s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' | same WAITING(c:h1+15s)/3615s |
	if next(asked) then limit(now + silence) end =>
no places to put off
	heldByX WAITING(c:h1@5s)/30s | fair_poll | 1 ttl:10s clock x:h1 '' '' '' | same |
	if next(asked) then limit(now + silence) end => limit(now + silence)
repair of a queue without deadlines
	heldByX ORDER[d:h1 c:h2 e:h1]/8000s ENDS(d:h1@60s)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' c:h1 |
	same -ENDS -ORDER WAITING(d:h1@60s)/8000s |
	if call('LLEN', queue) ~= call('ZCARD', deadlines) => if false and call('ZCARD', deadlines) ~= call('ZCARD',
	  deadlines)
repair of deadlines without a queue
	heldByX ENDS(c:h1@60s)/60s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' c:h1 | same -ENDS |
	if not queued[owner] and ends(owner) then call('ZREM', deadlines, owner) end =>
repair of both
	heldByX ORDER[c:h1 d:h1 e:h1]/8000s ENDS(c:h1@60s f:h1@60s)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same -ENDS -ORDER WAITING(c:h1@60s)/8000s | call('LREM', queue, 0, owner) end\n  end => end\n  end
behind three other clients
	heldByX WAITING(d:h1@60s e:h1@60s e:h2@60s f:h1@60s c:h1@60s)/8000s | fair_poll | 1 ttl:10s clock x:h1 '' '' '' |
	same | if not seen[of] then before => if true then before
behind four other clients
	heldByX WAITING(d:h1@60s e:h1@60s f:h1@60s g:h1@60s c:h1@60s)/8000s | fair_poll | 1 ttl:10s clock x:h1 '' '' 1 |
	same | before > 3 and 1 => before > 4 and 1
free, handed to another
	WAITING(d:h1@60s c:h1@60s)/8000s LISTEN(c d) | fair_poll | 1 ttl:1s clock d:h1 '' 1 '' |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(c:h1@60s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	local failed = grant(ARGV[2], tonumber(ARGV[3]), ARGV[4], id) => local failed
free, handed to the caller itself, who missed it
	WAITING(c:h1@60s)/8000s | fair_poll | 1 ttl:1s clock c:h1 '' '' '' |
	LOCK{c:h1=1}/1s TOKEN=clock/1h ENDS(c:h1!+1s)/8000s | if id and id ~= present then => if id then
free, dead head
	WAITING(d:h1@0 r:7@0)/8000s LISTEN(d r:7) | fair_poll | 1 -2 clock '' '' '' '' | nothing |
	(ends(some[n + 1]) or 0) <= now do => not ends(some[n + 1]) do
held, not handed over
	heldByX WAITING(d:h1@60s)/8000s LISTEN(d) | fair_poll | 1 ttl:10s clock x:h1 '' '' '' | same |
	if call('HLEN', name) == 0 and => if
key of another type
	notALock WAITING(c:h1@60s)/8000s | fair_poll | !WRONGTYPE | same |
	if call('HLEN', name) == 0 and call('LLEN', queue) > 0 then => call('DEL', name)\nif false then
queue of another type
	heldByX ORDER=text/20s | fair_poll c:h1 | !WRONGTYPE | same |
	local id = ARGV[1] => local id = ARGV[1]\ncall('DEL', queue)
deadlines of another type
	heldByX ENDS=text/20s | fair_poll c:h1 | !WRONGTYPE | same |
	local id = ARGV[1] => local id = ARGV[1]\ncall('DEL',
	  deadlines)
token of another type
	TOKEN[x]/20s WAITING(c:h1@60s)/8000s | fair_poll | !WRONGTYPE | same |
	call('GET', tokens), micros() => false, micros()
token that is no number
	TOKEN=text/20s WAITING(c:h1@60s)/8000s LISTEN(c) | fair_poll | !HOLDFAST | same |
	if failed then return failed end\nend\nlocal holder => end\nlocal holder
`)

// A client's look at a queue in which Redisson waits too.
var fairMixedRows = table(`
in front of a Redisson holder
	LOCK{r:9=1}/10s TOKEN=5000/20s WAITING(c:h1@60s r:7@360s)/8000s | fair_poll | 1 ttl:10s clock r:9 c:h1 '' '' |
	same | if not called or client(called) ~= id or holder == '' or client(holder) then => if true then
in front, when the head has ended
	LOCK{r:9=1}/10s TOKEN=5000/20s WAITING(r:7@0 c:h1@60s)/8000s | fair_poll | 1 ttl:10s clock r:9 c:h1 '' '' |
	same WAITING(c:h1@60s)/8000s | local called = head() => local called = call('LINDEX', queue, 0)
another's in front of a Redisson holder
	LOCK{r:9=1}/10s TOKEN=5000/20s WAITING(d:h1@60s c:h1@60s)/8000s | fair_poll | 1 ttl:10s clock r:9 '' '' '' | same |
	client(called) ~= id or =>
in front of a holder of the library
	heldByX WAITING(c:h1@60s)/8000s | fair_poll | 1 ttl:10s clock x:h1 '' '' '' | same |
	or holder == '' or client(holder) then => then
behind Redisson's
	heldByX WAITING(r:7@310s c:h1@5000.5)/8000s LISTEN(r:7 c) | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' 1 '' |
	same WAITING(r:7@310s c:h1@325000.5)/8000s |
	return math.min(math.max(foreignWait => return 0 * math.min(math.max(foreignWait
behind Redisson's, of no more use than its caller stays
	heldByX WAITING(r:7@310s c:h1@5000.5)/8000s | fair_poll place=3s c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(r:7@310s c:h1@313000.5)/8000s |
	if asked[owner] then needed = needed - silence + use[owner] end =>
behind Redisson's that has waited for long
	heldByX WAITING(r:7@30s c:h1@45000.5)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(r:7@30s c:h1+315000.5)/8000s | local foreignWait = 300000 => local foreignWait = 0
behind two of Redisson's
	heldByX WAITING(r:7@310s r:8@610s c:h1@5000.5)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(r:7@310s r:8@610s c:h1@625000.5)/8000s | others = true => others, needed = true, now + place
behind one of Redisson's that waits for longer
	heldByX WAITING(r:7@310s r:8@1310s c:h1@5000.5)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(r:7@310s r:8@1310s c:h1@1325000.5)/8000s |
	math.min(math.max(foreignWait, deadline - before), longestWait) => foreignWait
before and behind Redisson's
	heldByX WAITING(c:h1@5s r:7@305s c:h2@15000.5)/8000s | fair_poll c:h1 c:h2 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(c:h1+15s r:7@305s c:h2+315000.5)/8000s |
	visit(owner, deadline, math.floor(needed) + (others and 0.5 or 0)) => if not others then visit(owner, deadline,
	  needed) end
a deadline that is later than it need be
	heldByX WAITING(r:7@310s c:h1@700000.5)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(r:7@310s c:h1@325000.5)/8000s | or room and deadline > needed =>
// What is taken off ours is taken off the one behind it, but for what that needs.
before one of Redisson's, and later than it need be
	heldByX WAITING(r:7@310s c:h1@700000.5 r:8@640s)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(r:7@310s c:h1@325000.5 r:8@625s)/8000s |
	math.max(deadline - taken, math.min(deadline, needed)) => deadline - taken
Redisson's have gone
	heldByX WAITING(c:h1@60000.5)/8000s | fair_poll c:h1 | 1 ttl:10s clock x:h1 '' '' '' |
	same WAITING(c:h1+15s)/8000s | or room and deadline > needed =>
no owners, nothing put off
	heldByX WAITING(r:7@310s c:h1@5000.5)/8000s | fair_poll | 1 ttl:10s clock x:h1 '' '' '' | same |
	asked[owner] and deadline < needed or => deadline < needed or
another client's place is its own to put off
	heldByX WAITING(d:h1@5s r:7@305s d:h2@315000.5 c:h1@330000.5)/8000s | fair_poll c:h1 |
	1 ttl:10s clock x:h1 '' '' '' | same WAITING(d:h1@5s r:7@305s d:h2@315000.5 c:h1+315000.5)/8000s |
	asked[owner] and deadline < needed or => deadline < needed or
free, handed to Redisson's
	WAITING(r:7@310s c:h1@325000.5)/8000s LISTEN(r:7 c) | fair_poll | 1 ttl:2s clock r:7 c:h1 1 '' |
	LOCK{r:7=0}/2s TOKEN=clock/1h WAITING(c:h1+15000.5)/8000s TOLD(r:7:0) | id and '1' or '0' => '1'
// Who stood before r:7 has left, and its time is in the deadlines of Redisson's still: 315 s are taken off for a
// wait of 300 s.
free, handed to one of Redisson's with more time left than it waits
	WAITING(r:7@315s r:8@615s c:h1@615000.5)/8000s LISTEN(r:7 c) | fair_poll | 1 ttl:2s clock r:7 '' 1 '' |
	LOCK{r:7=0}/2s TOKEN=clock/1h WAITING(r:8+300s c:h1+315000.5)/8000s TOLD(r:7:0) |
	math.floor(needed) + deadline % 1) => now + silence + deadline % 1)
// Equally many on both sides, and not the same.
one without a deadline, one without a place
	heldByX ORDER[r:7 r:8 c:h1]/8000s ENDS(r:6@310s r:7@310s c:h1@800000.5)/8000s | fair_poll c:h1 |
	1 ttl:10s clock x:h1 '' '' '' | same ENDS(r:6@310s r:7@310s c:h1@625000.5)/8000s |
	local first = call('LINDEX', queue, 0)\nif first and => call('DEL', name)\nlocal first = call('LINDEX', queue,
	  0)\nif first and
`)

// Several of a client take places at once.
var fairJoinRows = table(`
places taken
	heldByX | fair_join | 0 ttl:10s clock '' x:h1 | same WAITING(c:h1+15s c:h2+15s c:h3+15s)/3615s |
	if call('RPUSH', queue, unpack(owners)) == #owners then limit(now + silence) end => call('RPUSH', queue,
	  unpack(owners))
behind another
	heldByX WAITING(d:h1@9s)/8000s LISTEN(d) | fair_join | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@9s c:h1+15s c:h2+15s c:h3+15s)/8000s |
	call('RPUSH', queue, unpack(owners)) => call('LPUSH', queue, unpack(owners))
for as long as each is of use
	heldByX WAITING(d:h1@9s)/8000s | fair_join place=9s c:h1 c:h2 12000 c:h3 | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@9s c:h1+9s c:h2+9s c:h3+12s)/8000s | now + use[owner]), owner => now + shortest), owner
for as long as each is of use, behind Redisson's
	heldByX WAITING(r:7@310s)/8000s LISTEN(r:7) | fair_join place=9s c:h1 12000 c:h2 | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@310s c:h1@319000.5 c:h2@322000.5)/8000s | enqueue(owner, use[owner]) => enqueue(owner, shortest)
one has a place
	heldByX WAITING(c:h2@9s d:h1@9s)/8000s | fair_join | 0 ttl:10s clock '' x:h1 |
	same WAITING(c:h2@9s d:h1@9s c:h1+15s c:h3+15s)/8000s |
	fresh = fresh and not call('ZSCORE', deadlines, owner) =>
a claim has ended: short places say that their client is heard of
	heldByX WAITING(d:h1@9s c:h9!@-500)/8000s | fair_join place=3s | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@9s c:h1+3s c:h2+3s c:h3+3s)/8000s | short(owners[1], shortest) =>
one let a claim lapse
	heldByX WAITING(d:h1@9s c:h2!@-500)/8000s | fair_join | 0 ttl:10s clock '' x:h1 |
	same WAITING(d:h1@9s c:h1+15s c:h2+15s c:h3+15s)/8000s |
	call('ZADD', deadlines, deadline, owner) -- it was handed the lock => -- it
too late
	heldByX | fair_join until=1000000000000000 | -2 clock | same | local limit = ARGV[1] => local limit = nil
the server's clock is not known
	heldByX | fair_join until=0 | -2 clock | same | local limit = ARGV[1] => local limit = nil
one of them has the lock
	heldByC | fair_join | 1 | same | if owner == hash[1] then return {1} end =>
five fields
	LOCK{x:h1=1 c=2 d=3 e=4 f=5} | fair_join | 1 | same | if fields > 4 then return {1} end =>
four fields
	LOCK{x:h1=1 c=2 d=3 e=4}/10s | fair_join | 0 ttl:10s clock '' x:h1 c d e |
	same WAITING(c:h1+15s c:h2+15s c:h3+15s)/3615s | hash[1], hash[3] => hash[1], hash[2]
free: a run
	LISTEN(c) | fair_join | 0 ttl:1s clock '' c:h1 |
	LOCK{c:h1=1}/1s TOKEN=run/1h WAITING(c:h2+15s c:h3+15s c:h1!+1s)/3615s TOLD(c:h1/1000/h2/h3) |
	hash, clock = call('HGETALL', name) => clock = clock
free, another waits
	WAITING(d:h1@60s)/8000s LISTEN(c d) | fair_join | 0 ttl:1s clock '' d:h1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(c:h1+15s c:h2+15s c:h3+15s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	call('RPUSH', queue, unpack(owners)) => call('LPUSH', queue, unpack(owners))
free, another waits out of reach, and so they seem
	WAITING(d:h1@60s)/8000s | fair_join | 0 ttl:1s clock '' c:h1 |
	LOCK{c:h1=1}/1s TOKEN=run/1h WAITING(d:h1@60s c:h2+15s c:h3+15s c:h1!+1s)/8000s | , client(owners[1])) => )
free, and their places have ended
	WAITING(d:h1@60s c:h1@0)/8000s | fair_join c:h1 | 1 | same |
	if not hash[1] then return {1} end => if not hash[1] then hash[1] = '' end
behind Redisson's
	heldByX WAITING(r:7@310s)/8000s LISTEN(r:7) | fair_join | 0 ttl:10s clock 1 x:h1 |
	same WAITING(r:7@310s c:h1@325000.5 c:h2@325000.5 c:h3@325000.5)/8000s |
	if fresh and not mixed() then => if fresh then
Redisson's holds it
	LOCK{r:7=1}/10s | fair_join | 0 ttl:10s clock 1 r:7 | same WAITING(c:h1+15s c:h2+15s c:h3+15s)/3615s |
	foreign = foreign or not client(hash[1]) =>
free, with a token that is no number
	TOKEN=text/20s | fair_join | !HOLDFAST | same |
	local refused = nextToken()\n  if refused then return refused end =>
key of another type
	notALock | fair_join | !WRONGTYPE | same |
	local fields = call('HLEN', name)\nif => call('DEL', name)\nlocal fields = 0\nif
queue of another type
	heldByX ORDER=text/20s | fair_join | !WRONGTYPE | same | if fresh and not mixed() then => if fresh then
deadlines of another type
	heldByX ENDS=text/20s | fair_join | !WRONGTYPE | same |
	fresh = fresh and not call('ZSCORE', deadlines, owner) => call('DEL', deadlines)
`)

var fairStateRows = table(`
free, no token known
	nothing | fair_state | 0 0 '' | nothing | call('GET', tokens) or '0' => call('GET', tokens) or ''
free, with waiters
	TOKEN=5000/20s WAITING(c:h1@60s d:h1@-5 r:7@360s)/8000s | fair_state | 0 5000 2 | same |
	local now = time[1] => local now = -time[1]
held, with waiters
	LOCK{a=3}/10s TOKEN=5000/20s WAITING(c:h1@60s)/8000s | fair_state | 1 a 3 ttl:10s 5000 1 | same |
	return {1, owner, count, call('PTTL', name), token, waiters} => return {1, count, owner, call('PTTL', name),
	  token, waiters}
held, nobody waits
	LOCK{a=1} | fair_state | 1 a 1 -1 0 '' | same | call('PTTL', name), token, waiters} => 0, token, waiters}
key of another type
	notALock | fair_state | !WRONGTYPE | same |
	local n = call('HLEN', name) => if call('TYPE', name).ok ~= 'hash' then return end\nlocal n = call('HLEN', name)
token of another type
	TOKEN[x]/20s | fair_state | !WRONGTYPE | same | call('GET', tokens) or '0' => '0'
deadlines of another type
	heldByX ENDS=text/20s | fair_state | !WRONGTYPE | same |
	local token, waiters => call('DEL', deadlines)\nlocal token, waiters
`)
