package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
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
	require.NoError(t, kindtest.Err(guard.Do(late.Context(), "stock", "SET", "late")))
	again := lock(t, orders, late.Context())
	require.NoError(t, kindtest.Err(guard.Do(again.Context(), "stock", "SET", "re-entered")), "one lock, held twice")

	inner := lock(t, audit, again.Context())
	_, err := guard.Do(inner.Context(), "stock", "SET", "which?")
	require.ErrorIs(t, err, fence.ErrSeveralLocks)
	require.ErrorContains(t, err, orders.Name())
	require.ErrorContains(t, err, audit.Name())
	require.Equal(t, "re-entered", rdb.Get(t.Context(), "stock").Val(), "nothing was written")
	token, ok := fence.TokenOf(inner.Context(), orders.Name())
	require.True(t, ok)
	require.NoError(t, kindtest.Err(guard.DoToken(inner.Context(), token, "stock", "SET", "chosen")))
	require.NoError(t, errors.Join(inner.Unlock(t.Context()), again.Unlock(t.Context()), late.Unlock(t.Context())))
}

// TestSeveralLocksOfOneName: locks of one name on different servers are several.
func TestSeveralLocksOfOneName(t *testing.T) {
	elsewhere := kindtest.NewClient(t, redistest.Start(t).Client(t), nil)
	outer := lock(t, rlock.New(newClient(t), t.Name()), t.Context())
	inner := lock(t, rlock.New(elsewhere, t.Name()), outer.Context())
	guard := fence.NewRedis(nobody(t))
	require.ErrorIs(t, kindtest.Err(guard.Do(inner.Context(), "stock", "SET", "which?")), fence.ErrSeveralLocks)
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
	require.ErrorIs(t, kindtest.Err(g.Do(ctx, "stock", "SET", 1)), fence.ErrNoToken)
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
	_, err := g.DoToken(ctx, 1, "stock", "SET", 1)
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

// stock is a key that a guard is for.
type stock struct {
	*testing.T
	rdb   *redis.Client
	guard *fence.Redis
	key   string
}

func newStock(t *testing.T) *stock {
	rdb := redistest.Shared(t).Client(t)
	s := &stock{t, rdb, fence.NewRedis(rdb), t.Name() + ":stock"}
	require.NoError(t, rdb.Del(t.Context(), s.key, "holdfast_fence:{"+s.key+"}").Err())
	return s
}

// set writes under the context of a hold, whether that has ended or not.
func (s *stock) set(ctx context.Context, value string) error {
	_, err := s.guard.Do(context.WithoutCancel(ctx), s.key, "SET", value)
	return err
}

// requireLate: the write of a holder who comes late is refused, and would have landed without the guard.
func (s *stock) requireLate(late *holdfast.Hold, last uint64) {
	before := s.rdb.Get(s.Context(), s.key).Val()
	err := s.set(late.Context(), "late")
	var stale *fence.StaleError
	require.ErrorAs(s, err, &stale)
	require.Equal(s, fence.StaleError{Resource: s.key, Token: late.Token(), Last: last}, *stale)
	require.Equal(s, before, s.rdb.Get(s.Context(), s.key).Val())
	unguarded := context.WithoutCancel(late.Context())
	require.NoError(s, s.rdb.Set(unguarded, s.key, "late", 0).Err(), "control: nothing else keeps it out")
	require.NoError(s, s.rdb.Set(s.Context(), s.key, before, 0).Err())
}

// TestTokensOfReadersAndWriters: a writer has a token of its own, and a reader that of the last write.
// So what was read before a write, and is written after it, is refused.
func TestTokensOfReadersAndWriters(t *testing.T) {
	s := newStock(t)
	m := rwlock.New(newClient(t), t.Name())
	first := lock(t, m, t.Context())
	requireToken(t, first.Token(), first.Context(), t.Name())
	require.NoError(t, s.set(first.Context(), "first"))
	require.NoError(t, first.Unlock(t.Context()))

	reader := lock(t, m.RLocker(), t.Context())
	beside := lock(t, m.RLocker(), t.Context())
	requireToken(t, first.Token(), reader.Context(), t.Name())
	requireToken(t, first.Token(), beside.Context(), t.Name())
	require.NoError(t, s.set(reader.Context(), "read"), "nobody has written since")
	_, err := m.ForceUnlock(t.Context()) // as if they had been paused for longer than their leases
	require.NoError(t, err)

	owner := holdfast.WithOwner(t.Context())
	writer := lock(t, m, owner)
	require.Greater(t, writer.Token(), first.Token())
	require.NoError(t, s.set(writer.Context(), "written"))
	s.requireLate(reader, writer.Token())
	s.requireLate(first, writer.Token())

	reads := lock(t, m.RLocker(), owner)
	require.NoError(t, writer.Unlock(t.Context()))
	requireToken(t, writer.Token(), reads.Context(), t.Name())
	require.NoError(t, s.set(reads.Context(), "it reads what it has written"), "one lock, whose sides are one")
	require.NoError(t, reads.Unlock(t.Context()))
}

// TestTokensOfPermits: each holder of permits has a token, which grows. A store that refuses smaller ones
// would refuse those who hold permits beside the last: package semaphore says so.
func TestTokensOfPermits(t *testing.T) {
	s := newStock(t)
	c := newClient(t)
	permits := semaphore.New(c, t.Name(), 2)
	early, later := lock(t, permits, t.Context()), lock(t, permits, t.Context())
	requireToken(t, early.Token(), early.Context(), t.Name())
	requireToken(t, later.Token(), later.Context(), t.Name())
	require.Greater(t, later.Token(), early.Token())
	require.NoError(t, s.set(later.Context(), "later"))
	s.requireLate(early, later.Token()) // although it holds its permit
	require.NoError(t, early.Unlock(t.Context()))
	require.NoError(t, later.Unlock(t.Context()))
	both, err := permits.Acquire(t.Context(), 2)
	require.NoError(t, err)
	requireToken(t, both.Token(), both.Context(), t.Name())
	require.NoError(t, s.set(both.Context(), "both"))
	s.requireLate(later, both.Token())
	require.NoError(t, both.Unlock(t.Context()))
}

// TestTokensOfLeaders: a leader that was overtaken is refused.
func TestTokensOfLeaders(t *testing.T) {
	s := newStock(t)
	e := election.New(newClient(t), t.Name())
	old, err := e.Campaign(t.Context(), "old")
	require.NoError(t, err)
	requireToken(t, old.Token(), old.Context(), t.Name())
	require.NoError(t, s.set(old.Context(), "old"))
	require.NoError(t, old.Unlock(t.Context()))
	require.NoError(t, e.Run(t.Context(), "next", func(ctx context.Context) error {
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		require.Greater(t, leader.Token, old.Token())
		requireToken(t, leader.Token, ctx, t.Name())
		require.NoError(t, s.set(ctx, "next"))
		s.requireLate(old, leader.Token)
		return nil
	}))
}

// TestTokensOfSeveral: under a multilock's hold each member's token, of any kind, is known by its name. A guard does not choose.
func TestTokensOfSeveral(t *testing.T) {
	s := newStock(t)
	c := newClient(t)
	orders, config := rlock.New(c, t.Name()+":orders"), rwlock.New(c, t.Name()+":config")
	permits := semaphore.New(c, t.Name()+":permits", 3)
	last := lock(t, config, t.Context())
	require.NoError(t, last.Unlock(t.Context()))
	single := lock(t, orders, t.Context())
	require.NoError(t, single.Unlock(t.Context()))

	all := lock(t, multilock.New(permits, config.RLocker(), orders), t.Context())
	of := func(ctx context.Context, name string) uint64 {
		token, ok := fence.TokenOf(ctx, name)
		require.True(t, ok, name)
		return token
	}
	tokens := []uint64{of(all.Context(), orders.Name()), of(all.Context(), config.Name()), of(all.Context(), permits.Name())}
	require.Greater(t, tokens[0], single.Token())
	require.Equal(t, last.Token(), tokens[1], "it reads: the token is that of the last write")
	state := kindtest.State(t, orders)
	require.Equal(t, state.Token, tokens[0])
	require.Equal(t, max(tokens[0], tokens[1], tokens[2]), all.Token())
	require.ErrorIs(t, s.set(all.Context(), "which?"), fence.ErrSeveralLocks)
	guard, err := fence.NewSQL("last_tokens")
	require.NoError(t, err)
	require.ErrorIs(t, guard.Check(all.Context(), nil, "which?"), fence.ErrSeveralLocks)
	require.NoError(t, kindtest.Err(s.guard.DoToken(t.Context(), tokens[0], s.key, "SET", "chosen")))
	require.NoError(t, all.Unlock(t.Context()))
	s.requireLate(single, tokens[0])
	require.Equal(t, tokens[0], of(all.Context(), orders.Name()), "also when it has ended")
}

// TestNobodyIsRefusedInVain: holders who come one after another, within a process and between two clients, all get past the
// guard, also when the lock is handed off with tokens that were reserved before.
func TestNobodyIsRefusedInVain(t *testing.T) {
	for kind, lock := range map[string]func(*holdfast.Client, string) holdfast.Locker{
		"rlock":    func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
		"fairlock": func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	} {
		t.Run(kind, func(t *testing.T) {
			const clients, goroutines, rounds = 2, 8, 20
			rdb := redistest.Shared(t).Client(t)
			guard, key := fence.NewRedis(rdb), t.Name()+":count"
			require.NoError(t, rdb.Del(t.Context(), key).Err())
			locks := [clients]holdfast.Locker{lock(newClient(t), t.Name()), lock(newClient(t), t.Name())}
			leak.Together(clients*goroutines, func(i int) {
				for range rounds {
					assert.NoError(t, holdfast.Do(t.Context(), locks[i%clients], func(ctx context.Context) error {
						_, err := guard.Do(ctx, key, "INCR")
						return err
					}))
				}
			})
			n, err := rdb.Get(t.Context(), key).Int()
			require.NoError(t, err)
			require.Equal(t, clients*goroutines*rounds, n)
		})
	}
}

// TestEndedHoldSaysWhy: a write under the context of a hold that has ended is not sent, and the error has the reason.
func TestEndedHoldSaysWhy(t *testing.T) {
	m := rlock.New(newClient(t), t.Name())
	rdb := redistest.Shared(t).Client(t)
	released := lock(t, m, t.Context())
	require.NoError(t, released.Unlock(t.Context()))
	lost := lock(t, m, t.Context())
	require.NoError(t, kindtest.Err(m.ForceUnlock(t.Context())))
	<-lost.Context().Done()
	for reason, h := range map[error]*holdfast.Hold{holdfast.ErrReleased: released, holdfast.ErrLost: lost} {
		_, err := fence.NewRedis(rdb).Do(h.Context(), t.Name()+":store", "SET", 1)
		require.ErrorIs(t, err, reason)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	require.Zero(t, rdb.Exists(t.Context(), t.Name()+":store").Val())
}

// TestLostReplyIsNotRepeated: the command may have run, so nobody but the caller may send it again.
func TestLostReplyIsNotRepeated(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	rdb, proxy := kindtest.Behind(t, srv.Addr(), 200*time.Millisecond)
	guard := fence.NewRedis(rdb)
	incr := func(key string) error {
		_, err := guard.DoToken(t.Context(), 12, key, "INCR")
		return err
	}
	require.NoError(t, incr("known")) // the server knows the script from here on
	for _, fault := range []faultproxy.Action{faultproxy.DropReply, faultproxy.Cut} {
		t.Run(fault.String(), func(t *testing.T) {
			rule := proxy.On(kindtest.Script(lua.Fence), 1, fault)
			err := incr(fault.String())
			require.Equal(t, 1, rule.Count())
			require.Error(t, err)
			var said redis.Error
			require.False(t, errors.As(err, &said), "the server has said nothing: %v", err)
			n, _ := direct.Get(t.Context(), fault.String()).Int()
			require.LessOrEqual(t, n, 1)
		})
	}
	require.Equal(t, "1", direct.Get(t.Context(), faultproxy.DropReply.String()).Val(), "and it had run")

	// The control: go-redis's own repeats, and it runs twice.
	defer defence.NoRetry.Without(t)()
	proxy.On(kindtest.Script(lua.Fence), 1, faultproxy.DropReply)
	require.NoError(t, incr("control"))
	require.Equal(t, "2", direct.Get(t.Context(), "control").Val())
}
