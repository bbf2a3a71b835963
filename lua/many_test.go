package lua

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func taking(name, again string) *command {
	return newCommand(context.Background(), Acquire.Call(name, "token:"+name, "a", 30000, 3600000, again, 1, "9007199254740990").args)
}

func giving(name string) *command {
	return newCommand(context.Background(), Release.Call(name, "channel:"+name, "a", "PUBLISH").args)
}

// shown is what is sent: the names in each parcel in parentheses, and the others' names.
func shown(cmds []redis.Cmder) string {
	var words []string
	for _, cmd := range cmds {
		switch c := cmd.(type) {
		case *command:
			words = append(words, fmt.Sprint(c.Cmd.Args()[head]))
		case *parcel:
			var names []string
			for _, one := range c.carried {
				names = append(names, fmt.Sprint(one.Cmd.Args()[head]))
			}
			words = append(words, "("+strings.Join(names, " ")+")")
		default:
			words = append(words, cmd.Name())
		}
	}
	return strings.Join(words, " ")
}

// TestPack: what is put into one script, and what travels alone.
func TestPack(t *testing.T) {
	ctx := t.Context()
	pass := newCommand(ctx, Pass.Call("pass", "token", "channel", "a", 1, 1, "PUBLISH", 1).args)
	start := newCommand(ctx, HeadStart.Call("start", "token", "channel", "a", 1, 1, "0", 1, 1, 1, 1).args)
	for want, cmds := range map[string][]redis.Cmder{
		"":                     nil,
		"x":                    {taking("x", "0")},
		"(x y)":                {taking("x", "0"), giving("y")},
		"(x z y)":              {taking("x", "0"), giving("y"), taking("z", "0")},
		"(x z) y":              {taking("x", "0"), taking("y", "1"), taking("z", "0")},
		"(x y) pass start":     {taking("x", "0"), pass, start, giving("y")},
		"ping (x y)":           {redis.NewCmd(ctx, "ping"), taking("x", "0"), giving("y")},
		"x x":                  {taking("x", "0"), giving("x")},
		"(x y) (z x)":          {taking("x", "0"), taking("y", "0"), giving("x"), taking("z", "0")},
		"x (x y) pass (x z v)": {giving("x"), taking("x", "0"), giving("y"), pass, taking("x", "0"), giving("v"), taking("z", "0")},
	} {
		packed, parcels := pack(cmds, 2)
		require.Equal(t, want, shown(packed))
		require.Equal(t, strings.Count(want, "("), len(parcels))
	}
	var crowd []redis.Cmder
	for i := range 2*manyLocks + 1 {
		crowd = append(crowd, taking(fmt.Sprint(i), "0"))
	}
	packed, parcels := pack(crowd, 2)
	require.Len(t, parcels, 2, "so many in one at most")
	require.Len(t, packed, 3)

	packed, parcels = pack([]redis.Cmder{taking("x", "0"), pass, giving("y"), taking("z", "0")}, 4)
	require.Empty(t, parcels, "and so many at least")
	require.Equal(t, "x y z pass", shown(packed))
}

// line sends in pipelines, and notes them.
type line struct {
	t    *testing.T
	rdb  *redis.Client
	sent []string
}

func (l *line) send(cmds []redis.Cmder) {
	l.sent = append(l.sent, shown(cmds))
	pipe := l.rdb.Pipeline()
	_ = pipe.BatchProcess(l.t.Context(), cmds...)
	_, _ = pipe.Exec(l.t.Context())
}

func results(cmds []redis.Cmder) (list []Result) {
	for _, cmd := range cmds {
		reply, err := cmd.(*command).reply()
		list = append(list, Result{reply, err})
	}
	return list
}

// TestPackerWithoutPermission: one key is not permitted, so the server refuses the script. Then each travels alone, and one fails.
func TestPackerWithoutPermission(t *testing.T) {
	srv := redistest.Start(t)
	require.NoError(t, srv.Client(t).Do(t.Context(), "acl", "setuser", "some", "on", ">secret", "+@all", "&*", "~*ours*").Err())
	l := &line{t: t, rdb: srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "some", "secret" })}
	p := Packer{Few: 2}
	cmds := []redis.Cmder{taking("ours:1", "0"), taking("theirs", "0"), giving("ours:2")}
	p.Send(cmds, l.send)
	require.Equal(t, []string{"(ours:1 theirs ours:2)", "ours:1 theirs ours:2"}, l.sent)
	for _, cmd := range []int{0, 2} {
		_, err := cmds[cmd].(*command).reply()
		require.True(t, IsError(err, "NOSCRIPT"), "the script for one is not known: %v", err)
	}
	require.True(t, IsDenied(results(cmds)[1].Err))

	p.Send([]redis.Cmder{taking("ours:1", "0"), giving("ours:2")}, l.send)
	require.Equal(t, "ours:1 ours:2", l.sent[2], "and for a while nothing is packed")
	p.apart.Store(0)
	cmds = []redis.Cmder{taking("ours:1", "0"), giving("ours:2")}
	p.Send(cmds, l.send)
	require.Equal(t, []string{"(ours:1 ours:2)", "(ours:1 ours:2)"}, l.sent[3:], "by EVALSHA, and by EVAL")
	require.Equal(t, Done, results(cmds)[0].Reply.Status)
	require.Equal(t, Gone, results(cmds)[1].Reply.Status)
}

// TestPackerFails: without a connection each call says so. A lost answer leaves open for each whether it ran. None is repeated.
func TestPackerFails(t *testing.T) {
	for why, unsent := range map[error]bool{errors.New("no connection"): true, errors.New("broken"): false} {
		cmds, sent := []redis.Cmder{taking("x", "0"), giving("y")}, []string{}
		(&Packer{Few: 2}).Send(cmds, func(cmds []redis.Cmder) {
			sent = append(sent, shown(cmds))
			if !unsent {
				_ = cmds[0].Args() // as to write it
			}
			cmds[0].SetErr(why)
		})
		require.Equal(t, []string{"(x y)"}, sent)
		for _, r := range results(cmds) {
			require.ErrorIs(t, r.Err, why)
			require.Equal(t, unsent, IsUnsent(r.Err))
		}
	}
}

// TestParcelsAreNotTrusted: a reply of another shape is an error of every call, or of the one that it is for.
func TestParcelsAreNotTrusted(t *testing.T) {
	for _, reply := range []any{nil, "1", []any{}, []any{int64(1)}, []any{int64(1), "1"}, []any{int64(7), "1", int64(1), int64(1)},
		[]any{int64(1), "1", int64(1)}, []any{int64(1), "1", int64(7), int64(7)}, []any{int64(1), nil, nil, nil},
		[]any{int64(1), "1", []any{}, []any{"x"}}, []any{int64(1), "1", int64(1), int64(1), int64(1)}} {
		cmds := []redis.Cmder{taking("x", "0"), giving("y")}
		(&Packer{Few: 2}).Send(cmds, func(cmds []redis.Cmder) { cmds[0].(*parcel).SetVal(reply) })
		for _, r := range results(cmds) {
			require.Error(t, r.Err, "%v", reply)
		}
	}
}

// held makes n locks, of one owner each, and returns the calls that renew them to a minute.
func held(tb testing.TB, rdb *redis.Client, n int) (calls []Call) {
	ctx, pipe := tb.Context(), rdb.Pipeline()
	for i := range n {
		name := "many:" + strconv.Itoa(i)
		pipe.HSet(ctx, name, "owner", 1)
		pipe.PExpire(ctx, name, 10*time.Second)
		calls = append(calls, Renew.Call(name, "token:"+name, "owner", 60000, 3600000))
	}
	_, err := pipe.Exec(ctx)
	require.NoError(tb, err)
	return calls
}

// TestRenewAll: many renewals go in few scripts, and each has its own answer.
func TestRenewAll(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	for _, n := range []int{0, 1, 2, renewChunk, renewChunk + 1, 3 * renewChunk} {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		calls := held(t, rdb, n)
		srv.ResetStats(t)
		for range 2 {
			for i, result := range RenewAll(t.Context(), rdb, calls) {
				require.NoError(t, result.Err)
				require.Equal(t, Done, result.Reply.Status)
				name := calls[i].args[3].(string)
				require.Greater(t, rdb.PTTL(t.Context(), name).Val(), 30*time.Second, name)
			}
		}
		chunks, ran := (n+renewChunk-1)/renewChunk, srv.CommandCalls(t)
		// Twice; and once more by EVAL where the server did not know the script.
		require.LessOrEqual(t, ran["evalsha"]+ran["eval"], int64(3*chunks), "%d renewals", n)
	}
}

// TestRenewAllBesideOthers: one call of another script does not keep the rest from being merged, and each has its own answer.
func TestRenewAllBesideOthers(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	calls := held(t, rdb, 11)
	calls[4] = State.Call("many:4", "token:many:4")
	require.NoError(t, rdb.Del(t.Context(), "many:7").Err())
	srv.ResetStats(t)
	for i, result := range RenewAll(t.Context(), rdb, calls) {
		require.NoError(t, result.Err)
		switch i {
		case 4:
			require.Equal(t, "owner", result.Reply.State().Owner)
		case 7:
			require.Equal(t, Gone, result.Reply.Status)
		default:
			require.Equal(t, Done, result.Reply.Status)
		}
	}
	ran := srv.CommandCalls(t)
	require.LessOrEqual(t, ran["evalsha"]+ran["eval"], int64(4), "two scripts, by EVAL too where the server did not know them")
}

// TestRenewAllWithoutPermission: one key is not permitted, so the server refuses the whole script; the others are renewed still.
func TestRenewAllWithoutPermission(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	calls := held(t, rdb, 10)
	user := []any{"acl", "setuser", "some", "on", ">secret", "+@all"}
	for i := range 9 {
		user = append(user, fmt.Sprint("~*many:", i))
	}
	require.NoError(t, rdb.Do(t.Context(), user...).Err())
	some := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "some", "secret" })
	merged := RunAll(t.Context(), some, []Call{merge(calls)})
	require.True(t, IsDenied(merged[0].Err), "control: the script as a whole is refused: %v", merged[0].Err)
	for i, result := range RenewAll(t.Context(), some, calls) {
		if i == 9 {
			require.True(t, IsDenied(result.Err), "%v", result.Err)
			continue
		}
		require.NoError(t, result.Err)
		require.Greater(t, rdb.PTTL(t.Context(), calls[i].args[3].(string)).Val(), 30*time.Second)
	}
}

// TestPartsAreNotTrusted: a reply of another shape is an error of every part.
func TestPartsAreNotTrusted(t *testing.T) {
	for _, values := range [][]any{nil, {int64(1)}, {int64(1), int64(1), int64(1)}, {[]any{}, nil},
		{int64(7), []any{int64(1)}}} {
		whole := Result{Reply: NewReply(Done, values...)}
		for i := range 2 {
			require.Error(t, whole.part(i, 2).Err, "%v", values)
		}
	}
}
