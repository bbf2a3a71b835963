package lua_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestErrorsOfRun: Run returns what go-redis returns, and the functions of this package say what it is.
func TestErrorsOfRun(t *testing.T) {
	srv := redistest.Shared(t)
	call := func(rdb *redis.Client) error {
		_, err := lua.Run(t.Context(), rdb, lua.Release.Call(t.Name(), "channel", "owner", "publish"))
		return err
	}
	var reply redis.Error

	wrong := call(redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "nobody", "wrong" }))
	require.ErrorAs(t, wrong, &reply)
	require.Equal(t, lua.AuthWrong, lua.AuthProblemOf(wrong))

	closed := redistest.NewClient(t, srv.Addr())
	require.NoError(t, closed.Close())
	require.ErrorIs(t, call(closed), redis.ErrClosed)

	replica := redistest.Start(t)
	rdb := replica.Client(t)
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	refused := call(rdb)
	require.ErrorAs(t, refused, &reply)
	require.True(t, lua.IsError(refused, "READONLY"), "%v", refused)
}
