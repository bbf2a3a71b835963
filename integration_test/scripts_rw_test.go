package integration_test

// Who asks to read.
var rwReadRows = table(`
free, and no write is known
	nothing | rw_read | 1 clock clock clock | LOCK{mode=read u:h7=1}/30s TOKEN=clock/1h READS:u:h7=1/30s |
	call('SET', tokens, last, 'PX', ARGV[3]) =>
free
	TOKEN=5000/20s | rw_read | 1 5000 5000 clock | same LOCK{mode=read u:h7=1}/30s READS:u:h7=1/30s |
	call('SET', lease, '1', 'PX', held[2] and math.max(ms, call('PTTL', lease)) or ms) =>
too late
	nothing | rw_read until=1000000000000000 | -2 clock | nothing | then return {-2, clock} end => then end
others read
	readBy9 | rw_read lease=15s | 1 5000 5000 clock | same LOCK{mode=read u:h9=1 u:h7=1}/60s READS:u:h7=1/15s |
	math.max(left, ms) => ms
others read, with less left
	readBy9 | rw_read lease=90s | 1 5000 5000 clock | same LOCK{mode=read u:h9=1 u:h7=1}/90s READS:u:h7=1/90s |
	if left >= 0 then => if left < 0 then
repeated
	readBy7 | rw_read | 1 5000 5000 clock | same | held[2] and math.max(ms, call('PTTL', lease)) or ms => ms
repeated, after a re-entry
	readBy79 | rw_read owner=u:h9 lease=90s | 1 5000 5000 clock |
	same LOCK{mode=read u:h7=1 u:h9=2}/90s READS:u:h9=1/90s | owner, held[2] or '1') => owner, '1')
another writes
	writeBy9 | rw_read | 0 ttl:60s 4999 u:h9 | same | if mode ~= 'read' and not held[3] then => if false then
another writes, still
	writeBy9 | rw_read ticket=4000 | 0 ttl:60s 4000 u:h9 | same |
	local ticket = ARGV[5] ~= '' and ARGV[5] or => local ticket =
the owner writes
	writeBy7 | rw_read | 1 5000 5000 clock | same LOCK{mode=write u:h7:write=1 u:h7=1}/60s READS:u:h7=1/30s |
	mode or 'read' => 'read'
the owner writes, by another name
	writeBy7 | rw_read owner=u:h8 writes=u:h7 | 1 5000 5000 clock |
	same LOCK{mode=write u:h7:write=1 u:h8=1}/60s READS:u:h8=1/30s | (ARGV[6] ~= '' and ARGV[6] or owner) => owner
the owner writes, and another waits
	writeBy7 waits8 | rw_read | 1 5000 5000 clock | same LOCK{mode=write u:h7:write=1 u:h7=1}/60s READS:u:h7=1/30s |
	not held[2] and not held[3] and => not held[2] and
a writer waits
	readBy9 waits8 | rw_read | 0 ttl:40s 5000 -2 u:h8 | same |
	if writer then return {0, place => if false then return {0, place
a writer waits for a free lock
	TOKEN=5000/20s waits8 | rw_read | 0 ttl:40s 5000 -2 u:h8 | same |
	if not held[2] and not held[3] and ( => if mode and not held[2] and not held[3] and (
a writer waits, and the owner reads
	readBy9 waits8 | rw_read owner=u:h9 | 1 5000 5000 clock | same |
	not held[2] and not held[3] and => not held[3] and
a writer waited, and is gone
	readBy9 WRITERS(u:h8@-1)/90s | rw_read | 1 5000 5000 clock |
	same LOCK{mode=read u:h9=1 u:h7=1}/60s READS:u:h7=1/30s | tonumber(last[2]) > now => true
a writer waits, the one of the ticket has written
	readBy9 waits8 | rw_read ticket=4999 | 1 5000 5000 clock | same LOCK{mode=read u:h9=1 u:h7=1}/60s READS:u:h7=1/30s |
	tonumber(last or 0) <= tonumber(ARGV[5]) => true
a writer waits, the one of the ticket has not written
	readBy9 waits8 | rw_read ticket=5000 | 0 ttl:40s 5000 -2 u:h8 | same |
	tonumber(last or 0) <= tonumber(ARGV[5]) => tonumber(last or 0) < tonumber(ARGV[5])
a lock of another kind
	heldByB | rw_read | 0 ttl:10s 4999 b | same | if fields > 0 then => if fields > 0 and mode then
many fields
	fields129 | rw_read | 0 ttl:10s 0 129 | same |
	if fields > 128 then return {0, pttl, ticket, fields} => if fields > 128 then return {0, pttl, ticket}
no hash
	notALock | rw_read | !WRONGTYPE | same | local held = call('HMGET' => call('DEL', name)\nlocal held = call('HMGET'
a token that is none
	TOKEN=x/20s | rw_read | !HOLDFAST | same | if last and string.find(last, '%D') then => if false then
`)

// Who asks to write.
var rwWriteRows = table(`
free
	nothing | rw_write | 1 clock clock clock | LOCK{mode=write u:h7:write=1}/30s TOKEN=clock/1h |
	local limited = redis.pcall('PEXPIRE', name, lease) => local limited = 1
too late
	nothing | rw_write until=1000000000000000 | -2 clock | nothing | then return {-2, clock} end => then end
free, the token is ahead of the clock
	TOKEN=9000000000000000/20s | rw_write | 1 9000000000000001 9000000000000001 clock |
	LOCK{mode=write u:h7:write=1}/30s TOKEN=9000000000000001/1h |
	math.max(n + 1, tonumber(token)) => math.max(n, tonumber(token))
free, after it has waited
	TOKEN=5000/20s waits8 | rw_write owner=u:h8 | 1 clock clock clock |
	LOCK{mode=write u:h8:write=1}/30s TOKEN=clock/1h | redis.pcall('ZREM', writers, owner) -- a place => -- a place
another writes
	writeBy9 | rw_write | 0 ttl:60s '' u:h9 | same WRITERS(u:h7+5s)/5s |
	call('ZADD', writers, now + ARGV[6], owner) =>
another writes, and the owner does not wait
	writeBy9 | rw_write place=0 | 0 ttl:60s '' u:h9 | same |
	if ARGV[6] ~= '0' then => if true then local ARGV = {0, 0, 0, 0, 0, 5000}
another writes, and has left
	LOCK{mode=write u:h09:write=till@40s}/60s | rw_write place=0 | 0 ttl:40s '' u:h09 | same | stays or pttl => pttl
another waits, too
	writeBy9 waits8 | rw_write | 0 ttl:60s '' u:h9 | same WRITERS(u:h7+5s u:h8@40s)/90s |
	call('ZADD', writers, now => call('DEL', writers) call('ZADD', writers, now
another reads
	readBy9 | rw_write | 0 ttl:60s '' u:h9 | same WRITERS(u:h7+5s)/5s |
	if rest > 0 then blocked => if rest > 70000 then blocked
the owner reads
	readBy7 | rw_write place=0 | 0 ttl:60s '' u:h7 | same |
	if mode == 'read' then => if mode == 'read' and call('HEXISTS', name, owner) == 0 then
one read whose lease has ended
	LOCK{mode=read u:h9=1}/60s TOKEN=5000/20s | rw_write | 1 clock clock clock |
	LOCK{mode=write u:h7:write=1}/30s TOKEN=clock/1h | if dead then call('DEL', name) end =>
one of two is alive, the one with less left
	LOCK{mode=read u:h9=1 u:h8=1}/60s TOKEN=5000/20s READS:u:h8=1/20s | rw_write place=0 | 0 ttl:20s '' u:h8 | same |
	blocked = {0, rest, => blocked = {0, call('PTTL', name),
one of Redisson's reads by its second hold
	LOCK{mode=read r:1=2}/60s TOKEN=5000/20s READS:r:1#2=1/200s | rw_write place=0 | 0 ttl:200s '' r:1 | same |
	or tonumber(hash[i + 1]) or 0 => or 1
repeated
	writeBy7 | rw_write again=1 | 1 5000 5000 clock | same | if mine and last then => if false then
repeated, with more left
	writeBy7 | rw_write lease=3s again=1 | 1 5000 5000 clock | same | if call('PTTL', name) < ms then => if true then
its own, and not repeated
	writeBy7 | rw_write place=0 | 0 ttl:60s '' u:h7 | same | ARGV[4] == '1' and =>
a lock of another kind
	heldByB | rw_write place=0 | 0 ttl:10s '' b | same | if fields > 0 then => if fields > 0 and mode then
no hash
	notALock | rw_write place=0 | !WRONGTYPE | same |
	local mode, field = call( => call('DEL', name)\nlocal mode, field = call(
a token that is none
	LOCK{mode=read u:h9=1}/60s TOKEN=x/20s | rw_write place=0 | !HOLDFAST | same |
	if last and (#last => if false and (#last
`)
