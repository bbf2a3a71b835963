package integration_test

// The rows of the scripts for whoever holds the lock, and of those that look at it.

var recountRows = table(`
one more
	heldByA | recount | 1 | same LOCK{a=2}/30s | call('HSET', name, ARGV[1], ARGV[2]) =>
counted already, by a call whose reply was lost
	LOCK{a=3}/10s TOKEN=5000/20s | recount count=3 | 1 | same LOCK{a=3}/30s |
	call('HSET', name, ARGV[1], ARGV[2]) => call('HINCRBY', name, ARGV[1], 1)
one less
	LOCK{a=3}/10s TOKEN=5000/20s | recount count=1 | 1 | same LOCK{a=1}/30s |
	ARGV[1], ARGV[2]) => ARGV[1], math.max(ARGV[2], call('HGET', name, ARGV[1])))
a lease shorter than what is left
	heldByA | recount lease=1s | 1 | same LOCK{a=2}/10s | math.max(tonumber(ARGV[3]), call('PTTL', name)) => ARGV[3]
without a time to live
	LOCK{a=1} | recount | 1 | LOCK{a=2}/30s |
	call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name))) =>
key of another type
	notALock | recount | !WRONGTYPE | same | local held = call => call('PEXPIRE', name, 1000000)\nlocal held = call
`)

var releaseRows = table(`
held
	heldByA | release | 1 | same -LOCK | \ncall('DEL', name) => \n
held, and those who wait are told
	heldByA LISTEN(all) | release | 1 | same -LOCK TOLD(all:0) | redis.pcall(command, to, text) => 1
free, and nobody is told
	LISTEN(all) | release | -1 | nothing | if not held then return {-1} end =>
held, by SPUBLISH or what the server has instead
	heldByA | release by=SPUBLISH | 1 | same -LOCK | \ncall('DEL', name) => \n
held more than once
	LOCK{a=3}/10s TOKEN=5000/20s | release | 1 | same -LOCK |
	\ncall('DEL', name) => \ncall('HINCRBY', name, ARGV[1], -1)
without a time to live
	LOCK{a=1} | release | 1 | nothing | \ncall('DEL', name) => \ncall('PEXPIRE', name, 100000)
`)

var leaveRows = table(`
another's
	heldByB | leave | -1 | same | call('HEXISTS', name, ARGV[1]) == 1 => call('EXISTS', name) == 1
less than is left
	LOCK{u:h7=1}/10s TOKEN=5000/20s | leave | 1 | same LOCK{u:h07=1}/5s | ':h0%1' => ':h%1'
less than is left, and those who wait are told
	LOCK{u:h7=1}/10s TOKEN=5000/20s LISTEN(all) | leave | 1 | same LOCK{u:h07=1}/5s TOLD(all:0) |
	redis.pcall(command, to, text) => 1
more than is left
	LOCK{u:h7=1}/10s TOKEN=5000/20s | leave stay=60s | 1 | same LOCK{u:h07=1}/10s |
	if ends then rest = math.max(ttl, 1) end =>
held more than once
	LOCK{u:h7=3}/10s TOKEN=5000/20s | leave | 1 | same LOCK{u:h07=1}/5s |
	if call('HDEL', name, ARGV[1]) == 0 then call('DEL', name) end =>
left before
	LOCK{u:h07=1}/10s TOKEN=5000/20s | leave stay=60s | 1 | same |
	local again = call('HEXISTS', name, left) == 1 => local again = false
left before, and not lengthened
	LOCK{u:h07=1}/10s TOKEN=5000/20s | leave stay=60s | 1 | same | ttl >= 0 and ttl <= rest => false
left before, for longer
	LOCK{u:h07=1}/10s TOKEN=5000/20s | leave stay=1s | 1 | same LOCK{u:h07=1}/1s |
	if not ends or not again => if not ends and not again
without a time to live
	LOCK{u:h7=1} | leave stay=30s | 1 | LOCK{u:h07=1}/30s | ttl >= 0 and =>
an owner without a number
	heldByA | leave owner=a | 1 | same LOCK{a=1}/5s | if not ends or not again then => if not again then
announced by a command that is refused
	LOCK{u:h7=1}/10s TOKEN=5000/20s | leave by=GET | 1 error | same LOCK{u:h07=1}/5s |
	redis.pcall(command => redis.call(command
announced by a command that is not known
	LOCK{u:h7=1}/10s TOKEN=5000/20s | leave by=NOSUCH | 1 | same LOCK{u:h07=1}/5s |
	sent = redis.pcall('PUBLISH', to, text) =>
key of another type
	notALock | leave | !WRONGTYPE | same | local again = call => call('PEXPIRE', name, 1000000)\nlocal again = call
the first who waits is told to ask
	LOCK{u:h7=1}/10s ORDER[d:h1 e:h1]/60s LISTEN(all d e) | leave_queue | 1 | same LOCK{u:h07=1}/5s TOLD(all:0 d:h1/-) |
	KEYS[3], 0 => KEYS[3], 1
the first who waits is Redisson's
	LOCK{u:h7=1}/10s ORDER[r:7 e:h1]/60s LISTEN(e) | leave_queue | 1 | same LOCK{u:h07=1}/5s | KEYS[3], 0 => KEYS[3], 1
the queue is none
	LOCK{u:h7=1}/10s ORDER=text/60s | leave_queue | 1 | same LOCK{u:h07=1}/5s | redis.pcall('LINDEX' => redis.call('LINDEX'
`)

var takenRows = table(`
nobody has had it
	TOKEN=5000/20s | taken | 1 5000 '' | same | fields > => fields >=
no token known
	nothing | taken | 1 0 '' | nothing | or '0' => or ''
another has it
	heldByB | taken | 1 5000 1 | same | fields > => fields > 1 +
its own field, and that of the mode
	LOCK{mode=read a=1}/10s TOKEN=5000/20s | taken | 1 5000 '' | same | + redis.call('HEXISTS', KEYS[2], ARGV[1]) =>
somebody else reads
	LOCK{mode=read b=1}/10s TOKEN=5000/20s | taken | 1 5000 1 | same | fields > => fields > 1 +
no hash
	notALock | taken | 1 0 1 | same | type(fields) == 'table' or fields => type(fields) ~= 'table' and fields
several may have it
	heldByB | taken_shared | 1 5000 '' | same | if KEYS[2] then => if not KEYS[2] then others = true elseif KEYS[2] then
token of another type
	TOKEN[x]/20s | taken | !WRONGTYPE | same | redis.call('GET', KEYS[1]) => redis.pcall('GET', 'x')
`)

var renewRows = table(`
free, the token is not kept for nobody
	TOKEN=5000/20s | renew | -1 | same |
	if not held then return => if not held then call('PEXPIRE', KEYS[2], ARGV[3]) return
held
	LOCK{a=3}/10s TOKEN=5000/20s | renew | 1 | LOCK{a=3}/30s TOKEN=5000/1h | call('PEXPIRE', name, lease) =>
the token is kept
	heldByA | renew | 1 | LOCK{a=1}/30s TOKEN=5000/1h | call('PEXPIRE', KEYS[2], ARGV[3]) =>
a lease shorter than what is left
	heldByA | renew lease=1s | 1 | same | if call('PTTL', name) < lease then => if true then
without a time to live
	LOCK{a=1} TOKEN=5000 | renew | 1 | LOCK{a=1}/30s TOKEN=5000/1h |
	if call('PTTL', name) < lease then => local ttl = call('PTTL', name)\nif ttl >= 0 and ttl < lease then
no token is made
	LOCK{a=1}/10s | renew | 1 | LOCK{a=1}/30s |
	call('PEXPIRE', KEYS[2], ARGV[3]) => call('SET', KEYS[2], '1', 'PX', ARGV[3])
key of another type
	notALock | renew | !WRONGTYPE | same | local held = call => call('PEXPIRE', name, lease)\nlocal held = call
`)

var stateRows = table(`
free, no token known
	nothing | state | 0 0 | nothing | or '0' => or ''
free
	TOKEN=5000/20s | state | 0 5000 | same | return {0, token} => return {0, '0'}
held
	LOCK{a=3}/10s TOKEN=5000/20s | state | 1 a 3 ttl:10s 5000 | same | hash[1], hash[2] => hash[2], hash[1]
held, no token known
	LOCK{a=1}/10s | state | 1 a 1 ttl:10s 0 | same | or '0' =>
held without a time to live
	LOCK{a=1} TOKEN=5000 | state | 1 a 1 -1 5000 | same |
	redis.call('PTTL', KEYS[1]) => redis.call('TTL', KEYS[2]) - 1
key of another type
	notALock | state | !WRONGTYPE | same |
	local fields => if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return {0, token} end\nlocal fields
token of another type
	TOKEN[x]/20s | state | !WRONGTYPE | same | redis.call('GET', KEYS[2]) or '0' => '0'
`)

var manyRows = table(`
many fields
	fields129 | state | !HOLDFAST | same | fields > 128 => fields > 129
many fields
	fields129 | fair_state | !HOLDFAST | same | n > look then return n => n > look + 1 then return n
many fields
	fields129 | vote | 0 ttl:10s error 0 clock | same | fields .. ' fields' => ''
as many fields as are looked at
	fields128 | vote | 0 ttl:10s error 0 clock | same | fields > 128 and fields .. ' fields' => fields > 127 and ''
many fields
	fields129 | fair_poll | 1 ttl:10s clock error '' '' '' | same | return n .. ' fields' => return
many fields
	fields129 | fair_acquire owner=a:h1 place=15s | 0 ttl:10s clock 1 129 | same WAITING(a:h1+15s)/3615s |
	if fields > 4 then => if false then
`)

// By sharded pub/sub, which servers have since version 7: who listens by it is counted, and told.
var shardedRows = table(`
held, and those who wait are told
	heldByA LISTEN(shard:all) | release by=SPUBLISH | 1 | same -LOCK TOLD(shard:all:0) |
	redis.pcall(command, to, text) => redis.pcall('PUBLISH', to, text)
free, and nobody is told
	LISTEN(shard:all) | release by=SPUBLISH | -1 | nothing | if not held then return {-1} end =>
others listen: released
	heldByA LISTEN(shard:all) | pass by=SPUBLISH | 0 1 | same -LOCK TOLD(shard:all:0) |
	ARGV[4] == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB' => 'NUMSUB'
nobody listens
	heldByA LISTEN(all) | pass by=SPUBLISH | 1 clock last:16 | same LOCK{a=1}/30s TOKEN=last/1h |
	ARGV[4] == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB' => 'NUMSUB'
held, the second waiter listens
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s LISTEN(shard:e) | fair_release by=SPUBLISH | 1 |
	LOCK{e:h1=1}/1s TOKEN=clock/1h WAITING(d:h1@60s e:h1!+1s)/8000s TOLD(shard:e:h1/1000) |
	command == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB' => 'NUMSUB'
`)

// A server that does not know SPUBLISH takes PUBLISH, and cannot tell who listens: it takes it that everybody does.
var unshardedRows = table(`
others may listen: released
	heldByA LISTEN(all) | pass by=SPUBLISH | 0 -1 | same -LOCK TOLD(all:0) | counted[2] or -1 => counted[2] or 0
held, the first waiter may listen
	heldByC WAITING(d:h1@60s e:h1@60s)/8000s LISTEN(e) | fair_release by=SPUBLISH | 1 |
	LOCK{d:h1=1}/1s TOKEN=clock/1h WAITING(e:h1@60s d:h1!+1s)/8000s | return counted[2] => return counted[2] or 0
held, the waiter listens
	heldByC WAITING(e:h1@60s)/8000s LISTEN(e) | fair_release by=SPUBLISH | 1 |
	LOCK{e:h1=1}/1s TOKEN=clock/1h ENDS(e:h1!+1s)/8000s TOLD(e:h1/1000) | sent = redis.pcall('PUBLISH', to, text) =>
`)

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
the token's key holds something else
	LOCK{a=1}/10s TOKEN=ten | force | !HOLDFAST | same | if not n or n >= 9007199254740991 then => if false then
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
