package lua

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// held makes n locks, of one owner each, and returns the calls that renew them to a minute.
func held(tb testing.TB, rdb *redis.Client, n int) (calls []Call) {
	tb.Helper()
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

// TestRenewAllBesideOthers: one call of another script does not keep the rest from being merged, and
// each has its own answer.
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
			require.Equal(t, "owner", result.Reply.Text(0))
		case 7:
			require.Equal(t, Gone, result.Reply.Status)
		default:
			require.Equal(t, Done, result.Reply.Status)
		}
	}
	ran := srv.CommandCalls(t)
	require.LessOrEqual(t, ran["evalsha"]+ran["eval"], int64(4), "two scripts, by EVAL too where the server did not know them")
}

// TestRenewAllWithoutPermission: the user may not use one of the keys. The server refuses the
// script for all of them; the others are renewed all the same.
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
		whole := Result{Reply: Reply{Done, values}}
		for i := range 2 {
			require.Error(t, whole.part(i, 2).Err, "%v", values)
		}
	}
}
