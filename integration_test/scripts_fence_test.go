package integration_test

const (
	fenceKey  = "stock:7"
	fenceLast = "holdfast_fence:{stock:7}"
)

// The rows of fence.lua, whose call is a token, and a command without its key. The reply is that of the command, or
// the token for which it was refused.
var fenceRows = table(`
the first
	nothing | fence SET x | 1 "OK" | KEY=x LAST=5000 | if last ~= token then redis.call('SET', KEYS[1], token) end =>
a greater one
	LAST=4999 | fence SET x | 1 "OK" | KEY=x LAST=5000 |
	if last ~= token then redis.call('SET', => if not last then redis.call('SET',
an equal one
	LAST=5000 | fence INCR | 1 1 | KEY=1 same | last > token => last >= token
a smaller one
	LAST=5001 KEY=y | fence SET x | 0 "5001" | same | or #last == #token and last > token =>
a smaller one with fewer digits
	LAST=10000 KEY=y | fence token=9999 SET x | 0 "10000" | same | #last > #token or =>
a greater one with more digits
	LAST=9999 | fence token=10000 SET x | 1 "OK" | KEY=x LAST=10000 | #last == #token and =>
greater by one, beyond what a double can tell
	LAST=18446744073709551614 | fence token=18446744073709551615 SET x | 1 "OK" | KEY=x LAST=18446744073709551615 |
	if last ~= token then => if not last or tonumber(last) ~= tonumber(token) then
smaller by one, beyond what a double can tell
	LAST=18446744073709551615 | fence token=18446744073709551614 SET x | 0 "18446744073709551615" | same |
	#last > #token or #last == #token and last > token => tonumber(last) > tonumber(token)
no token but text
	LAST=12a | fence SET x | !HOLDFAST the key holdfast_fence:{stock:7} does not hold a token: 12a | same |
	'^[1-9]%d*$' => ''
no token but an empty text
	LAST="" | fence SET x | !HOLDFAST the key holdfast_fence:{stock:7} does not hold a token | same |
	'^[1-9]%d*$' => '^%d*$'
no token but a number with a zero before it
	LAST=05001 | fence SET x | !HOLDFAST the key holdfast_fence:{stock:7} does not hold a token: 05001 | same |
	'^[1-9]%d*$' => '^%d+$'
no token but a fraction
	LAST=50.1 | fence SET x | !HOLDFAST the key holdfast_fence:{stock:7} does not hold a token: 50.1 | same | %d*$' => '
no token but a list
	LAST[1] | fence SET x | !HOLDFAST the key holdfast_fence:{stock:7} cannot be read as a token: WRONGTYPE | same |
	redis.pcall('GET', KEYS[1]) => redis.call('GET', KEYS[1])
an error of the command as it is
	KEY[1] | fence INCR | !WRONGTYPE | same LAST=5000 |
	if type(reply) == 'table' and reply.err then return reply end =>
// The edit wants one argument more.
no such command
	nothing | fence NOSUCHCOMMAND | ! nknown | LAST=5000 | redis.pcall(ARGV[2] => redis.pcall('SET'
a reply of nil
	nothing | fence GET | 1 <nil> | LAST=5000 | return {1, reply} => return {1, reply or 0}
a reply of nil among others
	KEY{a=1} | fence HMGET b a | 1 [<nil> "1"] | same LAST=5000 |
	return {1, reply} => return {1, type(reply) == 'table' and reply[1] and reply or 0}
an empty list
	nothing | fence LRANGE 0 -1 | 1 [] | LAST=5000 | return {1, reply} => return {1, reply[1]}
lists in lists
	KEY<1-1 a x b y, 2-1 c z> | fence XRANGE - + | 1 [["1-1" ["a" "x" "b" "y"]] ["2-1" ["c" "z"]]] | same LAST=5000 |
	return {1, reply} => return {1, reply[1]}
bytes of all kinds, also empty
	nothing | fence HSET "" "\x00\r\n\xff'{}" "\xc3" "\x00\r\n" | 1 2 |
	KEY{""="\x00\r\n\xff'{}" "\xc3"="\x00\r\n"} LAST=5000 | unpack(ARGV, 3) => unpack(ARGV, 5)
what is stored is what was given
	KEY="\x00\x00\x00ab" | fence GET | 1 "\x00\x00\x00ab" | same LAST=5000 |
	return {1, reply} => return {1, string.gsub(reply, '%z', ' ')}
several arguments
	nothing | fence SET x PX 60000 NX | 1 "OK" | KEY=x/60s LAST=5000 | unpack(ARGV, 3) => ARGV[3], ARGV[4]
`)
