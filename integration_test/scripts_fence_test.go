package integration_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

const (
	fenceKey  = "stock:7"
	fenceLast = "holdfast_fence:{stock:7}"
)

// fenceRow is one call of fence.lua. It is a row of another kind than those of locks: what it
// writes is the caller's.
type fenceRow struct {
	name   string
	before string // commands, separated by ";"; KEY and LAST stand for keys
	token  string
	args   []any // the command and its arguments behind the key

	reply any    // what the command replied, or
	last  string // the token that it was refused for, or
	err   string // the error
	same  bool   // no key has changed
	after string // the token that is noted

	cut, paste string // the edit with which the row fails
}

const noteToken = "if last ~= token then redis.call('SET', KEYS[1], token) end"

var fenceRows = []fenceRow{
	{
		name: "the first", token: "5000", args: []any{"SET", "x"}, reply: "OK", after: "5000",
		cut: noteToken, paste: "",
	},
	{
		name: "a greater one", before: "SET LAST 4999", token: "5000", args: []any{"SET", "x"}, reply: "OK",
		after: "5000",
		cut:   noteToken, paste: "if not last then redis.call('SET', KEYS[1], token) end",
	},
	{
		name: "an equal one", before: "SET LAST 5000", token: "5000", args: []any{"INCR"}, reply: int64(1),
		after: "5000",
		cut:   "last > token", paste: "last >= token",
	},
	{
		name: "a smaller one", before: "SET LAST 5001; SET KEY y", token: "5000", args: []any{"SET", "x"}, last: "5001",
		same: true,
		cut:  "or #last == #token and last > token", paste: "",
	},
	{
		name: "a smaller one with fewer digits", before: "SET LAST 10000; SET KEY y", token: "9999",
		args: []any{"SET", "x"},
		last: "10000", same: true,
		cut: "#last > #token or ", paste: "",
	},
	{
		name: "a greater one with more digits", before: "SET LAST 9999", token: "10000", args: []any{"SET", "x"},
		reply: "OK", after: "10000",
		cut: "#last == #token and ", paste: "",
	},
	{
		name: "greater by one, beyond what a double can tell", before: "SET LAST 18446744073709551614",
		token: "18446744073709551615",
		args:  []any{"SET", "x"}, reply: "OK", after: "18446744073709551615",
		cut: "if last ~= token then", paste: "if not last or tonumber(last) ~= tonumber(token) then",
	},
	{
		name: "smaller by one, beyond what a double can tell", before: "SET LAST 18446744073709551615",
		token: "18446744073709551614",
		args:  []any{"SET", "x"}, last: "18446744073709551615", same: true,
		cut: "#last > #token or #last == #token and last > token", paste: "tonumber(last) > tonumber(token)",
	},
	{
		name: "no token but text", before: "SET LAST 12a", token: "5000", args: []any{"SET", "x"},
		err: "HOLDFAST the key " + fenceLast + " does not hold a token: 12a", same: true,
		cut: "'^[1-9]%d*$'", paste: "''",
	},
	{
		name: "no token but an empty text", before: "EVAL return(redis.call('SET',ARGV[1],'')) 0 LAST", token: "5000",
		args: []any{"SET", "x"},
		err:  "HOLDFAST the key " + fenceLast + " does not hold a token", same: true,
		cut: "'^[1-9]%d*$'", paste: "'^%d*$'",
	},
	{
		name: "no token but a number with a zero before it", before: "SET LAST 05001", token: "5000",
		args: []any{"SET", "x"},
		err:  "HOLDFAST the key " + fenceLast + " does not hold a token: 05001", same: true,
		cut: "'^[1-9]%d*$'", paste: "'^%d+$'",
	},
	{
		name: "no token but a fraction", before: "SET LAST 50.1", token: "5000", args: []any{"SET", "x"},
		err: "HOLDFAST the key " + fenceLast + " does not hold a token: 50.1", same: true,
		cut: "%d*$'", paste: "'",
	},
	{
		name: "no token but a list", before: "RPUSH LAST 1", token: "5000", args: []any{"SET", "x"},
		err: "HOLDFAST the key " + fenceLast + " cannot be read as a token: WRONGTYPE", same: true,
		cut: "redis.pcall('GET', KEYS[1])", paste: "redis.call('GET', KEYS[1])",
	},
	{
		name: "an error of the command as it is", before: "RPUSH KEY 1", token: "5000", args: []any{"INCR"},
		err: "WRONGTYPE", after: "5000",
		cut: "if type(reply) == 'table' and reply.err then return reply end", paste: "",
	},
	{
		name: "no such command", token: "5000", args: []any{"NOSUCHCOMMAND"}, err: "nknown", after: "5000",
		cut: "redis.pcall(ARGV[2]", paste: "redis.pcall('SET'", // wants one argument more
	},
	{
		name: "a reply of nil", token: "5000", args: []any{"GET"}, reply: nil, after: "5000",
		cut: "return {1, reply}", paste: "return {1, reply or 0}",
	},
	{
		name: "a reply of nil among others", before: "HSET KEY a 1", token: "5000", args: []any{"HMGET", "b", "a"},
		reply: []any{nil, "1"},
		after: "5000",
		cut:   "return {1, reply}", paste: "return {1, type(reply) == 'table' and reply[1] and reply or 0}",
	},
	{
		name: "an empty list", token: "5000", args: []any{"LRANGE", 0, -1}, reply: []any{}, after: "5000",
		cut: "return {1, reply}", paste: "return {1, reply[1]}",
	},
	{
		name: "lists in lists", before: "XADD KEY 1-1 a x b y; XADD KEY 2-1 c z", token: "5000",
		args:  []any{"XRANGE", "-", "+"},
		reply: []any{[]any{"1-1", []any{"a", "x", "b", "y"}}, []any{"2-1", []any{"c", "z"}}}, after: "5000",
		cut: "return {1, reply}", paste: "return {1, reply[1]}",
	},
	{
		name: "bytes of all kinds, also empty", token: "5000",
		args: []any{"HSET", "", "\x00\r\n\xff'{}", "\xc3", []byte{0, 13, 10}}, reply: int64(2),
		after: "5000",
		cut:   "unpack(ARGV, 3)", paste: "unpack(ARGV, 5)",
	},
	{
		name: "what is stored is what was given", before: "SETRANGE KEY 3 ab", token: "5000", args: []any{"GET"},
		reply: "\x00\x00\x00ab", after: "5000",
		cut: "return {1, reply}", paste: "return {1, string.gsub(reply, '%z', ' ')}",
	},
	{
		name: "several arguments", token: "5000", args: []any{"SET", "x", "PX", 60000, "NX"}, reply: "OK",
		after: "5000",
		cut:   "unpack(ARGV, 3)", paste: "ARGV[3], ARGV[4]",
	},
}

// TestFenceScript runs every row on every server in each way in which scripts are sent, and once
// edited.
func TestFenceScript(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		for _, r := range fenceRows {
			t.Run(r.name, func(t *testing.T) {
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, lua.Fence), "unknown to the server: by EVAL")
				require.NoError(t, r.check(ctx, rdb, lua.Fence), "known to the server: by EVALSHA")
				require.Equal(t, 1, strings.Count(lua.Fence.Text(), r.cut), "the edit fits one place: %s", r.cut)
				mutant := lua.New("fence", strings.Replace(lua.Fence.Text(), r.cut, r.paste, 1), 2)
				require.Error(t, r.check(ctx, rdb, mutant), "control: the row does not see the edit")
			})
		}
	})
}

// check runs the row on a server that has nothing else and tells what is not as it says.
func (r fenceRow) check(ctx context.Context, rdb *redis.Client, script *lua.Script) error {
	if err := r.prepare(ctx, rdb); err != nil {
		return err
	}
	before, err := look(ctx, rdb)
	if err != nil {
		return err
	}
	reply, err := lua.Run(ctx, rdb, script.Call(append([]any{fenceLast, fenceKey, r.token}, r.args...)...))
	if err := r.checkReply(reply, err); err != nil {
		return err
	}
	after, err := look(ctx, rdb)
	if err != nil {
		return err
	}
	if r.same {
		return before.unchanged(after)
	}
	if got := rdb.Get(ctx, fenceLast).Val(); got != r.after {
		return fmt.Errorf("the token %q is noted, want %q", got, r.after)
	}
	if ttl := after[fenceLast].ttl; ttl != -1 {
		return fmt.Errorf("the token has a time to live: %v", ttl)
	}
	return nil
}

func (r fenceRow) prepare(ctx context.Context, rdb *redis.Client) error {
	return prepare(ctx, rdb, strings.NewReplacer("KEY", fenceKey, "LAST", fenceLast).Replace(r.before))
}

func (r fenceRow) checkReply(reply lua.Reply, err error) error {
	switch {
	case r.err != "" && (err == nil || !strings.Contains(err.Error(), r.err)):
		return fmt.Errorf("reply %v, error %w; want the error %s", reply, err, r.err)
	case r.err != "":
		return nil
	case err != nil:
		return err
	case r.last != "" && (reply.Status != lua.Denied || reply.Text(0) != r.last):
		return fmt.Errorf("reply %v, want a refusal for %s", reply, r.last)
	case r.last == "" && (reply.Status != lua.Done || !reflect.DeepEqual(reply.Value(0), r.reply)):
		return fmt.Errorf("reply %v %#v, want %#v", reply.Status, reply.Value(0), r.reply)
	case reply.Value(1) != nil:
		return errors.New("the reply has more than the command's")
	}
	return nil
}
