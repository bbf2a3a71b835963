package integration_test

// The rows of acquire.lua, with its ways of beginning and ending.

// A lock that is asked for. Rows with a block of tokens are below.
var acquireRows = table(`
free, in time
	nothing | acquire block=1 until=9000000000000000 | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	limit < clock) => limit > clock)
free, in time by more digits
	nothing | acquire block=1 until=10000000000000000 | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	#limit == #clock and =>
free, too late
	nothing | acquire block=1 until=1000000000000000 | -2 clock | nothing | then return {-2, clock} end => then end
free, the server's clock is not known
	nothing | acquire block=1 until=0 | -2 clock | nothing | then return {-2, clock} end => then end
too late, by fewer digits
	nothing | acquire block=1 until=999999999999999 | -2 clock | nothing | #limit < #clock or =>
the owner's own, repeated call that comes too late
	heldByA | acquire again=1 block=1 until=1000000000000000 | -2 clock | same |
	then return {-2, clock} end => then end
free
	nothing | acquire | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h | redis.pcall('PEXPIRE', name, lease) => 1
free, a repeated call whose first attempt did not run
	nothing | acquire again=1 | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	call('SET', tokens, last, 'PX', ARGV[3]) => call('SET', tokens, last)
free again after a lease has ended
	LOCK{b=1}/0 TOKEN=5000/20s | acquire | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	call('HSET', name, owner, '1') => call('HSET', name, owner, '2')
clock ahead of the token
	TOKEN=1000000000000000/20s | acquire | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	local token, block = clock, => local token, block = '1000000000000000',
token ahead of the clock
	TOKEN=9000000000000000/20s | acquire | 1 9000000000000001 9000000000000001 clock |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | math.max(n + 1, => math.max(n,
token shorter than the clock's, and greater as text
	TOKEN=9/20s | acquire | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h | math.max(n + 1, tonumber(token)) => n + 1
greatest token
	TOKEN=9007199254740990/20s | acquire | 1 9007199254740991 9007199254740991 clock |
	LOCK{a=1}/30s TOKEN=9007199254740991/1h | string.format('%.0f', math => tostring(math
token without a time to live
	TOKEN=9000000000000000 | acquire | 1 9000000000000001 9000000000000001 clock |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | 'PX', ARGV[3]) => 'KEEPTTL')
token of another type
	TOKEN[x]/20s | acquire | !WRONGTYPE | same | else\n => else\n  call('HSET', name, owner, '1')\n
another's
	heldByB | acquire | 0 ttl:10s b | same |
	return {0, call('PTTL', name), hash[1] => local _ = {0, call('PTTL', name), hash[1]
another's, without a time to live
	LOCK{b=1} | acquire | 0 -1 b | same |
	return {0, call('PTTL', name), hash[1] => return {0, math.max(0, call('PTTL', name)), hash[1]
four fields
	LOCK{b=1 c=2 d=3 e=4} | acquire | 0 -1 b c d e | same | hash[1], hash[3] => hash[1], hash[2]
five fields
	LOCK{b=1 c=2 d=3 e=4 f=5} | acquire | 0 -1 5 | same | and 'mode' or fields => and 'mode' or 4
five fields of a lock of another kind
	LOCK{b=1 c=2 mode=3 e=4 f=5} | acquire | 0 -1 mode | same | call('HEXISTS', name, 'mode') == 1 => false
another's, repeated call
	heldByB | acquire again=1 | 0 ttl:10s b | same | or call('HEXISTS', name, owner) == 0 =>
the owner's own, by an earlier call
	heldByA | acquire | 0 ttl:10s a | same | ARGV[4] ~= '1' or =>
the owner's own, repeated call
	heldByA | acquire again=1 | 1 5000 5000 clock | same LOCK{a=1}/30s |
	then call('PEXPIRE', name, lease) end => then end
the owner's own, re-entered since, repeated call that comes late
	LOCK{a=3}/10s TOKEN=5000/20s | acquire again=1 | 1 5000 5000 clock | same LOCK{a=3}/30s |
	return {1, last, last, clock} => call('HSET', name, owner, '1')\n    return {1, last, last, clock}
the owner's own without a time to live, repeated call
	LOCK{a=1} TOKEN=5000/20s | acquire again=1 | 1 5000 5000 clock | same LOCK{a=1}/30s |
	then call('PEXPIRE', name, lease) end => then end
the owner's own with more left, repeated call
	heldByA | acquire lease=1s again=1 | 1 5000 5000 clock | same |
	if call('PTTL', name) < tonumber(lease) then => if true then
the owner's own without a token, repeated call
	LOCK{a=1}/10s | acquire again=1 | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	if last then => if true then\n    last = last or '0'
token that is not a number by name
	TOKEN=nan/20s | acquire | !HOLDFAST | same | local n = not string.find(last, '%D') and => local n =
`)

// The same for a block of tokens.
var blockRows = table(`
free
	nothing | acquire block=16 | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	tonumber(token) + block - 1 => tonumber(token) + block
free, the key has the last of the block
	TOKEN=1000000000000000/20s | acquire block=16 | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	call('SET', tokens, last, => call('SET', tokens, token,
free, a block of one
	nothing | acquire block=1 | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h | if block > 1 then return => if true then return
the clock is behind the last token: one
	TOKEN=9000000000000000/20s | acquire block=16 | 1 9000000000000001 9000000000000001 clock |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | if n >= tonumber(token) then block = 1 end =>
the clock is ahead of a token that is greater as text
	TOKEN=9/20s | acquire block=16 | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	if n >= tonumber(token) then block = 1 end => block = 1
the owner's own, repeated call: the last of the first attempt's
	heldByA | acquire again=1 block=16 | 1 5000 5000 clock | same LOCK{a=1}/30s |
	return {1, last, last, clock} => return {1, last, last}
the owner's own without a token, repeated call: a new block
	LOCK{a=1}/10s | acquire again=1 block=16 | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	last = block > 1 and => last = false and
another's: nothing is reserved
	heldByB | acquire block=16 | 0 ttl:10s b | same | local hash = => call('INCRBY', tokens, 16)\n    local hash =
another's, repeated call
	heldByB | acquire again=1 block=16 | 0 ttl:10s b | same | or call('HEXISTS', name, owner) == 0 =>
`)

// A lock whose owner's client wants to be called, by PUBLISH.
var recallRows = table(`
another's, which is called
	LOCK{c:k7=1}/10s TOKEN=5000/20s LISTEN(c all) | acquire owner=a:k1 | 0 ttl:10s c:k7 | same TOLD(c:1) |
	.. id, '1' => .. id, '2'
another's, which cannot be called so
	LOCK{c:h7=1}/10s TOKEN=5000/20s LISTEN(c) | acquire owner=a:k1 | 0 ttl:10s c:h7 | same |
	:([ks])%d+$ => :([ksh])%d+$
another's of the same client
	LOCK{c:k7=1}/10s TOKEN=5000/20s LISTEN(c) | acquire owner=c:k1 | 0 ttl:10s c:k7 | same |
	if id and string.sub(owner, 1, #id) ~= id then => if id then
`)

// Who needs a head start, and who has given one.
var startRows = table(`
another's: a head start is needed
	heldByB | head_start | 0 ttl:10s b | same CHANNEL=60/11s | math.max(call('PTTL', name), 0) + 1000 => 100000
another's, another needs less
	heldByB CHANNEL=30/5s | head_start | 0 ttl:10s b | same CHANNEL=60/11s |
	(tonumber(start) or 0) <= tonumber(ARGV[7]) => false
another's, another needs more
	heldByB CHANNEL=30/5s | head_start start=20 ends=20 | 0 ttl:10s b | same |
	(tonumber(start) or 0) <= tonumber(ARGV[7]) => true
another's, who is near needs none
	heldByB | head_start start=0 | 0 ttl:10s b | same | KEYS[3] and ARGV[7] ~= '0' => KEYS[3]
another's, one that is no number
	heldByB CHANNEL=text/5s | head_start | 0 ttl:10s b | same CHANNEL=60/11s |
	(tonumber(start) or 0) <= tonumber(ARGV[7]) => tonumber(start) <= tonumber(ARGV[7])
free, another needs more
	CHANNEL=30/5s | head_start start=20 ends=20 | 1 clock | same LOCK{a=1}/30s TOKEN=clock/1h |
	(tonumber(start) or 0) <= tonumber(ARGV[8]) => true
free, the key is of another type
	CHANNEL[x]/5s | head_start start=20 ends=20 | 1 clock | same LOCK{a=1}/30s TOKEN=clock/1h |
	local start = redis.pcall('GET', KEYS[3])\n  if => local start = redis.call('GET', KEYS[3])\n  if
others listen, and one is far away
	heldByA CHANNEL=30/5s LISTEN(all) | pass | 0 1 '' 30 | same -LOCK TOLD(all:0) |
	return {0, heard, '', tonumber(start) or 0} => return {0, heard}
others listen, and a head start is no number
	heldByA CHANNEL=text/5s LISTEN(all) | pass | 0 1 '' '' | same -LOCK TOLD(all:0) | tonumber(start) or 0} => start}
nobody listens any more
	heldByA CHANNEL=30/5s | pass | 1 clock last:16 | same LOCK{a=1}/30s TOKEN=last/1h |
	if heard ~= 0 then => if true then
`)

// Beside other libraries, whose locks are strings.
var besideRows = table(`
a string
	LOCK=other/10s TOKEN=5000/20s | acquire_beside | 0 ttl:10s -1 | same | type(stands) == 'string' => false
a string without an end
	LOCK=other | acquire_beside | 0 -1 -1 | same | redis.call('PTTL', KEYS[1]), -1 => 0, -1
a string, and a repeated attempt
	LOCK=other/10s | acquire_beside again=1 | 0 ttl:10s -1 | same |
	redis.pcall('GET', KEYS[1]) => redis.pcall('GET', KEYS[2])
something else than a string
	LOCK[x]/10s | acquire_beside | !WRONGTYPE | same | type(stands) == 'string' => true
another's
	heldByB | acquire_beside | 0 ttl:10s b | same |
	if type(stands) == 'table' then => if stands ~= 0 then return {0, redis.call('PTTL', KEYS[1]), -1} end\nif false
	  then
free
	nothing | acquire_beside | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	call('HSET', name, owner, '1') => call('HSET', name, owner, '2')
a string: a head start is not needed
	LOCK=other/10s | head_start_beside | 0 ttl:10s -1 | same | type(stands) == 'string' => false
`)

// What becomes of votes.
var voteRows = table(`
free
	nothing | vote | 1 6000 '' 0 clock | LOCK{a=1}/30s TOKEN=6000/1h |
	local limited = redis.pcall('PEXPIRE', name, lease) => local limited = 1
free again after a lease has ended
	LOCK{b=1}/0 TOKEN=5000/20s | vote | 1 6000 '' 5000 clock | LOCK{a=1}/30s TOKEN=6000/1h |
	call('HSET', name, owner, ARGV[4]) => call('HSET', name, owner, '2')
another's
	heldByB | vote | 0 ttl:10s b 5000 clock | same | call('HKEYS', name)[1] => owner
another's, for so long
	heldByB | vote | 0 ttl:10s b 5000 clock | same | {0, call('PTTL', name), => {0, 30000,
another's, is not taken
	heldByB | vote | 0 ttl:10s b 5000 clock | same | call('HEXISTS', name, owner) == 0 => false
another's, without a time to live
	LOCK{b=1} | vote | 0 -1 b 0 clock | same | {0, call('PTTL', name), => {0, math.max(1, call('PTTL', name)),
another's, and its token
	heldByB | vote | 0 ttl:10s b 5000 clock | same | call('GET', tokens) or '0', clock} => '0', clock}
another's, whose token was evicted
	LOCK{b=1}/10s | vote | 0 ttl:10s b 0 clock | same |
	call('GET', tokens) or '0', clock} => call('GET', tokens), clock}
another's, whose token is of another type
	LOCK{b=1}/10s TOKEN[x]/20s | vote | !WRONGTYPE | same | call('GET', tokens) or '0', clock} => '0', clock}
key of another type
	notALock | vote | !WRONGTYPE | same | local held = call('HLEN', name) > 0 => call('DEL', name)\nlocal held = false
the owner's own, its count
	heldByA | vote count=2 token=5000 | 1 5000 1 '' clock | LOCK{a=2}/30s TOKEN=5000/1h |
	call('HSET', name, owner, ARGV[4]) => call('HSET', name, owner, '1')
the owner's own, its count goes down
	LOCK{a=3}/10s TOKEN=5000/20s | vote token=5000 | 1 5000 1 '' clock | LOCK{a=1}/30s TOKEN=5000/1h |
	call('HSET', name, owner, ARGV[4]) => if not held then call('HSET', name, owner, ARGV[4]) end
the owner's own, repeated vote
	heldByA | vote token=5000 | 1 5000 1 '' clock | LOCK{a=1}/30s TOKEN=5000/1h |
	if held then return {1, token, 1, '', clock} end =>
the owner's own, with less left
	heldByA | vote token=5000 | 1 5000 1 '' clock | LOCK{a=1}/30s TOKEN=5000/1h |
	call('PEXPIRE', name, lease) -- => --
the owner's own, with more left
	heldByA | vote lease=1s token=5000 | 1 5000 1 '' clock | same TOKEN=5000/1h |
	math.max(tonumber(lease), call('PTTL', name)) => lease
the owner's own, without a time to live
	LOCK{a=1} TOKEN=5000 | vote token=5000 | 1 5000 1 '' clock | LOCK{a=1}/30s TOKEN=5000/1h |
	call('PEXPIRE', name, lease) -- => --
`)

// What becomes of proposals above the server's clock.
var voteClockRows = table(`
above what a token can be
	nothing | vote token=9007199254740992 | 1 clock '' 0 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	then token = clock end => then end
years above the clock
	nothing | vote token=9000000000000000 | 1 clock '' 0 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	math.max(tonumber(clock), tonumber(last or 0) or 0) => most
years above the clock, and the last
	TOKEN=8000000000000000/20s | vote token=9000000000000000 | 1 8000000000000001 '' 8000000000000000 clock |
	LOCK{a=1}/30s TOKEN=8000000000000001/1h | then token = clock end => then end
years above the clock, and not above the last by much
	TOKEN=8000000000000000/20s | vote token=8000000000000009 | 1 8000000000000009 '' 8000000000000000 clock |
	LOCK{a=1}/30s TOKEN=8000000000000009/1h | tonumber(last or 0) or 0) => 0)
more digits than the clock
	nothing | vote token=10000000000000000 | 1 clock '' 0 clock | LOCK{a=1}/30s TOKEN=clock/1h | #token > #clock or =>
above the clock, and the last is no number
	TOKEN=text/20s | vote token=9000000000000000 | !HOLDFAST | same |
	tonumber(last or 0) or 0) => tonumber(last or 0))
the owner's own, told what others have granted
	heldByA | vote token=8000000000000000 | 1 8000000000000000 1 '' clock | LOCK{a=1}/30s TOKEN=8000000000000000/1h |
	held and most or =>
the owner's own, told what leaves no room
	heldByA | vote token=9007199254740991 | 1 clock 1 '' clock | LOCK{a=1}/30s TOKEN=clock/1h |
	math.min(known, most - 2 * day) => known
another's, and the time
	heldByB | vote | 0 ttl:10s b 5000 clock | same | or '0', clock}\nend => or '0'}\nend
`)

// What becomes of votes that come late.
var voteLateRows = table(`
free, in time
	nothing | vote until=9000000000000000 | 1 6000 '' 0 clock | LOCK{a=1}/30s TOKEN=6000/1h |
	limit < clock) => limit > clock)
free, in time by more digits
	nothing | vote until=10000000000000000 | 1 6000 '' 0 clock | LOCK{a=1}/30s TOKEN=6000/1h | #limit == #clock and =>
free, too late, above an old token
	TOKEN=5000/20s | vote until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
free, the master's clock is not known
	nothing | vote until=0 | -2 clock | nothing | then return {-2, clock} end => then end
the owner's own, too late
	heldByA | vote count=3 until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
another's, too late
	heldByB | vote until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
`)

// What becomes of the token.
var voteTokenRows = table(`
a greater one than the last
	TOKEN=5000/20s | vote | 1 6000 '' 5000 clock | LOCK{a=1}/30s TOKEN=6000/1h |
	{1, token, 0, last or '0', clock} => {1, token, 0, '0', clock}
the same as the last
	TOKEN=6000/20s | vote | 1 6001 '' 6000 clock | LOCK{a=1}/30s TOKEN=6001/1h | last >= token => last > token
a smaller one than the last
	TOKEN=7000/20s | vote | 1 7001 '' 7000 clock | LOCK{a=1}/30s TOKEN=7001/1h |
	#last == #token and last >= token => false
a greater one, and smaller as text
	TOKEN=70/20s | vote | 1 6000 '' 70 clock | LOCK{a=1}/30s TOKEN=6000/1h |
	#last == #token and last >= token => last >= token
a smaller one, and greater as text
	TOKEN=10000/20s | vote | 1 10001 '' 10000 clock | LOCK{a=1}/30s TOKEN=10001/1h | #last > #token or =>
the greatest that there is
	TOKEN=9007199254740990/20s | vote | 1 9007199254740991 '' 9007199254740990 clock |
	LOCK{a=1}/30s TOKEN=9007199254740991/1h | string.format('%.0f', n + 1) => tostring(n + 1)
too many digits
	TOKEN=99007199254740991/20s | vote | !HOLDFAST | same | n >= 9007199254740991 => #last < 16
the last is text of a token's length
	TOKEN=00te/20s | vote | !HOLDFAST | same | or string.find(last, '%D')) then => ) then
the last is of another type
	TOKEN[x]/20s | vote | !WRONGTYPE | same | local last = call => call('HSET', name, owner, '1')\nlocal last = call
the last has no time to live
	TOKEN=5000 | vote | 1 6000 '' 5000 clock | LOCK{a=1}/30s TOKEN=6000/1h | 'PX', ARGV[3]) => 'KEEPTTL')
the owner's own, is told a greater one
	heldByA | vote | 1 6000 1 '' clock | LOCK{a=1}/30s TOKEN=6000/1h |
	call('SET', tokens, token, 'PX', ARGV[3]) => if not held then call('SET', tokens, token, 'PX', ARGV[3]) end
the owner's own, knows a greater one
	heldByA | vote token=4000 | 1 5000 1 '' clock | LOCK{a=1}/30s TOKEN=5000/1h | held and last or =>
the owner's own, its token was evicted
	LOCK{a=1}/10s | vote | 1 6000 1 '' clock | LOCK{a=1}/30s TOKEN=6000/1h |
	local last = call('GET', tokens) => local last = call('GET', tokens) or '7000'
the owner's own, its token is no number
	LOCK{a=1}/10s TOKEN=text/20s | vote | !HOLDFAST | same | if not n or => if not n then n = 0 end\nif
`)
