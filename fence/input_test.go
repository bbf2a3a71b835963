package fence_test

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
)

// nobody is where nothing may be sent to: a server that is not there would be an error of the
// network.
func nobody(t *testing.T) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb
}

// TestBadInputToRedis: the error names what is wrong and what to do, and nothing is sent.
func TestBadInputToRedis(t *testing.T) {
	g, ctx := fence.NewRedis(nobody(t)), context.Background()
	_, err := g.Do(ctx, "stock", "SET", 1)
	require.ErrorIs(t, err, fence.ErrNoToken)
	for want, try := range map[string]func() (any, error){
		"make it with fence.NewRedis":              func() (any, error) { return fence.NewRedis(nil).DoToken(ctx, 1, "stock", "SET", 1) },
		"no Redis client; make":                    func() (any, error) { return (*fence.Redis)(nil).DoToken(ctx, 1, "stock", "SET", 1) },
		"key is empty; name":                       func() (any, error) { return g.DoToken(ctx, 1, "", "SET", 1) },
		`key "a}b" has a closing brace`:            func() (any, error) { return g.DoToken(ctx, 1, "a}b", "SET", 1) },
		`key "{}b" has an empty hash tag`:          func() (any, error) { return g.DoToken(ctx, 1, "{}b", "SET", 1) },
		"command is empty; name one":               func() (any, error) { return g.DoToken(ctx, 1, "stock", "") },
		"token is 0, which no hold has; pass":      func() (any, error) { return g.DoToken(ctx, 0, "stock", "SET", 1) },
		"7001 arguments, and a script can pass on": func() (any, error) { return g.DoToken(ctx, 1, "stock", "RPUSH", make([]any, 7001)...) },
	} {
		_, err := try()
		require.ErrorContains(t, err, want)
		require.True(t, strings.HasPrefix(err.Error(), "fence: "), err)
	}
	_, err = g.DoToken(ctx, 1, "stock", "SET", 1)
	require.ErrorContains(t, err, "connection refused", "control: what is right is sent")
	require.ErrorContains(t, err, `fence: SET "stock": `)
}

func TestBadInputToSQL(t *testing.T) {
	for _, table := range []string{"", "a b", "a;b", "a.b.c", "1a", `"a"`, "a-b", "ä", "a."} {
		_, err := fence.NewSQL(table)
		require.ErrorContains(t, err, "fence: table is", table)
		require.ErrorContains(t, err, "use letters", table)
	}
	g, err := fence.NewSQL("app.tokens_2")
	require.NoError(t, err)
	require.Contains(t, g.Schema(), "app.tokens_2")
	ctx := context.Background()
	require.ErrorIs(t, g.Check(ctx, new(sql.Tx), "stock"), fence.ErrNoToken)
	for want, err := range map[string]error{
		"make it with fence.NewSQL":     new(fence.SQL).CheckToken(ctx, new(sql.Tx), "stock", 1),
		"the guard is empty; make":      (*fence.SQL)(nil).CheckToken(ctx, new(sql.Tx), "stock", 1),
		"tx is nil; check in the":       g.CheckToken(ctx, nil, "stock", 1),
		"resource is empty; name":       g.CheckToken(ctx, new(sql.Tx), "", 1),
		"token is 0, which no hold has": g.CheckToken(ctx, new(sql.Tx), "stock", 0),
		"which no column holds; tokens": g.CheckToken(ctx, new(sql.Tx), "stock", math.MaxInt64+1),
	} {
		require.ErrorContains(t, err, want)
		require.True(t, strings.HasPrefix(err.Error(), "fence: "), err)
	}
}
