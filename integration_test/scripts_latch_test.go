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
too late
	nothing | latch_set until=1000000000000000 | -2 clock | nothing | then return {-2, clock} end => then end
no latch
	heldByB | latch_set | !WRONGTYPE | same | local stands = call('GET', name) => local stands = call('EXISTS', name) == 1
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
too late
	three | latch_count until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
no count
	LOCK=red/30s | latch_count | !HOLDFAST | same |
	local left = not string.find(count, '[^%d-]') and tonumber(count) => local left = 5
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
too late
	three | latch_delete until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
no latch
	heldByB | latch_delete | !WRONGTYPE | same | local stands = call('GET', name) => local stands = call('EXISTS', name) == 1
set
	three | latch_look | 1 3 ttl:30s | same | math.max(left, 0) => math.min(left, 1)
it stays for longer, and what says so
	three COUNTS=latch/30s | latch_count | 1 2 clock | LOCK=2/60s CALL=2/3660s COUNTS=latch/60s |
	call('PEXPIRE', counts, ARGV[2]) =>
a semaphore
	three COUNTS=semaphore/30s | latch_count | !HOLDFAST | same | call('GET', counts) == 'semaphore' => false
a semaphore
	three COUNTS=semaphore/30s | latch_set | !HOLDFAST | same | call('GET', counts) == 'semaphore' => false
a semaphore
	three COUNTS=semaphore/30s | latch_delete | !HOLDFAST | same | call('GET', counts) == 'semaphore' => false
a semaphore
	three COUNTS=semaphore/30s | latch_look | !HOLDFAST | same | call('GET', counts) == 'semaphore' => false
not set
	nothing | latch_look | 1 '' -2 | nothing | return {1, 0, -2} => return {1, 1, -2}
no count
	LOCK=red/30s | latch_look | !HOLDFAST | same |
	if not left then return redis.error_reply => if false then return redis.error_reply
`)
