package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func newClient(t *testing.T) *holdfast.Client {
	c, _ := kindtest.Shared(t, nil)
	return c
}

func lock(t *testing.T, l holdfast.Locker, ctx context.Context) *holdfast.Hold {
	return kindtest.Take(ctx, t, l.Lock)
}

// requireToken: the context tells that token, and TokenOf the same of that lock.
func requireToken(t *testing.T, want uint64, ctx context.Context, lock string) {
	token, ok := fence.Token(ctx)
	require.True(t, ok)
	require.Equal(t, want, token)
	token, ok = fence.TokenOf(ctx, lock)
	require.True(t, ok)
	require.Equal(t, want, token)
}

func TestTokenOfOneHold(t *testing.T) {
	m := rlock.New(newClient(t), t.Name())
	h := lock(t, m, t.Context())
	requireToken(t, h.Token(), h.Context(), t.Name())

	derived, cancel := context.WithCancel(h.Context())
	cancel()
	requireToken(t, h.Token(), derived, t.Name())
	requireToken(t, h.Token(), context.WithoutCancel(h.Context()), t.Name())
	requireToken(t, h.Token(), holdfast.WithOwner(h.Context()), t.Name())

	again := lock(t, m, h.Context())
	require.Equal(t, 2, again.Count())
	requireToken(t, h.Token(), again.Context(), t.Name())

	require.NoError(t, again.Unlock(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
	requireToken(t, h.Token(), h.Context(), t.Name())

	next := lock(t, m, t.Context())
	require.Greater(t, next.Token(), h.Token())
	requireToken(t, next.Token(), next.Context(), t.Name())
	requireToken(t, h.Token(), h.Context(), t.Name())
	require.NoError(t, next.Unlock(t.Context()))
}

func TestTokensOfNestedHolds(t *testing.T) {
	c := newClient(t)
	stock, orders := rlock.New(c, t.Name()+":stock"), fairlock.New(c, t.Name()+":orders")
	outer := lock(t, stock, t.Context())
	inner := lock(t, orders, outer.Context())
	require.NotEqual(t, outer.Token(), inner.Token())
	requireToken(t, inner.Token(), inner.Context(), orders.Name())
	requireToken(t, outer.Token(), outer.Context(), stock.Name())
	of, ok := fence.TokenOf(inner.Context(), stock.Name())
	require.True(t, ok)
	require.Equal(t, outer.Token(), of, "the outer one can be told from within the inner one")
	_, ok = fence.TokenOf(outer.Context(), orders.Name())
	require.False(t, ok, "and the inner one is not known outside it")
	again := lock(t, stock, inner.Context())
	requireToken(t, outer.Token(), again.Context(), stock.Name())
	require.NoError(t, errors.Join(again.Unlock(t.Context()), inner.Unlock(t.Context()), outer.Unlock(t.Context())))
	requireToken(t, inner.Token(), inner.Context(), orders.Name())
}

// TestSeveralLocks: under holds of two locks a guard does not choose. A holder who comes late for one of them would get past
// those who have overtaken it with the token of the other, which it has just got.
func TestSeveralLocks(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	c := newClient(t)
	orders, audit := rlock.New(c, t.Name()+":orders"), rlock.New(c, t.Name()+":audit")
	guard := fence.NewRedis(rdb)
	late := lock(t, orders, t.Context())
	_, err := guard.Do(late.Context(), "stock", "SET", "late")
	require.NoError(t, err)
	again := lock(t, orders, late.Context())
	_, err = guard.Do(again.Context(), "stock", "SET", "re-entered")
	require.NoError(t, err, "one lock, held twice")

	inner := lock(t, audit, again.Context())
	_, err = guard.Do(inner.Context(), "stock", "SET", "which?")
	require.ErrorIs(t, err, fence.ErrSeveralLocks)
	require.ErrorContains(t, err, orders.Name())
	require.ErrorContains(t, err, audit.Name())
	require.Equal(t, "re-entered", rdb.Get(t.Context(), "stock").Val(), "nothing was written")
	token, ok := fence.TokenOf(inner.Context(), orders.Name())
	require.True(t, ok)
	_, err = guard.DoToken(inner.Context(), token, "stock", "SET", "chosen")
	require.NoError(t, err)
	require.NoError(t, errors.Join(inner.Unlock(t.Context()), again.Unlock(t.Context()), late.Unlock(t.Context())))
}

// TestSeveralLocksOfOneName: locks of one name on different servers are several.
func TestSeveralLocksOfOneName(t *testing.T) {
	elsewhere := kindtest.NewClient(t, redistest.Start(t).Client(t), nil)
	outer := lock(t, rlock.New(newClient(t), t.Name()), t.Context())
	inner := lock(t, rlock.New(elsewhere, t.Name()), outer.Context())
	guard := fence.NewRedis(nobody(t))
	_, err := guard.Do(inner.Context(), "stock", "SET", "which?")
	require.ErrorIs(t, err, fence.ErrSeveralLocks)
	_, ok := fence.TokenOf(inner.Context(), t.Name())
	require.False(t, ok)
	require.NoError(t, errors.Join(inner.Unlock(t.Context()), outer.Unlock(t.Context())))
}

// Do passes on the context of its hold.
func TestTokenWithinDo(t *testing.T) {
	m := rlock.New(newClient(t), t.Name())
	require.NoError(t, holdfast.Do(t.Context(), m, func(ctx context.Context) error {
		state, err := m.State(ctx)
		requireToken(t, state.Token, ctx, t.Name())
		return err
	}))
}

func TestNoToken(t *testing.T) {
	var none context.Context
	for _, ctx := range []context.Context{none, context.Background(), t.Context(), holdfast.WithOwner(t.Context())} {
		token, ok := fence.Token(ctx)
		require.False(t, ok)
		require.Zero(t, token)
		token, ok = fence.TokenOf(ctx, "")
		require.False(t, ok)
		require.Zero(t, token)
	}
}

func TestStaleErrorNamesBoth(t *testing.T) {
	err := error(&fence.StaleError{Resource: "stock:7", Token: 11, Last: 12})
	require.ErrorIs(t, err, fence.ErrStale)
	require.EqualError(t, err, `fence: stale fencing token: "stock:7" has seen 12, and this one is 11`)
}

// nobody is where nothing may be sent to: a server that is not there would be an error of the network.
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
