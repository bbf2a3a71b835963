package integration_test

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
free, too late
	nothing | vote until=1000000000000000 | -2 clock | nothing | then return {-2, clock} end => then end
free, too late, above an old token
	TOKEN=5000/20s | vote until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
free, the master's clock is not known
	nothing | vote until=0 | -2 clock | nothing | then return {-2, clock} end => then end
too late, by fewer digits
	nothing | vote until=999999999999999 | -2 clock | nothing | #limit < #clock or =>
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
none is greater than the last
	TOKEN=9007199254740991/20s | vote | !HOLDFAST | same | n >= 9007199254740991 => n > 9007199254740991
too many digits
	TOKEN=99007199254740991/20s | vote | !HOLDFAST | same | n >= 9007199254740991 => #last < 16
the last is no number
	TOKEN=text/20s | vote | !HOLDFAST | same | if not n or => if not n then n = 0 end\nif
the last is text of a token's length
	TOKEN=00te/20s | vote | !HOLDFAST | same | or string.find(last, '%D')) then => ) then
the last is negative
	TOKEN=-1/20s | vote | !HOLDFAST | same | local n = not string.find(last, '%D') and => local n =
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
