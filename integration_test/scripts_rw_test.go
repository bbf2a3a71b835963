package integration_test

// Who asks to read.
var rwReadRows = table(`
free, and no write is known
	nothing | rw_read | 1 clock clock clock | LOCK{mode=read u:h7=1}/30s TOKEN=clock/1h READS:u:h7=1/30s |
	call('SET', tokens, last, 'PX', ARGV[3]) =>
free
	TOKEN=5000/20s | rw_read | 1 5000 5000 clock | same LOCK{mode=read u:h7=1}/30s READS:u:h7=1/30s |
	call('SET', lease, '1', 'PX', held[2] and math.max(ms, call('PTTL', lease)) or ms) =>
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
	return {0, place - now, => return {0, 30000,
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
	if rest > 0 then => if rest > 70000 then
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

// Readers and writers that go, and places that are given back.
var rwReleaseRows = table(`
the last reader
	readBy7 LISTEN(rw) | rw_read_release | 1 | TOKEN=5000/20s TOLD(rw:1) |
	else call('DEL', name) end\nif command => end\nif command
the last reader, nobody is told
	readBy7 LISTEN(rw) | rw_read_release by='' | 1 | TOKEN=5000/20s | if command ~= '' then => if true then
free
	nothing | rw_read_release | -1 | nothing | == 0 then return {-1} end => == 0 then end
another reads
	readBy9 | rw_read_release | -1 | same |
	call('HDEL', name, ARGV[1]) == 0 then => call('HDEL', name, ARGV[1]) == 2 then
others read
	readBy79 LISTEN(rw) | rw_read_release | 1 | same -READS:u:h7 LOCK{mode=read u:h9=2}/60s |
	if rest > ends then return {1} end =>
others read, and nobody listens
	LOCK{mode=read u:h9=1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/45s | rw_read_release | 1 |
	LOCK{mode=read u:h9=1}/60s TOKEN=5000/20s | if heard[2] == 0 then return {1} end =>
the others' leases have ended
	LOCK{mode=read u:h9=1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/45s LISTEN(rw) | rw_read_release | 1 |
	TOKEN=5000/20s TOLD(rw:1) | if heard[2] == 0 then return {1} end => if true then return {1} end
the others' leases have ended, by classic channels of a cluster
	LOCK{mode=read u:h9=1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/45s | rw_read_release by=publish | 1 | TOKEN=5000/20s |
	if command ~= 'publish' then => if true then
the owner writes
	bothBy7 LISTEN(rw) | rw_read_release | 1 | LOCK{mode=write u:h7:write=1}/60s TOKEN=5000/20s |
	if not stays then return {1} end => if not stays then stays = 0 end
writer
	writeBy7 LISTEN(rw) | rw_write_release | 1 | same -LOCK TOLD(rw:1) | else\n  call('DEL', name)\nend => end
writer, whom a late attempt gave a place
	LOCK{mode=write u:h8:write=1}/60s TOKEN=5000/20s waits8 LISTEN(rw) | rw_write_release owner=u:h8 | 1 |
	TOKEN=5000/20s TOLD(rw:1) | call('ZREM', KEYS[3], ARGV[1]) -- => --
writer, another waits
	writeBy7 waits8 LISTEN(rw) | rw_write_release | 1 | same -LOCK TOLD(rw:1) |
	local to, text = KEYS[2], '1'\n  local sent => local to, text = KEYS[2], '0'\n  local sent
another writes
	writeBy9 | rw_write_release | -1 | same |
	if call('HEXISTS', name, field) == 0 then => if call('EXISTS', name) == 0 then
the owner goes on reading
	bothBy7 LISTEN(rw) | rw_write_release | 1 | same LOCK{mode=read u:h7=1}/40s TOLD(rw:1) |
	call('PEXPIRE', name, rest) =>
the owner goes on reading, by another name
	LOCK{mode=write u:h7:write=1 u:h8=1}/60s TOKEN=5000/20s READS:u:h8=1/40s LISTEN(rw) | rw_write_release | 1 |
	same LOCK{mode=read u:h8=1}/40s TOLD(rw:1) | lasts(prefix .. owner => lasts(prefix .. ARGV[1]
the owner's lease to read has ended
	LOCK{mode=write u:h7:write=1 u:h7=1}/60s TOKEN=5000/20s LISTEN(rw) | rw_write_release | 1 | same -LOCK TOLD(rw:1) |
	if rest > 0 then\n  call('PEXPIRE' => if rest then\n  call('PEXPIRE'
the last place
	readBy9 waits8 LISTEN(rw) | rw_write_release owner=u:h8 | -1 | same -WRITERS TOLD(rw:1) |
	then tell() end => then end
a place, and another waits
	readBy9 WRITERS(u:h7@3s u:h8@40s)/90s LISTEN(rw) | rw_write_release | -1 | same WRITERS(u:h8@40s)/90s |
	if call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0 then => if true then
the last place that counts
	readBy9 WRITERS(u:h8@-1s u:h7@3s)/90s LISTEN(rw) | rw_write_release | -1 | same WRITERS(u:h8@-1s)/90s TOLD(rw:1) |
	call('ZCOUNT', KEYS[3], '(' .. now, '+inf') == 0 => call('EXISTS', KEYS[3]) == 0
`)

// What stays taken after a write: until u:h07, who has left, is over.
var rwStayRows = table(`
left by the writer
	writeBy7 LISTEN(rw) | rw_leave | 1 | same LOCK{mode=write u:h07:write=till+5s}/5s TOLD(rw:1) |
	call('PEXPIRE', name, math.max(stay, rest, 1)) =>
left by the writer, for longer than is left
	writeBy7 LISTEN(rw) | rw_leave stay=90s | 1 | same LOCK{mode=write u:h07:write=till~60s}/60s |
	stay = math.min(stay, stands) =>
left by the writer who reads
	bothBy7 LISTEN(rw) | rw_leave | 1 | same LOCK{mode=write u:h7=1 u:h07:write=till+5s}/40s TOLD(rw:1) |
	math.max(stay, rest, 1) => math.max(stay, 1)
left by the writer who reads, the end
	bothBy7 | rw_leave | 1 | same LOCK{mode=write u:h7=1 u:h07:write=till+5s}/40s |
	now + stay) => now + math.max(stay, rest))
left by the writer who reads by another name
	LOCK{mode=write u:h7:write=1 u:h8=1}/60s TOKEN=5000/20s READS:u:h8=1/40s | rw_leave | 1 |
	same LOCK{mode=write u:h8=1 u:h07:write=till+5s}/40s |
	lasts(prefix .. owner => lasts(prefix .. ARGV[1]
left before
	LOCK{mode=write u:h07:write=till@40s}/40s TOKEN=5000/20s | rw_leave stay=90s | 1 | same |
	if not ends and call('HEXISTS', name, field) == 0 then => if call('HEXISTS', name, field) == 0 then
left before, for longer
	leftReads7 LISTEN(rw) | rw_leave stay=20s | 1 | same LOCK{mode=write u:h07:write=till+20s u:h7=1}/60s TOLD(rw:1) |
	string.sub(ends, 5) - now => 0
left by somebody who does not write
	readBy7 | rw_leave | -1 | same |
	if not ends and call('HEXISTS', name, field) == 0 then => if not ends and call('EXISTS', name) == 0 then
it stays
	leftReads7 | rw_read owner=u:h9 | 0 ttl:40s 4999 u:h07 | same | stays or pttl => pttl
its stay is over
	overReads7 | rw_read owner=u:h9 | 1 5000 5000 clock | same LOCK{mode=read u:h7=1 u:h9=1}/60s READS:u:h9=1/30s |
	if stays <= 0 then => if false then
its stay is over, and a writer waits
	overReads7 waits8 | rw_read owner=u:h9 | 0 ttl:40s 5000 -2 u:h8 | same LOCK{mode=read u:h7=1}/60s |
	call('HSET', name, 'mode', mode) else => else
its stay is over, and nobody reads
	LOCK{mode=write u:h07:write=till@-1}/60s TOKEN=5000/20s | rw_read owner=u:h9 | 1 5000 5000 clock |
	same LOCK{mode=read u:h9=1}/30s READS:u:h9=1/30s | call('HLEN', name) > 1 and 'read' or nil => 'read'
its stay is over, and its owner reads
	overReads7 | rw_write owner=u:h9 place=0 | 0 ttl:60s '' u:h7 | same LOCK{mode=read u:h7=1}/60s |
	call('HDEL', name, left) =>
its stay is over, and the lease of its owner's read
	LOCK{mode=write u:h07:write=till@-1 u:h7=1}/60s TOKEN=5000/20s | rw_write owner=u:h9 place=0 | 1 clock clock clock |
	LOCK{mode=write u:h9:write=1}/30s TOKEN=clock/1h | if stays <= 0 then => if false then
it stays after the last read
	leftReads7 LISTEN(rw) | rw_read_release | 1 | LOCK{mode=write u:h07:write=till@40s}/40s TOKEN=5000/20s TOLD(rw:1) |
	if ends > 0 then call('PEXPIRE', name, ends) else => if ends > 0 then call('PTTL', name) else
its stay is over at the last read
	overReads7 LISTEN(rw) | rw_read_release | 1 | TOKEN=5000/20s TOLD(rw:1) |
	if not stays then return {1} end => if not stays or stays <= 0 then return {1} end
it stays, and its owner reads on
	leftReads7 | rw_read_renew | 1 | LOCK{mode=write u:h07:write=till@40s u:h7=1}/90s TOKEN=5000/1h READS:u:h7=1/90s |
	if stays <= 0 then => if true then
its stay is over, and its owner reads on
	overReads7 | rw_read_renew | 1 | LOCK{mode=read u:h7=1}/90s TOKEN=5000/1h READS:u:h7=1/90s |
	if stays <= 0 then => if false then
it stays
	leftReads7 | rw_state | 1 write ttl:60s 5000 '' u:h07:write 1 ttl:40s u:h7 1 ttl:60s | same |
	count, left = '1', stays => left = stays
its stay is over
	overReads7 | rw_state | 1 read ttl:60s 5000 '' u:h7 1 ttl:60s | same |
	if stays and stays <= 0 then mode = 'read' end =>
who reads when a stay is over
	overReads7 LISTEN(rw) | rw_force u:h7 | 1 | TOKEN=5000/20s TOLD(rw:1) | if stays <= 0 then => if false then
`)

// Renewals and counts of readers, and what people ask.
var rwOtherRows = table(`
renewed
	readBy79 | rw_read_renew | 1 | same LOCK{mode=read u:h7=1 u:h9=2}/90s TOKEN=5000/1h READS:u:h7=1/90s |
	call('PEXPIRE', name, math.max(ms, call('PTTL', name))) =>
not shortened
	readBy79 | rw_read_renew lease=3s keep=3s | 1 | same | math.max(ms, call('PTTL', KEYS[3])) => ms
counted
	readBy7 | rw_read_renew lease=3s keep=3s count=3 | 1 | same LOCK{mode=read u:h7=3}/60s |
	if ARGV[4] ~= '0' then => if false then
does not read
	writeBy7 | rw_read_renew lease=30s count=1 | -1 | same |
	call('HEXISTS', name, ARGV[1]) == 1 => call('EXISTS', name) == 1
free
	TOKEN=5000/20s waits8 | rw_state | 0 5000 1 | same | '(' .. now, '+inf' => '-inf', '(' .. now
read
	readBy79 WRITERS(u:h8@-1)/90s | rw_state | 1 read ttl:60s 5000 '' u:h7 1 ttl:60s u:h9 2 ttl:45s | same |
	local left = reply[3] => local left = 1 reply[3] = 1
read by one who is alive
	LOCK{mode=read u:h7=1 r:1=2 u:h9=1}/60s TOKEN=5000/20s READS:r:1=1/45s | rw_state | 1 read ttl:60s 5000 '' r:1 2 ttl:45s |
	same | if writes or left > 0 then => if true then
read by nobody who is alive
	LOCK{mode=read u:h7=1 u:h9=1}/60s TOKEN=5000/20s | rw_state | 0 5000 '' | same |
	if mode == 'read' and #reply == 5 then return {0, token, waiting} end =>
written
	bothBy7 | rw_state | 1 write ttl:60s 5000 '' u:h7:write 1 ttl:60s u:h7 1 ttl:40s | same |
	elseif not writes then\n      left = 0 => elseif false then
no read-write lock
	heldByB | rw_state | !HOLDFAST | same | if not known or fields > 1025 then => if fields > 1025 then
a mode of somebody else's
	LOCK{mode=strange a=1}/60s | rw_state | !HOLDFAST | same |
	local known = mode == 'read' or mode == 'write' => local known = mode
two of three
	LOCK{mode=read u:h7=1 u:h9=2 u:h8=1}/60s TOKEN=5000/20s READS:u:h7=1/60s READS:u:h8=1/20s READS:u:h9=1/45s
	  LISTEN(rw) | rw_force u:h7 u:h9 u:h5 | 1 | same -READS:u:h7 -READS:u:h9 LOCK{mode=read u:h8=1}/60s TOLD(rw:1) |
	for n = 1, math.min(count, 16) do => for n = 1, 0 do
all who are alive
	LOCK{mode=read u:h7=1 u:h9=1}/60s TOKEN=5000/20s READS:u:h7=1/60s LISTEN(rw) | rw_force u:h7 | 1 |
	TOKEN=5000/20s TOLD(rw:1) | if rest == 0 then => if call('HLEN', name) == 1 then
all
	LOCK{mode=read r:1=2}/60s TOKEN=5000/20s READS:r:1#2=1/200s LISTEN(rw) | rw_force r:1 | 1 |
	TOKEN=5000/20s TOLD(rw:1) | if rest == 0 then call('DEL', name) end =>
somebody else
	readBy7 LISTEN(rw) | rw_force u:h9 | -1 | same | if found == 0 then => if false then
`)
