package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

var passRows = table(`
nobody listens
	heldByA | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h | if heard ~= 0 then => if true then
nobody listens, the lease is renewed
	heldByA | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	math.max(call('PTTL', name), tonumber(ARGV[2])) => call('PTTL', name)
a lease shorter than what is left
	heldByA | pass lease=1s | 1 clock last:16 | same TOKEN=last/1h |
	math.max(call('PTTL', name), tonumber(ARGV[2])) => ARGV[2]
without a time to live
	LOCK{a=1} TOKEN=5000 | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	call('PEXPIRE', name, math.max(call('PTTL', name), tonumber(ARGV[2]))) =>
others listen: released
	heldByA LISTEN(all) | pass | 0 1 | same -LOCK TOLD(all:0) | call('DEL', name)\n =>
others listen: announced
	heldByA LISTEN(all) | pass | 0 1 | same -LOCK TOLD(all:0) |
	local sent = redis.pcall(command, to, text) => local sent = 1
others listen, two of them
	heldByA LISTEN(all all) | pass | 0 2 | same -LOCK TOLD(all:0 all:0) | counted[2] or -1 => counted[2] and 1 or -1
by classic channels of a cluster, where others may listen elsewhere: released
	heldByA LISTEN(all) | pass by=publish | 0 -1 | same -LOCK TOLD(all:0) | local heard = -1 => local heard = 0
others listen on another channel
	heldByA LISTEN(d) | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	or 'SHARDNUMSUB', channel) => or 'SHARDNUMSUB', channel .. ':d')
free
	TOKEN=5000/20s LISTEN(all) | pass | -1 | same | if not held then return {-1} end =>
free, nobody listens
	TOKEN=5000/20s | pass | -1 | same | if not held then return {-1} end =>
another's
	heldByB LISTEN(all) | pass | -1 | same | call('HEXISTS', name, ARGV[1]) == 1 => true
another's, nobody listens
	heldByB | pass | -1 | same | call('HEXISTS', name, ARGV[1]) == 1 => true
key of another type
	notALock LISTEN(all) | pass | !WRONGTYPE | same | local held = call => call('DEL', name)\nlocal held = call
`)

// What becomes of the token.
var passTokenRows = table(`
no token known
	LOCK{a=1}/10s | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	if last then => last = last or ''\nif last then
a block of one
	heldByA | pass block=1 | 1 clock last:1 | LOCK{a=1}/30s TOKEN=last/1h | first + block - 1 => first + block
the key has the last of the block
	heldByA | pass | 1 clock last:16 | LOCK{a=1}/30s TOKEN=last/1h |
	call('SET', tokens, last, 'PX', ARGV[3]) => call('SET', tokens, string.format('%.0f', first), 'PX', ARGV[3])
the clock is behind the last token: one
	LOCK{a=1}/10s TOKEN=9000000000000000/20s | pass | 1 9000000000000001 9000000000000001 |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | first, block = n + 1, 1 => first = n + 1
the clock is behind the last token: a greater one
	LOCK{a=1}/10s TOKEN=9000000000000000/20s | pass | 1 9000000000000001 9000000000000001 |
	LOCK{a=1}/30s TOKEN=9000000000000001/1h | first, block = n + 1, 1 => first, block = n, 1
greatest token
	LOCK{a=1}/10s TOKEN=9007199254740990/20s | pass | 1 9007199254740991 9007199254740991 |
	LOCK{a=1}/30s TOKEN=9007199254740991/1h | return {1, string.format('%.0f', first) => return {1, tostring(first)
token that has no next one
	LOCK{a=1}/10s TOKEN=9007199254740991/20s | pass | !HOLDFAST | same | n >= 9007199254740991 => n > 9007199254740991
token that is no number
	LOCK{a=1}/10s TOKEN=text/20s | pass | !HOLDFAST | same | if not n or => if not n then n = 0 end\n  if
negative token
	LOCK{a=1}/10s TOKEN=-1/20s | pass | !HOLDFAST | same | local n = not string.find(last, '%D') and => local n =
token that is no number, others listen: that does not keep it from being released
	LOCK{a=1}/10s TOKEN=text/20s LISTEN(all) | pass | 0 1 | same -LOCK TOLD(all:0) |
	if heard ~= 0 then => if false then
token of another type
	LOCK{a=1}/10s TOKEN[x]/20s | pass | !WRONGTYPE | same |
	local last, time = call => call('PEXPIRE', name, 100000)\nlocal last, time = call
`)

// TestPassRepeated: a second attempt whose first one's answer was lost gives tokens that are
// greater than the first one's; and if the first one released the lock, it finds that.
func TestPassRepeated(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		require.NoError(t, prepare(ctx, rdb, "heldByA"))
		// a second's worth: the clock does not catch up
		pass := row{script: lua.Pass, args: "pass block=1000000"}
		first, err := lua.Run(ctx, rdb, pass.call(pass.script))
		require.NoError(t, err)
		second, err := lua.Run(ctx, rdb, pass.call(pass.script))
		require.NoError(t, err)
		require.Equal(t, lua.Done, second.Status)
		require.Equal(t, plus(first.Text(1), "2"), second.Text(0), "the next one")
		require.Equal(t, second.Text(0), second.Text(1), "and no block, for the clock is behind")

		sub := rdb.Subscribe(ctx, scriptChannel)
		defer sub.Close()
		_, err = sub.Receive(ctx)
		require.NoError(t, err)
		for _, want := range []lua.Status{lua.Denied, lua.Gone} {
			reply, err := lua.Run(ctx, rdb, pass.call(pass.script))
			require.NoError(t, err)
			require.Equal(t, want, reply.Status)
		}
	})
}
