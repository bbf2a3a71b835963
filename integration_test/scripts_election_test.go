package integration_test

var electionRows = table(`
free
	nothing | election_announce | -1 | nothing | if not held then return {-1} end =>
another's
	heldByB | election_announce | -1 | same | call('HEXISTS', name, ARGV[1]) => call('EXISTS', name)
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
key of another type
	notALock | election_announce | !WRONGTYPE | same | local held = call => call('DEL', name)\nlocal held = call
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
free
	nothing | election_renew | -1 | nothing | if not held then return {-1} end =>
`)
