package integration_test

var semAcquireRows = table(`
nothing is known
	nothing | sem_acquire | 1 clock clock clock | LOCK=2/30d TOKEN=clock/1h PERMITS(u:h7+30s)/30d COUNTS=semaphore/30d |
	tonumber(ARGV[1]) - call('ZCARD', permits) => 7
several
	threeFree | sem_acquire permits=9 n=2 place=15s | 1 clock clock clock |
	LOCK=1/30d TOKEN=clock/1h PERMITS(u:h7+30s u:h7/2+30s)/30d | j == 1 and owner or owner .. '/' .. j => owner .. j
too late
	nothing | sem_acquire until=1000000000000000 | -2 clock | nothing | #limit == #clock and limit < clock => false
more than there are
	threeFree | sem_acquire permits=9 n=4 place=15s | !HOLDFAST_PERMITS | same |
	if n > free and n > all() then => if false then
no number
	LOCK=x/60s | sem_acquire permits=9 place=15s | !HOLDFAST | same |
	if known and not free then => if not free then free = 1 end if false then
no token
	LOCK=1/60s TOKEN=x/60s | sem_acquire permits=9 place=15s | !HOLDFAST | same |
	not n or n >= 9007199254740991 => false
fewer are free, and it does not wait
	twoBy9 | sem_acquire n=2 | 0 ttl:60s clock '' -3 3 1 '' v:h9 | same | if n <= free and (not first => if (not first
fewer are free
	twoBy9 | sem_acquire n=2 place=15s | 0 ttl:60s clock '' -3 3 1 1 v:h9 |
	same LINE(u:h7=clock)/60s PLACES(u:h7+15s)/60s WANTS{u:h7=2}/60s |
	if n > 1 then call('HSET', wants, owner, n) end =>
another waits
	twoBy9 line8wide LISTEN(permits:u) | sem_acquire | 0 ttl:60s clock '' -3 3 1 1 v:h9 | same |
	(not first or first == owner) => true
another waits, whom nobody can reach
	twoBy9 line8wide | sem_acquire | 1 clock clock clock |
	same LOCK=0/30d TOKEN=clock/1h PERMITS(u:h7+30s v:h9@60s v:h9/2@60s)/30d | if deaf[id] then return false end =>
another has waited
	oneBy9 line8dead LISTEN(permits:u) | sem_acquire | 1 clock clock clock |
	LOCK=1/30d TOKEN=clock/1h PERMITS(u:h7+30s v:h9@60s)/30d |
	if n > 0 then\n      call('ZREM', queue, unpack => if false then\n      call('ZREM', queue, unpack
it stood first
	oneBy9 line8wide | sem_acquire owner=u:h8 n=2 place=15s | 1 clock clock clock |
	LOCK=0/30d TOKEN=clock/1h PERMITS(u:h8+30s u:h8/2+30s v:h9@60s)/30d | if first then drop(owner) end =>
it was granted them before
	twoBy7 | sem_acquire n=2 lease=60s again=1 | 1 clock clock clock |
	same TOKEN=clock/1h PERMITS(u:h7+60s u:h7/2+60s)/60s |
	math.max(now + lease, tonumber(call('ZSCORE', permits, owner))) => now
a first attempt that comes late
	twoBy7 | sem_acquire n=2 lease=3s | 1 clock clock clock | same TOKEN=clock/1h |
	if has(owner) and whole(owner, n) then => if false then
it was handed them, and too late
	endedBy9 | sem_acquire owner=v:h9 n=2 place=15s | 1 clock clock clock |
	LOCK=1/30d TOKEN=clock/1h PERMITS(v:h9+30s v:h9/2+30s)/30d | if ended > 0 then change(ended) end =>
it was handed fewer than it wants
	LOCK=2/60s TOKEN=5000/20s PERMITS(u:h7@2s)/60s | sem_acquire n=3 place=15s | 1 clock clock clock |
	LOCK=0/30d TOKEN=clock/1h PERMITS(u:h7+30s u:h7/2+30s u:h7/3+30s)/30d | and whole(owner, n) then => then
what it wants was lost
	twoBy9 line8 | sem_acquire owner=u:h8 n=2 place=15s | 0 ttl:60s clock '' -3 3 1 1 v:h9 |
	same PLACES(u:h8+15s)/60s WANTS{u:h8=2}/60s |
	if n > 1 then call('HSET', wants => if fresh and n > 1 then call('HSET', wants
more are free than the first wants
	threeFree line86 LISTEN(permits:u) | sem_acquire owner=u:h8 place=15s | 1 clock clock clock |
	LOCK=1/30d TOKEN=run/1h PERMITS(u:h6+2s u:h8+30s)/30d PLACES(u:h6!+0)/60s TOLD(permits:u:h6/2000) |
	if first and free > 0 then => if false then
Redisson has taken back one of two that have ended
	threeFree PERMITS(u:h7/2@-1)/60s | sem_acquire permits=4 n=2 | 1 clock clock clock |
	LOCK=2/30d TOKEN=clock/1h PERMITS(u:h7+30s u:h7/2+30s)/30d | name, 0 - added) => name, 0 - n)
another waits, whose client let a claim end
	lapsed7 LISTEN(permits:u) | sem_acquire owner=w:h5 | 1 clock clock clock |
	same LOCK=1/30d TOKEN=clock/1h PERMITS(w:h5+30s v:h9@60s)/30d PLACES(u!+0 u:h8@14s)/60s |
	or first and first ~= owner =>
a claim has ended: a short place says that its client is heard of
	threeBy9 LINE(u:h8=8)/60s PLACES(u!@-500 u:h8@14s)/60s | sem_acquire owner=u:h7 place=3s | 0 ttl:60s clock '' -3 3 '' 2 v:h9 |
	same LINE(u:h8=8 u:h7=clock)/60s PLACES(u:h7+3s u:h8@14s)/60s |
	if place < silence then call('ZREM', places, client(owner)) end =>
the queue was lost
	threeBy9 PLACES(u:h8@15s)/60s | sem_acquire owner=u:h8 place=15s | 0 ttl:60s clock '' -3 3 '' 1 v:h9 |
	same LINE(u:h8=clock)/60s PLACES(u:h8+15s)/60s | or not call('ZSCORE', queue, owner) =>
leases have ended
	endedBy9 | sem_acquire n=3 | 1 clock clock clock |
	LOCK=0/30d TOKEN=clock/1h PERMITS(u:h7+30s u:h7/2+30s u:h7/3+30s)/30d | if n > free or first and => if first and
Redisson's number stays for ever
	LOCK=3 | sem_acquire | 1 clock clock clock | LOCK=2 TOKEN=clock/1h PERMITS(u:h7+30s) |
	if left < 0 then => if false then
`)

var semJoinRows = table(`
places
	threeBy9 | sem_join u:h8 u:h7 | 0 ttl:60s clock '' -3 3 '' 2 v:h9 |
	same LINE(u:h8=clock u:h7=run)/60s PLACES(u:h7+15s u:h8+15s)/60s | (tonumber(last[2]) or 0) + 1 => 0
for as long as each is of use
	threeBy9 | sem_join place=3s u:h8 5000 u:h7 | 0 ttl:60s clock '' -3 3 '' 2 v:h9 |
	same LINE(u:h8=clock u:h7=run)/12s PLACES(u:h8+3s u:h7+5s)/12s | place = tonumber(owner) => place = place or tonumber(owner)
one is free
	twoBy9 LISTEN(permits:u) | sem_join u:h7 u:h8 | 0 ttl:2s before '' -3 3 '' 1 u:h7 |
	LOCK=0/30d TOKEN=clock/1h PERMITS(u:h7+2s v:h9@60s v:h9/2@60s)/30d LINE(u:h8=clock)/60s PLACES(u:h7!+0
	  u:h8+15s)/60s TOLD(permits:u:h7/2000) | tonumber(clock) - 1 => tonumber(clock) + 9e6
another waits, whose client let a claim end
	lapsed7 LISTEN(permits:u) | sem_join w:h5 w:h6 | 0 ttl:2s before '' -3 3 '' 1 w:h5 |
	same LOCK=0/30d TOKEN=run/1h PERMITS(w:h5+2s w:h6+2s v:h9@60s)/30d PLACES(u!+0 w:h5!+0 w:h6!+0 u:h8@14s)/60s |
	sweep(0) -- who let => -- who let
one has a permit
	twoBy7 | sem_join u:h8 u:h7 | 1 | same | if call('ZSCORE', permits, owner) then return {1} end =>
there are none
	LOCK=0/60s | sem_join u:h8 u:h7 | 1 | same | if all() < 1 then return {1} end =>
too late
	oneBy9 | sem_join until=1000000000000000 u:h8 u:h7 | -2 clock | same | #limit == #clock and limit < clock => false
`)

var semReleaseRows = table(`
nobody waits
	twoBy7 LISTEN(permits) | sem_release | 1 | same -PERMITS LOCK=3/60s TOLD(permits:3) |
	if n == 0 or call('ZREM', permits, owner .. '/2') == 0 then return n end => if true then return n end
nobody is told
	twoBy7 LISTEN(permits) | sem_release by='' | 1 | same -PERMITS LOCK=3/60s |
	ARGV[3] ~= '' and tellOthers => tellOthers
it has none
	threeBy9 | sem_release | -1 | same | if not held then return {-1} end =>
its lease has ended
	endedBy9 | sem_release owner=v:h9 | -1 | same -PERMITS LOCK=3/60s |
	if n > 0 and tonumber(known or nil) then => if false then
the place
	threeBy9 line8wide | sem_release owner=u:h8 | -1 | same -LINE -PLACES -WANTS |
	drop(ARGV[2])\n => 
several leave, and one of them has some
	threeBy9 line86 LISTEN(permits:u permits) | sem_release owner=u:h8 v:h9 u:h6 | 1 |
	LOCK=3/60s TOKEN=5000/20s TOLD(permits:3) | for i = behind, #ARGV do refused => for i = 99, #ARGV do refused
who waits is handed them
	twoBy9 line8wide LISTEN(permits:u permits) | sem_release owner=v:h9 | 1 |
	LOCK=1/30d TOKEN=clock/1h PERMITS(u:h8+2s u:h8/2+2s)/30d PLACES(u:h8!+0)/60s TOLD(permits:u:h8/2000/2 permits:1) |
	local wanted = tonumber(call('HGET', wants, owner) or nil) or 1 => local wanted = 1
both who wait are handed one
	threeBy9 line86 LISTEN(permits:u permits) | sem_release owner=v:h9 | 1 |
	LOCK=1/30d TOKEN=run/1h PERMITS(u:h6+2s u:h8+2s)/30d PLACES(u:h6!+0 u:h8!+0)/60s TOLD(permits:u:h8/2000
	  permits:u:h6/2000 permits:1) | n >= most => n >= 1
the first wants more than came back
	LOCK=0/60s TOKEN=5000/20s PERMITS(u:h7@40s v:h9@60s v:h9/2@60s)/60s line86 WANTS{u:h8=2}/60s LISTEN(permits:u) |
	sem_release | 1 | same LOCK=1/60s PERMITS(v:h9@60s v:h9/2@60s)/60s |
	elseif wanted > free then\n          return nil, unheard, true => elseif wanted > free then\n          passed =
	  passed + 1
who waits cannot be reached
	twoBy9 line8 | sem_release owner=v:h9 | 1 | same -PERMITS LOCK=3/60s |
	listeners(command, channel .. ':' .. id) == 0 => false
who waits let a claim end
	twoBy9 LINE(u:h8=8)/60s PLACES(u!@-500 u:h8@14s)/60s LISTEN(permits:u) | sem_release owner=v:h9 | 1 |
	same -PERMITS LOCK=3/60s PLACES(u!@-500 u:h8@14s)/60s |
	return not lapsed or deadline - silence >= -tonumber(lapsed) => return true
a claim has ended
	LOCK=1/60s TOKEN=5000/20s PERMITS(u:h7@-1 v:h9@60s)/60s PLACES(u:h7!@-500)/60s | sem_release owner=v:h9 | 1 |
	same -PERMITS LOCK=3/60s PLACES(u!+0)/60s | call('ZADD', places, -now, id) => call('ZREM', places, id)
the number is gone
	PERMITS(u:h7@40s v:h9@60s)/60s | sem_release | 1 | LOCK=2/30d PERMITS(v:h9@60s)/60s COUNTS=semaphore/30d |
	if n > 0 and tonumber(known or nil) then => if n > 0 then
all is gone
	nothing | sem_release | -1 | nothing | count(true) => count()
`)

var semRenewRows = table(`
renewed
	twoBy7 | sem_renew n=2 | 1 | LOCK=1/30d TOKEN=5000/1h PERMITS(u:h7+90s u:h7/2+90s)/30d | tonumber(ARGV[5]) => 1
it has fewer
	twoBy7 | sem_renew n=3 | -1 | same | or not whole(owner, n) =>
not shortened
	twoBy7 | sem_renew lease=3s keep=3s n=2 | 1 | same LOCK=1/30d PERMITS(u:h7@40s u:h7/2@40s)/30d |
	if ends < now + lease then => if true then
it has none
	twoBy9 | sem_renew | -1 | same |
	if not ends or ends <= now or not whole(owner, n) then return {-1} end => ends = ends or 0
its lease has ended
	endedBy9 | sem_renew owner=v:h9 n=2 | -1 | same | or ends <= now =>
`)

var semPollRows = table(`
all is gone
	nothing | sem_poll u:h8 | 1 15000 clock '' '' '' '' -3 3 3 '' u:h8 | nothing | count(true) => count()
places are kept
	threeBy9 line8 LISTEN(permits:u) | sem_poll place=40s u:h8 u:h6 | 1 ttl:60s clock v:h9 '' 1 '' -3 3 '' 1 u:h6 |
	same LINE(u:h8=8)/160s PLACES(u:h8+40s)/160s | missing[#missing + 1] = owner =>
a place of no more use than its caller stays
	threeBy9 LINE(u:h8=8 u:h6=9)/60s PLACES(u:h8@2s u:h6@2s)/60s | sem_poll place=7s u:h8 3000 u:h6 |
	1 ttl:60s clock v:h9 '' '' '' -3 3 '' 2 | same LINE(u:h8=8 u:h6=9)/60s PLACES(u:h6+3s u:h8+7s)/60s |
	place = tonumber(owner) => place = place or tonumber(owner)
what is free is handed out
	oneBy9 line8wide | sem_poll | 1 ttl:2s clock u:h8 '' '' '' -3 3 '' '' u:h8 |
	LOCK=0/30d TOKEN=clock/1h PERMITS(u:h8+2s u:h8/2+2s v:h9@60s)/30d PLACES(u:h8!+0)/60s |
	if id == present then return true end =>
it was handed one, and was not told
	LOCK=0/60s PERMITS(v:h1@40s u:h7@60s)/60s PLACES(u:h7!@-500)/60s | sem_poll | 1 ttl:40s clock u:h7 '' '' '' -3 2 '' '' u:h7 |
	same | who = tell[1] or who =>
it is heard of again
	threeBy9 LINE(u:h8=8)/60s PLACES(u!@-500 u:h8@15s)/60s | sem_poll | 1 ttl:60s clock v:h9 '' '' '' -3 3 '' 1 |
	same PLACES(u:h8@15s)/60s | call('ZREM', places, id) =>
Redisson's have permits
	LOCK=2/60s PERMITS(abcd@60s)/60s | sem_poll | 1 ttl:60s clock '' redisson '' '' -3 3 2 '' | same |
	called = 'redisson' => called = ''
`)

var semSetRows = table(`
more
	threeBy9 line8 LISTEN(permits:u permits) | sem_set | 1 |
	LOCK=1/30d TOKEN=clock/1h PERMITS(u:h8+2s v:h9@60s v:h9/2@60s v:h9/3@60s)/30d PLACES(call!+0 u:h8!+0)/60s
	  TOLD(permits:u:h8/2000 permits:1) | change(tonumber(ARGV[1]) - all()) => change(1)
fewer than are out
	threeBy9 line8wide LISTEN(permits:u) | sem_set permits=1 | 1 |
	LOCK=-2/30d TOKEN=5000/20s PERMITS(v:h9@60s v:h9/2@60s v:h9/3@60s)/30d PLACES(call!+0)/60s TOLD(permits:u:h8/-) |
	if wanted > free and wanted > all() then => if false then
nothing is known
	nothing | sem_set | 1 | LOCK=5/30d PLACES(call!+0)/60s COUNTS=semaphore/30d |
	call('SET', name, free, 'PX', remembered) => call('SET', name, free)
another has set another number since
	threeBy9 PLACES(call!@-500)/60s | sem_set | 1 |
	same LOCK=0/30d PERMITS(v:h9@60s v:h9/2@60s v:h9/3@60s)/30d PLACES(call!@-500)/60s |
	if not call('ZSCORE', places, this) then => if true then
too late
	threeBy9 | sem_set until=1000000000000000 | -2 clock | same | #limit == #clock and limit < clock => false
free
	nothing | sem_state | 1 3 3 '' | nothing | known or ARGV[1] - out => known or 1
out, and one waits
	twoBy9 line8 | sem_state permits=7 | 1 3 1 1 v:h9 ttl:60s v:h9/2 ttl:60s | same |
	call('ZCOUNT', places, '(' .. now, '+inf') => 0
leases have ended
	endedBy9 line8dead | sem_state permits=7 | 1 3 3 '' | same |
	'(' .. now, '+inf', 'WITHSCORES' => '-inf', '+inf', 'WITHSCORES'
`)
