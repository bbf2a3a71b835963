package integration_test

var latchRows = table(`
not set
	LISTEN(latch) | latch_set | 1 1 clock | LOCK=3/60s CALL=1/3660s COUNTS=latch/60s TOLD(latch:1) |
	call('SET', name, ARGV[1], 'PX', ARGV[2])\n => call('SET', name, ARGV[1], 'PX', 1000)\n
set already
	three LISTEN(latch) | latch_set count=5 | 1 '' clock | same CALL=0/3660s |
	outcome = stands and '0' or '1' => outcome = '1'
set already, and the call is remembered
	three | latch_set count=5 | 1 '' clock | same CALL=0/3660s |
	call('SET', this, outcome, 'PX', kept) => if outcome == '1' then call('SET', this, outcome, 'PX', kept) end
a repeat, and it was opened
	CALL=0/30s | latch_set | 1 '' clock | same | if outcome then return {1, tonumber(outcome), clock} end =>
a repeat
	LOCK=2/30s CALL=1/30s | latch_set | 1 1 clock | same | if outcome then return {1, tonumber(outcome), clock} end =>
one of three
	three LISTEN(latch) | latch_count | 1 2 clock | LOCK=2/60s CALL=2/3660s |
	call('SET', this, outcome, 'PX', kept) =>
it stays for longer
	three | latch_count | 1 2 clock | LOCK=2/60s CALL=2/3660s | call('PEXPIRE', name, ARGV[2]) => call('PTTL', name)
it is not shortened
	LOCK=3/90s | latch_count | 1 2 clock | LOCK=2/90s CALL=2/3660s | ttl < tonumber(ARGV[2]) => true
the last one
	LOCK=1/30s COUNTS=latch/30s LISTEN(latch) | latch_count | 1 '' clock | CALL=0/3660s TOLD(latch:0) |
	call('DEL', name, counts) => call('DEL', name)
a repeat
	three CALL=1/30s | latch_count | 1 1 clock | same | if known then return {1, tonumber(known), clock} end =>
a repeat of the last one, and it was set anew
	three CALL=0/30s | latch_count | 1 '' clock | same | return {1, tonumber(known), clock} => return {1, 3, clock}
not set
	LISTEN(latch) | latch_count | 1 '' clock | CALL=0/3660s | if not stands then return {1, 0, clock} end =>
not set, and the call is remembered
	nothing | latch_count | 1 '' clock | CALL=0/3660s |
	call('SET', this, outcome, 'PX', kept) => if stands then call('SET', this, outcome, 'PX', kept) end
no count
	LOCK=red/30s | latch_count | !HOLDFAST | same |
	if stands and not left then => if false then
no latch
	heldByB | latch_count | !WRONGTYPE | same |
	local stands = call('GET', name) => call('DEL', name)\nlocal stands = call('GET', name)
set
	three LISTEN(latch) | latch_delete | 1 1 clock | CALL=1/3660s TOLD(latch:0) | ARGV[6], '0' => ARGV[6], '1'
not set
	LISTEN(latch) | latch_delete | 1 '' clock | CALL=0/3660s | if outcome == '0' then return {1, 0, clock} end =>
not set, and the call is remembered
	nothing | latch_delete | 1 '' clock | CALL=0/3660s |
	call('SET', this, outcome, 'PX', kept) => if outcome == '1' then call('SET', this, outcome, 'PX', kept) end
a repeat that found nothing, and it was set
	three CALL=0/30s | latch_delete | 1 '' clock | same | if outcome then return {1, tonumber(outcome), clock} end =>
a repeat, and it was set anew
	three CALL=1/30s | latch_delete | 1 1 clock | same | if outcome then return {1, tonumber(outcome), clock} end =>
set
	three | latch_look | 1 3 ttl:30s | same | math.max(left, 0) => math.min(left, 1)
it stays for longer, and what says so
	three COUNTS=latch/30s | latch_count | 1 2 clock | LOCK=2/60s CALL=2/3660s COUNTS=latch/60s |
	call('PEXPIRE', counts, ARGV[2]) =>
not set
	nothing | latch_look | 1 '' -2 | nothing | return {1, 0, -2} => return {1, 1, -2}
no count
	LOCK=red/30s | latch_look | !HOLDFAST | same |
	if stands and not left then => if false then
no count
	LOCK=red/30s | latch_set | !HOLDFAST | same | if stands and not left then => if false then
no count
	LOCK=red/30s | latch_delete | !HOLDFAST | same | if stands and not left then => if false then
`)

var electionRows = table(`
held
	heldByC LISTEN(observers) | election_announce | 1 | same SAID="5000 c:h1 v"/1h TOLD(observers:5000) |
	'PX', ARGV[4]) => 'PX', 1000)
held, and observers are told
	heldByC SAID="4999 d:h1 w"/50s | election_announce by=SPUBLISH | 1 | same SAID="5000 c:h1 v"/1h |
	call('SET', KEYS[2] => call('SET', KEYS[2], 'x', 'PX', 1, 'NX') call('GET', KEYS[2]
held, and announced already
	heldByC SAID="5000 c:h1 v"/50s LISTEN(observers) | election_announce | 1 |
	same SAID="5000 c:h1 v"/1h TOLD(observers:5000) | last > token => last >= token
held, a greater token has announced itself
	heldByC SAID="5001 d:h1 w"/50s | election_announce | -1 | same | #last == #token and last > token => false
held, a longer token has announced itself
	heldByC SAID="10000 d:h1 w"/50s | election_announce | -1 | same | #last > #token or =>
held, the announcement is of another type
	heldByC SAID{a=1}/10s | election_announce | !WRONGTYPE | same | call('GET', KEYS[2]) => nil
nobody
	nothing | election_leader | 0 | nothing | if not token or => if token and
held, and not announced
	heldByC | election_leader | 0 | same | return {0} => return {1}
held, announced by the one before
	heldByC SAID="4999 d:h1 w"/50s | election_leader | 0 | same | or redis.call('HEXISTS', KEYS[1], owner) == 0 =>
announced, the lease has ended
	SAID="5000 c:h1 v"/50s | election_leader | 0 | same | or redis.call('HEXISTS', KEYS[1], owner) == 0 =>
announced
	heldByC SAID="5000 c:h1 v"/50s | election_leader | 1 c:h1 5000 v ttl:10s | same |
	redis.call('PTTL', KEYS[1])} => redis.call('PTTL', KEYS[2])}
announced without a value
	heldByC SAID="5000 c:h1 "/50s | election_leader | 1 c:h1 5000 '' ttl:10s | same |
	'^(%d+) (%S+) (.*)$' => '^(%d+) (%S+) (.+)$'
something else is announced
	heldByC SAID=text/50s | election_leader | 0 | same | if not token or => if token and
key of another type
	notALock SAID="5000 c:h1 v"/50s | election_leader | !WRONGTYPE | same |
	or redis.call('HEXISTS', KEYS[1], owner) == 0 =>
not the leader
	heldByB SAID="4999 d:h1 w"/50s LISTEN(observers) | election_release | -1 | same |
	if leads then => do
resigns, nobody follows
	heldByC SAID="5000 c:h1 v"/50s LISTEN(observers) | election_release | 1 | TOKEN=5000/20s TOLD(observers:0) |
	redis.call('DEL', KEYS[6]) =>
resigns, and observers are told
	heldByC LISTEN(observers) | election_release | 1 | same -LOCK TOLD(observers:0) | KEYS[7], '0' => KEYS[5], '0'
resigns, and the next one is handed the lock
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s SAID="5000 c:h1 v"/50s LISTEN(observers d e) | election_release | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(e:h1@60s d:h1!+1s)/8000s TOLD(observers:0 d:h1/1000) |
	handed + now + claim), owner) => handed + now + claim), owner)\n      call('RPUSH', queue, owner)
resigns, the announcement is of another type
	heldByC SAID{a=1}/10s | election_release | 1 | same -LOCK |
	if type(redis.pcall('GET', KEYS[6])) == 'string' then redis.call('DEL', KEYS[6]) end => redis.call('DEL', KEYS[6])
several leave, and one of them was handed the lock
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s SAID="5000 c:h1 v"/50s LISTEN(observers) |
	election_release owner=e:h1 c:h1 | 1 | TOKEN=5000/20s WAITING(d:h1@60s)/8000s TOLD(observers:0) |
	for i = 5, #ARGV do leads => for i = 9, #ARGV do leads
a candidate leaves
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s SAID="5000 c:h1 v"/50s LISTEN(observers) | election_release owner=e:h1 |
	-1 | same WAITING(d:h1@60s)/8000s | if leads then => do
renewed
	heldByC SAID="5000 c:h1 v"/50s | election_renew | 1 | LOCK{c:h1=1}/30s TOKEN=5000/1h SAID="5000 c:h1 v"/1h |
	redis.call('PEXPIRE', KEYS[3], ARGV[3]) => 1
renewed, the announcement was gone
	heldByC | election_renew said=announced | 1 | LOCK{c:h1=1}/30s TOKEN=5000/1h SAID=announced/1h |
	redis.pcall('SET', KEYS[3], ARGV[4], 'PX', ARGV[3]) =>
renewed, the announcement stands
	heldByC SAID="5000 c:h1 v"/50s | election_renew said=another | 1 |
	LOCK{c:h1=1}/30s TOKEN=5000/1h SAID="5000 c:h1 v"/1h | == 0 and ARGV[4] then => and ARGV[4] then
renewed, the announcement is kept for longer
	heldByC SAID="5000 c:h1 v"/50s | election_renew keep=40s | 1 | same LOCK{c:h1=1}/30s TOKEN=5000/40s |
	and redis.call('PTTL', KEYS[3]) < tonumber(ARGV[3]) =>
another's
	heldByB SAID="4999 d:h1 w"/50s | election_renew | -1 | same |
	if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and => if
`)
