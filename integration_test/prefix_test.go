package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// prefixable are the kinds that somebody holds.
var prefixable = map[string]func(c *holdfast.Client, name string) holdfast.Locker{
	"rlock":     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
	"fairlock":  func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	"rwlock":    func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) },
	"reader":    func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name).RLocker() },
	"semaphore": func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, 1) },
	"multilock": func(c *holdfast.Client, name string) holdfast.Locker { return multilock.New(rlock.New(c, name)) },
	"redlock": func(c *holdfast.Client, name string) holdfast.Locker {
		return redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts())
	},
}

// TestPrefix: a name and a client's prefix are the name in Redis, of every kind, and in errors.
// Without the prefix it is another lock. Each kind has a server of its own, for a client may have something to give
// back after its user has unlocked.
func TestPrefix(t *testing.T) {
	for kind, lock := range prefixable {
		t.Run(kind, func(t *testing.T) {
			srv := redistest.Start(t)
			ours := newClient(t, srv.Client(t), &holdfast.Options{Prefix: "team:"})
			plain := newClient(t, srv.Client(t), nil)
			mine, same, other := lock(ours, kind), lock(plain, "team:"+kind), lock(plain, kind)
			require.Equal(t, "team:"+kind, mine.Name())
			h, err := mine.Lock(t.Context())
			require.NoError(t, err)
			mustBeUnder(t, srv.Client(t), "team:"+kind)
			if kind != "reader" {
				_, err = same.TryLock(t.Context())
				require.ErrorIs(t, err, holdfast.ErrNotAcquired)
				_, err = mine.TryLock(t.Context())
				require.ErrorContains(t, err, `"team:`+kind+`"`)
			}
			unlike, err := other.TryLock(t.Context())
			require.NoError(t, err, "control: without the prefix")
			require.NoError(t, unlike.Unlock(t.Context()))
			granted := waitingFor(t, same)
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, <-granted)

			for name, remedy := range map[string]string{"": "give the lock a name", "a}": "remove it", "{": "close it"} {
				_, err = lock(ours, name).Lock(t.Context())
				require.ErrorIs(t, err, holdfast.ErrInvalid)
				require.ErrorContains(t, err, remedy)
			}
		})
	}
}

// waitingFor locks and unlocks in the background.
func waitingFor(t *testing.T, m holdfast.Locker) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		h, err := m.Lock(t.Context(), holdfast.Wait(patience))
		if err == nil {
			err = h.Unlock(t.Context())
		}
		done <- err
	}()
	return done
}

// mustBeUnder checks that there are keys, and that all of them are of a name.
func mustBeUnder(t *testing.T, rdb *redis.Client, name string) {
	t.Helper()
	all := rdb.Keys(t.Context(), "*").Val()
	require.NotEmpty(t, all)
	for _, key := range all {
		require.True(t, key == name || strings.Contains(key, "{"+name+"}"), "%s is not of %s", key, name)
	}
}

// TestPrefixOfOthers: likewise of the kinds that nobody holds.
func TestPrefixOfOthers(t *testing.T) {
	srv := redistest.Start(t)
	ours := newClient(t, srv.Client(t), &holdfast.Options{Prefix: "team:"})
	plain := newClient(t, srv.Client(t), nil)

	l := latch.New(ours, "latch")
	require.Equal(t, "team:latch", l.Name())
	_, err := l.Set(t.Context(), 1)
	require.NoError(t, err)
	mustBeUnder(t, srv.Client(t), "team:latch")
	n, err := latch.New(plain, "team:latch").CountDown(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, l.Wait(t.Context(), holdfast.Wait(patience)))
	_, err = latch.New(ours, "").Count(t.Context())
	require.ErrorContains(t, err, "give the lock a name")
	require.NoError(t, srv.Client(t).FlushAll(t.Context()).Err())

	e := election.New(ours, "election")
	require.Equal(t, "team:election", e.Name())
	h, err := e.Campaign(t.Context(), "me")
	require.NoError(t, err)
	mustBeUnder(t, srv.Client(t), "team:election")
	leader, err := election.New(plain, "team:election").Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "me", leader.Value)
	_, err = election.New(plain, "election").Leader(t.Context())
	require.ErrorIs(t, err, election.ErrNoLeader)
	require.NoError(t, h.Unlock(t.Context()))
	_, err = election.New(ours, "").Leader(t.Context())
	require.ErrorContains(t, err, "give the lock a name")
}

// TestPrefixesOfMasters: the masters of a lock have one name for it.
func TestPrefixesOfMasters(t *testing.T) {
	var clients []*holdfast.Client
	for _, prefix := range []string{"a:", "a:", "b:"} {
		clients = append(clients, newClient(t, redistest.Start(t).Client(t), &holdfast.Options{Prefix: prefix}))
	}
	_, err := redlock.New(clients, "x", redlock.TrustRestarts()).Lock(t.Context(), holdfast.Wait(time.Second))
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, `Options.Prefix of clients[2] is "b:", and that of clients[0] is "a:"; give all`)
	h, err := redlock.New(clients[:2], "x", redlock.TrustRestarts()).Lock(t.Context(), holdfast.Wait(patience))
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
}
