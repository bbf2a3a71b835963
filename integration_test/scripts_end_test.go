package integration_test

// The rows of those who put an end to another's lock, and of the look at everything.

// At one of several masters.
var forceRows = table(`
held
	heldByA | force | 1 | TOKEN=clock/1h | call('DEL', name) =>
held, and the holder would take it back
	heldByA | force by=SPUBLISH | 1 | TOKEN=clock/1h | call('SET', tokens, token, => call('SET', tokens, last,
held, the last token is ahead of the clock
	LOCK{a=1}/10s TOKEN=8999999999999999/20s | force | 1 | TOKEN=9000000000000000/1h | n + 1 => n
free, another master's token is ahead of the clock
	nothing | force seen=8999999999999999 | -1 | TOKEN=9000000000000000/1h |
	token = string.format('%.0f', tonumber(most) + 1) =>
held, the token is kept for longer
	LOCK{a=1}/10s TOKEN=5000/2h | force | 1 | TOKEN=clock/2h |
	math.max(tonumber(ARGV[3]), call('PTTL', tokens)) => ARGV[3]
free, and the holder might ask here too
	nothing | force | -1 | TOKEN=clock/1h | if not held and call('HLEN', name) > 0 then => if not held then
another's
	heldByB | force | -1 | same | if not held and call('HLEN', name) > 0 then return {-1} end =>
another's, and not the owner's
	heldByB | force | -1 | same | call('HEXISTS', name, ARGV[1]) => call('EXISTS', name)
the token's key holds something else
	LOCK{a=1}/10s TOKEN=ten | force | !HOLDFAST | same | if not n or n >= 9007199254740991 then => if false then
key of another type
	notALock | force | !WRONGTYPE | same | local held = call => call('DEL', name)\nlocal held = call
`)

var forceOwnerRows = table(`
free
	TOKEN=5000/20s | force_owner | -1 5000 | same | if fields == 0 then => if false then
free, no token known
	nothing | force_owner | -1 0 | nothing |
	call('GET', tokens) or '0', call('HLEN', name) => call('GET', tokens) or '', call('HLEN', name)
another's
	heldByB LISTEN(all) | force_owner | 0 5000 b | same | if call('HEXISTS', name, owner) == 0 or => if
another grant
	heldByC LISTEN(all) | force_owner token=4999 | 0 5000 c:h1 | same | or ARGV[5] ~= '' and ARGV[5] ~= last =>
it waits, and keeps its place
	heldByC WAITING(d:h1@60s)/8000s | force_owner owner=d:h1 | 0 5000 c:h1 | same |
	if call('HEXISTS', name, owner) == 0 or => if
of several owners
	LOCK{mode=read c:h1=1}/10s TOKEN=5000/20s | force_owner | 0 5000 mode | same |
	or call('HEXISTS', name, 'mode') == 1 =>
held, nobody waits
	heldByC LISTEN(all) | force_owner token=5000 | 1 | TOKEN=clock/1h TOLD(all:0) |
	untold = publish(command, channel, '0') => untold = publish(command, channel, '1')
held without a time to live, and no token known
	LOCK{c:h1=2} | force_owner | 1 | TOKEN=clock/1h | \ncall('DEL', name)\n => \n
a waiter listens
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s LISTEN(c d e) | force_owner | 1 |
	LOCK{d:h1=1}/1s TOKEN=run/1h WAITING(e:h1@60s d:h1!+1s)/8000s TOLD(d:h1/1000) |
	local wrong, untold = grant(command, tonumber(ARGV[3]), keep) => local wrong, untold
the token is kept for longer
	LOCK{c:h1=1}/10s TOKEN=5000/2h | force_owner | 1 | TOKEN=clock/2h |
	math.max(tonumber(keep), call('PTTL', tokens)) => keep
a token is used up
	LOCK{c:h1=1}/10s TOKEN=8999999999999999/20s | force_owner token=8999999999999999 | 1 | TOKEN=9000000000000000/1h |
	call('SET', tokens, token, 'PX', math.max => call('SET', tokens, last, 'PX', math.max
a leader
	heldByC SAID="5000 c:h1 v"/50s LISTEN(observers) | force_owner | 1 | TOKEN=clock/1h TOLD(observers:0) |
	if said then call('DEL', KEYS[6]) end =>
the token's key holds something else
	LOCK{c:h1=1} TOKEN=ten | force_owner | !HOLDFAST | same |
	if refused then return refused end\nredis => token = 1\nredis
key of another type
	notALock | force_owner | !WRONGTYPE | same |
	local last, fields = call => call('DEL', name)\nlocal last, fields = call
`)

// One writer, and the permits of one owner.
var forceOthersRows = table(`
it writes
	writeBy7 waits8 LISTEN(rw) | rw_force_writer token=5000 | 1 | same -LOCK TOLD(rw:1) |
	if ARGV[3] ~= '' => if ARGV[3] == '5000'  or ARGV[3] ~= ''
another grant
	writeBy7 LISTEN(rw) | rw_force_writer token=4999 | 0 5000 | same |
	if ARGV[3] ~= '' and ARGV[3] ~= last then return {0, last} end =>
it waits, and keeps its place
	writeBy9 waits8 LISTEN(rw) | rw_force_writer owner=u:h8 | -1 5000 | same | return {-1, last} =>
it has permits
	twoBy7 LISTEN(permits) | sem_force token=5000 | 1 | same -PERMITS LOCK=3/60s TOLD(permits:3) |
	if n == 0 or call('ZREM', permits, owner .. '/2') == 0 then return n end => if true then return n end
another grant
	twoBy7 LISTEN(permits) | sem_force token=4999 | 0 5000 | same |
	if ARGV[6] ~= '' and ARGV[6] ~= last then return {0, last} end =>
it waits, and keeps its place
	threeBy9 line8wide | sem_force owner=u:h8 | -1 5000 | same | return {-1, last} =>
its lease has ended
	endedBy9 | sem_force owner=v:h9 | -1 5000 | same |
	or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) =>
`)

// What the lists have is looked at by the tests of package inspect, on all servers too.
var inspectRows = table(`
nothing
	nothing | inspect | 1 clock none -2 | nothing | call('PTTL', name), size => 0, size
held
	heldByB | inspect | 1 clock hash ttl:10s 1 '' 5000 | same |
	call('GETRANGE', KEYS[2], 0, 31) => call('GETRANGE', KEYS[2], 0, 1)
a number
	LOCK=37/60s | inspect numsub='' | 1 clock string ttl:60s 2 | same | call('STRLEN', name) => 1
another spelling
	TAGGED{b=1} | inspect | 1 clock none -2 '' '' '' 1 | same | call('EXISTS', KEYS[11]) => 0
keys of other types
	LOCK[x] TOKEN[x] ORDER=x ENDS=x SAID{a=1} WRITERS=x PERMITS=x LINE=x | inspect | 1 clock list -1 | same |
	return kind == wanted => return kind ~= 'none'
`)
