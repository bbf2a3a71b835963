package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// forEver is a Keep whose idleness does not end in a test.
const forEver = time.Hour

// onePair locks and unlocks once, and returns the token.
func onePair(t testing.TB, m *rlock.Mutex, opts ...holdfast.Option) uint64 {
	t.Helper()
	h := lock(t, m, opts...)
	ctx := h.Context()
	unlock(t, h)
	require.Equal(t, holdfast.ErrReleased, context.Cause(ctx))
	return h.Token()
}

// keepIt has a client keep the lock. That takes more than one pair, because the client listens for
// calls only from the first one on.
func keepIt(t testing.TB, rdb redis.UniversalClient, m *rlock.Mutex) (token uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		token = onePair(t, m)
		return !free(t, rdb, m.Name())
	}, patience, time.Millisecond, "the lock is kept")
	return token
}

// scripts is how many scripts a server has run.
func scripts(t testing.TB, s *redistest.Server) int64 {
	t.Helper()
	calls := s.CommandCalls(t)
	return calls["evalsha"] + calls["eval"]
}

func channelOf(m *rlock.Mutex) string { return "redisson_lock__channel:{" + m.Name() + "}" }

// TestKeep: the client that keeps a lock takes it without asking the server, with growing tokens.
func TestKeep(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	m := rlock.New(newClient(t, rdb, nil), "a", holdfast.Keep(forEver))
	tokens := []uint64{keepIt(t, rdb, m)}
	before := scripts(t, server)
	const pairs = 1000
	for range pairs {
		tokens = append(tokens, onePair(t, m))
	}
	requireGrowing(t, tokens)
	require.Less(t, scripts(t, server)-before, int64(pairs/10), "only for more tokens")
	state, err := m.State(t.Context())
	require.NoError(t, err)
	require.Positive(t, state.Remaining)
	require.Equal(t, 1, state.Count, "to Redis it is held")

	h, err := m.TryLock(t.Context())
	require.NoError(t, err, "TryLock takes it, too")
	again := take(h.Context(), t, m.Lock)
	require.Equal(t, 2, again.Count())
	require.Equal(t, 2, count(t, rdb, "a", h.Owner()))
	unlock(t, again, h)
}

// TestWithoutKeep is the control: each pair is two scripts.
func TestWithoutKeep(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	m := rlock.New(newClient(t, rdb, nil), "a", holdfast.Keep(forEver), holdfast.Keep(0))
	onePair(t, m)
	before := scripts(t, server)
	for range 10 {
		onePair(t, m)
		require.True(t, free(t, rdb, "a"))
	}
	require.Equal(t, int64(20), scripts(t, server)-before)
}

// TestKeptAndUnfit: the next Lock of the client wants what the kept lock is not. It is given back and
// asked for anew.
func TestKeptAndUnfit(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), holdfast.Keep(forEver))
	for _, opt := range []holdfast.Option{
		holdfast.Lease(time.Minute), holdfast.NoRenewal(), holdfast.NoHandoff(), holdfast.HoldAtLeast(10 * time.Millisecond),
	} {
		token := keepIt(t, rdb, m)
		h := lock(t, m, opt)
		require.Greater(t, h.Token(), token)
		unlock(t, h)
		eventually(t, "it is free", func() bool { return free(t, rdb, m.Name()) })
	}
	keepIt(t, rdb, m)
	h, err := m.TryLock(t.Context(), holdfast.Lease(time.Minute))
	require.NoError(t, err, "nobody holds it, so TryLock gets it")
	unlock(t, h)
}

// TestWanted: a holder hears of those who want the lock, in its client and in others.
func TestWanted(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), holdfast.Keep(forEver))
	keepIt(t, rdb, m)
	h := lock(t, m)
	select {
	case <-h.Wanted():
		t.Fatal("nobody wants it")
	default:
	}
	other, _ := shared(t, nil)
	theirs := begin(t.Context(), t, rlock.New(other, m.Name()).Lock)
	<-h.Wanted()
	unlock(t, h)
	h = theirs.Hold() // although its Lock came by a call, and the keeper could have it again

	plain := begin(t.Context(), t, rlock.New(other, m.Name()).Lock)
	<-h.Wanted() // of the same client, without Keep
	again := h.Wanted()
	<-again
	unlock(t, h)
	h = plain.Hold()
	unlock(t, h)
	require.Nil(t, (*holdfast.Hold)(nil).Wanted())
}

// TestKeepRefused: what cannot be kept is refused before anything is sent.
func TestKeepRefused(t *testing.T) {
	c, _ := shared(t, nil)
	for _, l := range []holdfast.Locker{
		rlock.New(c, "a", holdfast.Keep(-time.Second)), fairlock.New(c, "a", holdfast.Keep(time.Second)),
		redlock.New([]*holdfast.Client{c}, "a", holdfast.Keep(time.Second)),
	} {
		_, err := l.Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, "Keep is ")
	}
}
