package integration_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// What the guard does on a server that cannot do all that it asks, and at the limits of a script.

// TestFenceSaysWhatTheServerSaid: errors name command and key, and stay the server's.
func TestFenceSaysWhatTheServerSaid(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		g := fence.NewRedis(rdb)
		require.NoError(t, kindtest.Err(g.DoToken(ctx, 12, fenceKey, "RPUSH", "a")))
		_, err := g.DoToken(ctx, 12, fenceKey, "INCR")
		require.ErrorContains(t, err, `fence: INCR "stock:7": WRONGTYPE`)
		require.True(t, lua.IsError(err, "WRONGTYPE"))

		_, err = g.DoToken(ctx, 11, fenceKey, "DEL")
		require.ErrorIs(t, err, fence.ErrStale)
		var stale *fence.StaleError
		require.True(t, errors.As(err, &stale))
		require.Equal(t, fence.StaleError{Resource: fenceKey, Token: 11, Last: 12}, *stale)
		require.Equal(t, []string{"a"}, rdb.LRange(ctx, fenceKey, 0, -1).Val())

		for _, value := range []any{"-1", "12 ", strings.Repeat("9", 21), strings.Repeat("x", 100_000)} {
			require.NoError(t, rdb.Set(ctx, fenceLast, value, 0).Err())
			_, err = g.DoToken(ctx, 13, fenceKey, "RPUSH", "b")
			require.ErrorContains(t, err, fenceLast)
			require.ErrorContains(t, err, "a token")
			require.Less(t, len(err.Error()), 300, "a long value is not repeated")
		}
		require.NoError(t, rdb.Set(ctx, fenceLast, "12", 0).Err())
		require.NoError(t, kindtest.Err(g.DoToken(ctx, math.MaxUint64, fenceKey, "RPUSH", "c")))
		_, err = g.DoToken(ctx, math.MaxUint64-1, fenceKey, "RPUSH", "d")
		require.ErrorContains(t, err, "has seen 18446744073709551615, and this one is 18446744073709551614")

		_, err = g.DoToken(ctx, math.MaxUint64, fenceKey, "RPUSH", struct{}{})
		require.ErrorContains(t, err, "can't marshal struct {}")
		require.Equal(t, []string{"a", "c"}, rdb.LRange(ctx, fenceKey, 0, -1).Val())
	})
}

// TestFenceOutOfMemory: what needs memory is refused with its token, and what frees some goes through once the token is known.
func TestFenceOutOfMemory(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		g := fence.NewRedis(rdb)
		_, err := g.DoToken(ctx, 12, fenceKey, "SET", "x")
		require.NoError(t, err)
		restore := full(ctx, t, rdb)
		for _, token := range []uint64{12, 13} {
			_, err = g.DoToken(ctx, token, fenceKey, "SET", "y")
			require.True(t, lua.IsError(err, "OOM"), "%v", err)
		}
		_, err = g.DoToken(ctx, 13, fenceKey, "DEL")
		require.True(t, lua.IsError(err, "OOM"), "a new token needs memory itself: %v", err)
		require.Equal(t, "12", rdb.Get(ctx, fenceLast).Val())
		require.Equal(t, "x", rdb.Get(ctx, fenceKey).Val())
		require.ErrorIs(t, kindtest.Err(g.DoToken(ctx, 11, fenceKey, "DEL")), fence.ErrStale)
		reply, err := g.DoToken(ctx, 12, fenceKey, "DEL")
		require.NoError(t, err)
		require.Equal(t, int64(1), reply)
		restore()
		require.NoError(t, kindtest.Err(g.DoToken(ctx, 13, fenceKey, "SET", "y")), "control: with memory it is accepted")
	})
}

// TestFenceManyArguments: as many as the guard lets through fit a script of every server.
func TestFenceManyArguments(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		args := make([]any, 8000)
		for i := range args {
			args[i] = i
		}
		reply, err := fence.NewRedis(rdb).DoToken(ctx, 12, fenceKey, "RPUSH", args[:7000]...)
		require.NoError(t, err)
		require.Equal(t, int64(7000), reply)
		_, err = fence.NewRedis(rdb).DoToken(ctx, 12, fenceKey, "RPUSH", args[:7001]...)
		require.ErrorContains(t, err, "split it")
		_, err = lua.Run(ctx, rdb, lua.Fence.Call(append([]any{fenceLast, fenceKey, "12", "RPUSH"}, args...)...))
		require.ErrorContains(t, err, "too many results to unpack", "control: this is what the limit is for")
	})
}

// TestFenceInACluster: key and token are in one slot whatever the key, and redirections are followed.
func TestFenceInACluster(t *testing.T) {
	level.ForAll(t)
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		rdb, ctx := redistest.StartCluster(t, 3, 0, redistest.Exec(p.Path)).Client(t), t.Context()
		g := fence.NewRedis(rdb)
		for _, key := range []string{"stock:7", "a", "b", "c", "{orders}:1", "x{y}z", "{{a}", "a b\r\n"} {
			reply, err := g.DoToken(ctx, 12, key, "SET", "x")
			require.NoError(t, err, key)
			require.Equal(t, "OK", reply)
			require.ErrorIs(t, kindtest.Err(g.DoToken(ctx, 11, key, "SET", "y")), fence.ErrStale, key)
			require.Equal(t, "x", rdb.Get(ctx, key).Val())
		}
		_, err := lua.Run(ctx, rdb, lua.Fence.Call("holdfast_fence:stock:7", "stock:7", "12", "SET", "x"))
		require.ErrorContains(t, err, "CROSSSLOT", "control: without the hash tag")
	})
}

// The rule of a user of the guard for keys called stock:*, beside that for the commands that it is given.
const aclFence = "+evalsha +eval +get +set ~stock:* ~holdfast_fence:{stock:*"

// TestFenceLeastPrivilege: with exactly this rule and its command the guard works; without each part something is refused.
func TestFenceLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		admin, limited, ctx := srv.Client(t), as(t, srv, "limited", aclFence+" +hset"), t.Context()
		whole := func() error {
			require.NoError(t, admin.FlushAll(ctx).Err())
			require.NoError(t, admin.ScriptFlush(ctx).Err())
			for range 2 {
				if err := writeAndRefuse(ctx, limited, 12, 11); err != nil {
					return err
				}
			}
			return nil
		}
		require.NoError(t, whole())
		for part := range strings.FieldsSeq(aclFence + " +hset") {
			setUser(t, srv, "limited", strings.Replace(aclFence+" +hset ", part+" ", "", 1))
			err := whole()
			require.True(t, lua.IsDenied(err), "without %s: %v", part, err)
			require.ErrorContains(t, err, "docs/security.md")
			require.Zero(t, admin.Exists(ctx, fenceKey).Val(), "without %s", part)
		}
	})
}

// writeAndRefuse writes with one token, and is refused with the other.
func writeAndRefuse(ctx context.Context, rdb redis.UniversalClient, token, stale uint64) error {
	g := fence.NewRedis(rdb)
	if _, err := g.DoToken(ctx, token, fenceKey, "HSET", "count", 3); err != nil {
		return err
	}
	_, err := g.DoToken(ctx, stale, fenceKey, "HSET", "count", 4)
	switch {
	case err == nil:
		return errors.New("the stale one was let through")
	case errors.Is(err, fence.ErrStale):
		return nil
	}
	return err
}

const (
	fenceKey  = "stock:7"
	fenceLast = "holdfast_fence:{stock:7}"
)

// The rows of fence.lua: a call is a token and a command without its key; the reply is the command's, or the refusing token.
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
