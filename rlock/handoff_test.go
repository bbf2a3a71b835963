package rlock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// chain locks and unlocks in so many goroutines of one client, each so often, and checks what one grant sees of the one before it. It
// returns the tokens in the order of the grants.
func chain(t *testing.T, m *rlock.Mutex, goroutines, rounds int, opts ...holdfast.Option) (tokens []uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var before context.Context // of the last holder; guarded by the lock, as tokens are
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for range rounds {
				h, err := m.Lock(ctx, opts...)
				if err != nil {
					t.Error(err)
					return
				}
				if before != nil && context.Cause(before) != holdfast.ErrReleased { //nolint:errorlint // exactly that one
					t.Errorf("the hold before has not ended: %v", context.Cause(before))
				}
				before, tokens = h.Context(), append(tokens, h.Token())
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, tokens, goroutines*rounds)
	return tokens
}

func requireGrowing(t *testing.T, tokens []uint64) {
	t.Helper()
	for i := 1; i < len(tokens); i++ {
		require.Greater(t, tokens[i], tokens[i-1], "token %d", i)
	}
}

// TestHandOff: 64 goroutines of one client. The lock hardly goes back to the server, and without hand-offs always.
func TestHandOff(t *testing.T) {
	const goroutines, rounds = 64, 30
	srv := redistest.Start(t)
	m := rlock.New(newClient(t, srv.Client(t), nil), "a")
	scripts := func(opts ...holdfast.Option) int64 {
		srv.ResetStats(t)
		requireGrowing(t, chain(t, m, goroutines, rounds, opts...))
		calls := srv.CommandCalls(t)
		return calls["evalsha"] + calls["eval"]
	}
	const grants = goroutines * rounds
	handed := scripts()
	t.Logf("%d scripts for %d grants", handed, grants)
	require.Less(t, handed, int64(grants/4))
	require.GreaterOrEqual(t, scripts(holdfast.NoHandoff()), int64(2*grants), "control: two scripts for each")
	require.True(t, free(t, srv.Client(t), "a"))
}

// handed makes a hold that was handed on from another one of the same client, which stays in no way. wait is the context under
// which the next one locks.
func handed(t *testing.T, m *rlock.Mutex, ctx context.Context, opts ...holdfast.Option) (first, next *holdfast.Hold) {
	t.Helper()
	first, err := m.Lock(t.Context(), opts...)
	require.NoError(t, err)
	granted := make(chan *holdfast.Hold, 1)
	before := queued()
	go func() {
		h, err := m.Lock(ctx, opts...)
		if err != nil {
			t.Error(err)
		}
		granted <- h
	}()
	eventually(t, "the next one waits", func() bool { return queued() > before })
	require.NoError(t, first.Unlock(t.Context()))
	next = <-granted
	require.NotNil(t, next)
	return first, next
}

// TestHashTellsTheHolder: after a hand-off the server is told who holds the lock, and without another operation.
func TestHashTellsTheHolder(t *testing.T) {
	c, rdb := shared(t, nil) // it would be renewed in 10 s
	m := rlock.New(c, uniqueName(t))
	first, next := handed(t, m, t.Context())
	require.NotEqual(t, first.Owner(), next.Owner())
	eventually(t, "the hash names the holder", func() bool { return count(t, rdb, m.Name(), next.Owner()) == 1 })
	require.Zero(t, count(t, rdb, m.Name(), first.Owner()), "and nobody else")
	s, err := m.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, next.Owner(), s.Owner)
	require.Equal(t, 1, s.Count)
	require.GreaterOrEqual(t, s.Token, next.Token())
	require.NoError(t, next.Unlock(t.Context()))
	require.True(t, free(t, rdb, m.Name()))
}

// TestHashTellsTheHolderControl: without that a whole renewal passes, and the hash still has the name of the one before.
func TestHashTellsTheHolderControl(t *testing.T) {
	defer control.Rename.Without()()
	const lease = 3 * time.Second
	c, rdb := shared(t, &holdfast.Options{Lease: lease})
	m := rlock.New(c, uniqueName(t))
	first, next := handed(t, m, t.Context())
	deadline := next.Deadline()
	eventually(t, "a renewal", func() bool { return next.Deadline().After(deadline) })
	require.Equal(t, 1, count(t, rdb, m.Name(), first.Owner()))
	require.Zero(t, count(t, rdb, m.Name(), next.Owner()))
	require.NoError(t, next.Unlock(t.Context()))
}

// TestHandedHolderDoesAll: who got the lock handed re-enters, extends, unlocks within and at last, before the hash knows its name and
// after that.
func TestHandedHolderDoesAll(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		c, rdb := shared(t, nil)
		m := rlock.New(c, uniqueName(t))
		first, next := handed(t, m, t.Context())
		if renamed {
			eventually(t, "the hash names the holder", func() bool { return count(t, rdb, m.Name(), next.Owner()) == 1 })
		}
		total := func() int { // under whichever name
			require.EqualValues(t, 1, rdb.HLen(t.Context(), m.Name()).Val())
			return count(t, rdb, m.Name(), first.Owner()) + count(t, rdb, m.Name(), next.Owner())
		}
		inner, err := m.Lock(next.Context())
		require.NoError(t, err)
		require.Equal(t, next.Token(), inner.Token())
		eventually(t, "it counts 2", func() bool { return total() == 2 })
		require.NoError(t, inner.Extend(t.Context(), time.Minute))
		require.Greater(t, rdb.PTTL(t.Context(), m.Name()).Val(), 50*time.Second)
		require.NoError(t, inner.Unlock(t.Context()))
		eventually(t, "it counts 1", func() bool { return total() == 1 })
		require.NoError(t, context.Cause(next.Context()))
		require.NoError(t, next.Unlock(t.Context()))
		require.True(t, free(t, rdb, m.Name()))
		require.ErrorIs(t, next.Unlock(t.Context()), holdfast.ErrReleased)
	}
}

// TestForcedOutAfterHandOff: another client forces the lock from a holder that the hash does not know by its name yet, or does. The
// holder is told by the next renewal, and its unlock says so.
func TestForcedOutAfterHandOff(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		c, rdb := shared(t, &holdfast.Options{Lease: 3 * time.Second})
		other, _ := shared(t, nil)
		m := rlock.New(c, uniqueName(t))
		_, next := handed(t, m, t.Context())
		if renamed {
			eventually(t, "the hash names the holder", func() bool { return count(t, rdb, m.Name(), next.Owner()) == 1 })
		}
		eventually(t, "somebody is forced out", func() bool { // a renaming comes between the two scripts of it
			there, err := rlock.New(other, m.Name()).ForceUnlock(t.Context())
			require.NoError(t, err)
			return there && free(t, rdb, m.Name())
		})
		require.ErrorIs(t, awaitEnd(t, next), holdfast.ErrLost)
		require.ErrorIs(t, next.Unlock(t.Context()), holdfast.ErrLost)
	}
}

// TestNotHandedOn: the lock goes back to the server where the next one wants another lease, none that is renewed, or no hand-off, and
// where the one before had that.
func TestNotHandedOn(t *testing.T) {
	lease, plain, never := holdfast.Lease(20*time.Second), holdfast.NoRenewal(), holdfast.NoHandoff()
	for name, row := range map[string][2][]holdfast.Option{
		"nothing":             {nil, nil},
		"other lease":         {nil, {lease}},
		"same lease":          {{lease}, {lease}},
		"next not renewed":    {nil, {plain}},
		"first not renewed":   {{plain}, nil},
		"next without":        {nil, {never}},
		"first without":       {{never}, nil},
		"neither is renewed":  {{plain}, {plain}},
		"default lease, said": {nil, {holdfast.Lease(holdfast.DefaultLease)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, rdb := shared(t, nil)
			m := rlock.New(c, uniqueName(t))
			first, err := m.Lock(t.Context(), row[0]...)
			require.NoError(t, err)
			granted := make(chan *holdfast.Hold, 1)
			before := queued()
			go func() {
				h, err := m.Lock(t.Context(), row[1]...)
				if err != nil {
					t.Error(err)
				}
				granted <- h
			}()
			eventually(t, "the next one waits", func() bool { return queued() > before })
			require.NoError(t, first.Unlock(t.Context()))
			next := <-granted
			require.NotNil(t, next)
			asked := count(t, rdb, m.Name(), next.Owner()) == 1 // a hand-off is told a tenth of a second later
			handed := strings.Contains(name, "nothing") || name == "same lease" || strings.HasPrefix(name, "default")
			if handed && asked { // by a machine that was slower than that
				t.Log("the name was told before it was looked at")
			} else {
				require.Equal(t, handed, !asked)
			}
			require.Greater(t, next.Token(), first.Token())
			require.NoError(t, next.Unlock(t.Context()))
			require.True(t, free(t, rdb, m.Name()))
		})
	}
}
