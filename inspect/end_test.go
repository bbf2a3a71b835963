package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// testEnd: an owner's hold of each kind is ended. Its holder is told, and a waiter gets it. A stale owner or token does nothing.
func testEnd(t *testing.T, rdb redis.UniversalClient) {
	i := newInspector(t, rdb, nil)
	for kind, make := range map[string]func(c *holdfast.Client, name string) kindtest.Acquire{
		"rlock":    func(c *holdfast.Client, name string) kindtest.Acquire { return rlock.New(c, name).Lock },
		"fairlock": func(c *holdfast.Client, name string) kindtest.Acquire { return fairlock.New(c, name).Lock },
		"election": func(c *holdfast.Client, name string) kindtest.Acquire {
			return func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
				return election.New(c, name).Campaign(ctx, "value", opts...)
			}
		},
		"write":     func(c *holdfast.Client, name string) kindtest.Acquire { return rwlock.New(c, name).Lock },
		"semaphore": func(c *holdfast.Client, name string) kindtest.Acquire { return semaphore.New(c, name, 1).Lock },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			first, second := newClient(t, rdb, nil), newClient(t, rdb, nil)
			h := kindtest.Take(ctx, t, make(first, kind))
			got := kindtest.Begin(t.Context(), t, make(second, kind))
			eventually(t, "somebody waits", func() bool {
				l := look(t, i, kind)
				return l.Waiters > 0 || l.Listening > 0
			})
			before := look(t, i, kind)
			for _, stale := range []inspect.Grant{
				{Owner: ours}, {Token: before.Token - 1}, {Owner: h.Owner(), Token: before.Token + 1}, {Owner: ours, Token: before.Token},
			} {
				require.ErrorIs(t, kindtest.Err(i.End(ctx, kind, stale)), inspect.ErrStale, "%+v", stale)
			}
			after := look(t, i, kind)
			require.Equal(t, before.Holders[0].Owner, after.Holders[0].Owner)
			require.Equal(t, before.Token, after.Token)
			require.Len(t, after.Queue, len(before.Queue))
			require.NoError(t, h.Context().Err())

			ended, err := i.End(ctx, kind, inspect.Grant{Owner: h.Owner(), Token: before.Token})
			require.NoError(t, err)
			require.Empty(t, ended.Untold)
			require.Equal(t, h.Owner(), ended.Holder.Owner)
			require.LessOrEqual(t, ended.Until, 30*time.Second)
			next := got.Hold()
			require.Greater(t, next.Token(), h.Token())
			require.ErrorIs(t, h.Extend(ctx, time.Minute), holdfast.ErrLost, "the holder is told when it asks")
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
			_, err = i.End(ctx, kind, inspect.Grant{Owner: h.Owner()})
			require.ErrorIs(t, err, inspect.ErrStale, "it is the next one's now")
			require.NoError(t, next.Context().Err())
			require.NoError(t, kindtest.Err(i.End(ctx, kind, inspect.Grant{Owner: next.Owner()})))
			require.Zero(t, rdb.ZCard(ctx, keys.For(kind).Deadlines).Val(), "as if it had given back what it was handed")
			require.ErrorIs(t, next.Unlock(ctx), holdfast.ErrLost)
			require.ErrorIs(t, kindtest.Err(i.End(ctx, kind, inspect.Grant{Owner: next.Owner()})), inspect.ErrFree)
		})
	}
}

// testEndOneOfSeveral: others who read, or have permits, keep what they have.
func testEndOneOfSeveral(t *testing.T, rdb redis.UniversalClient) {
	ctx, i := context.Background(), newInspector(t, rdb, nil)
	for name, kind := range map[string]func(c *holdfast.Client) holdfast.Locker{
		"rw":  func(c *holdfast.Client) holdfast.Locker { return rwlock.New(c, "rw").RLocker() },
		"sem": func(c *holdfast.Client) holdfast.Locker { return semaphore.New(c, "sem", 3) },
	} {
		c := newClient(t, rdb, nil)
		one, other := hold(t, kind(c)), hold(t, kind(c))
		token := look(t, i, name).Token
		require.ErrorContains(t, kindtest.Err(i.End(ctx, name, inspect.Grant{Token: token})), "name the owner")
		require.ErrorIs(t, kindtest.Err(i.End(ctx, name, inspect.Grant{Owner: ours})), inspect.ErrStale)
		require.NoError(t, kindtest.Err(i.End(ctx, name, inspect.Grant{Owner: one.Owner()})))
		l := look(t, i, name)
		require.Len(t, l.Holders, 1)
		require.Equal(t, other.Owner(), l.Holders[0].Owner)
		require.ErrorIs(t, other.Extend(ctx, time.Minute), nil)
		require.ErrorIs(t, one.Extend(ctx, time.Minute), holdfast.ErrLost, "the holder is told when it asks")
		require.NoError(t, other.Context().Err())
	}
}

// TestEndKept: a lock that a client keeps without a holder is given up at once, and the client knows.
func TestEndKept(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx, i := context.Background(), newInspector(t, rdb, nil)
	a, b := newClient(t, rdb, nil), newClient(t, rdb, nil)
	m := rlock.New(a, "kept", rlock.Keep(time.Hour))
	var l inspect.Lock
	eventually(t, "it is kept after Unlock", func() bool {
		require.NoError(t, hold(t, m).Unlock(ctx))
		l = look(t, i, "kept")
		return l.Kind == inspect.Plain && l.Held()
	})
	require.NoError(t, kindtest.Err(i.End(ctx, "kept", inspect.Grant{Owner: l.Holders[0].Owner})))
	theirs := kindtest.Take(ctx, t, rlock.New(b, "kept").TryLock)
	eventually(t, "the client knows, and asks", func() bool {
		h, err := m.TryLock(ctx)
		if err == nil { // not told yet: it gave what it kept, as a holder works on until it is told
			_ = h.Unlock(ctx)
			return false
		}
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		return true
	})
	require.NoError(t, theirs.Unlock(ctx))
}

// TestEndRefuses: what cannot be meant.
func TestEndRefuses(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx, i := context.Background(), newInspector(t, rdb, nil)
	rdb.HSet(ctx, "data", "colour", "red")
	rdb.Set(ctx, "latch", 3, time.Minute)
	for name, says := range map[string]string{"data": "not a lock of this library", "latch": "which nobody holds", "free": "nobody has it", "": "name is empty"} {
		require.ErrorContains(t, kindtest.Err(i.End(ctx, name, inspect.Grant{Owner: ours})), says)
	}
	require.ErrorContains(t, kindtest.Err(i.End(ctx, "x", inspect.Grant{})), "name the owner, or the token")
	require.Equal(t, map[string]string{"colour": "red"}, rdb.HGetAll(ctx, "data").Val())
}
