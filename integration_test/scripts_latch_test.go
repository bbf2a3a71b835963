package integration_test

var latchRows = table(`
not set
	LISTEN(latch) | latch_set | 1 1 clock | LOCK=3/60s CALL=1/3660s TOLD(latch:1) |
	call('SET', name, ARGV[1], 'PX', ARGV[2]) => call('SET', name, ARGV[1], 'PX', 1000)
set already
	three LISTEN(latch) | latch_set count=5 | 1 '' clock | same CALL=0/3660s |
	call('GET', name) and '0' => false and '0'
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
	heldByB | latch_set | !WRONGTYPE | same | call('GET', name) and => call('EXISTS', name) == 1 and
one of three
	three LISTEN(latch) | latch_count | 1 2 clock | LOCK=2/60s CALL=1/3660s |
	call('SET', this, outcome, 'PX', kept) =>
it stays for longer
	three | latch_count | 1 2 clock | LOCK=2/60s CALL=1/3660s | call('PEXPIRE', name, ARGV[2]) => call('PTTL', name)
it is not shortened
	LOCK=3/90s | latch_count | 1 2 clock | LOCK=2/90s CALL=1/3660s | ttl < tonumber(ARGV[2]) => true
the last one
	LOCK=1/30s LISTEN(latch) | latch_count | 1 '' clock | CALL=1/3660s TOLD(latch:0) | call('DEL', name) =>
a repeat
	three CALL=1/30s | latch_count | 1 3 clock | same | if call('EXISTS', this) == 1 then => if false then
not set
	LISTEN(latch) | latch_count | 1 '' clock | CALL=1/3660s | if not stands then return {1, 0, clock} end =>
not set, and the call is remembered
	nothing | latch_count | 1 '' clock | CALL=1/3660s |
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
	three LISTEN(latch) | latch_delete | 1 1 clock | CALL=1/3660s TOLD(latch:0) | '0'\n => '1'\n
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
	heldByB | latch_delete | !WRONGTYPE | same | call('GET', name) and => call('EXISTS', name) == 1 and
set
	three | latch_look | 1 3 ttl:30s | same | math.max(left, 0) => math.min(left, 1)
not set
	nothing | latch_look | 1 '' -2 | nothing | return {1, 0, -2} => return {1, 1, -2}
no count
	LOCK=red/30s | latch_look | !HOLDFAST | same |
	if not left then return redis.error_reply => if false then return redis.error_reply
`)
