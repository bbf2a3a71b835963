package rlock_test

import (
	"context"
	"sync"
	"sync/atomic"
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
	h, err := m.Lock(t.Context(), opts...)
	require.NoError(t, err)
	ctx := h.Context()
	require.NoError(t, h.Unlock(t.Context()))
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

// inBackground locks, and sends the hold; nothing if that fails.
func inBackground(t *testing.T, m *rlock.Mutex) <-chan *holdfast.Hold {
	t.Helper()
	held := make(chan *holdfast.Hold, 1)
	go func() {
		defer close(held)
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		held <- h
	}()
	return held
}

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
	again, err := m.Lock(h.Context())
	require.NoError(t, err)
	require.Equal(t, 2, again.Count())
	require.Equal(t, 2, count(t, rdb, "a", h.Owner()))
	require.NoError(t, again.Unlock(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
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

// TestKeptIsCalledBack: another client asks for a kept lock, and gets it with a greater token.
func TestKeptIsCalledBack(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), holdfast.Keep(forEver))
	token := keepIt(t, rdb, m)
	other, _ := shared(t, nil)
	h, err := rlock.New(other, m.Name()).Lock(t.Context())
	require.NoError(t, err)
	require.Greater(t, h.Token(), token)

	waiting := inBackground(t, m)
	eventually(t, "the former keeper waits", func() bool { return rdb.PubSubNumSub(t.Context(), channelOf(m)).Val()[channelOf(m)] > 0 })
	require.NoError(t, h.Unlock(t.Context()))
	mine := <-waiting
	require.NotNil(t, mine)
	require.Greater(t, mine.Token(), h.Token())
	require.NoError(t, mine.Unlock(t.Context()))
}

// TestKeptIsCalledByTryLock: who asks once is refused by a kept lock, and finds it free later.
func TestKeptIsCalledByTryLock(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), holdfast.Keep(forEver))
	keepIt(t, rdb, m)
	other, _ := shared(t, nil)
	eventually(t, "it is free for who asks again", func() bool {
		h, err := rlock.New(other, m.Name()).TryLock(t.Context())
		if err != nil {
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			return false
		}
		return h.Unlock(t.Context()) == nil
	})
}

// TestKeptAndClosed: Close gives back what is kept.
func TestKeptAndClosed(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), holdfast.Keep(forEver))
	keepIt(t, rdb, m)
	require.NoError(t, keeper.Close(t.Context()))
	require.True(t, free(t, rdb, m.Name()))
	_, err := m.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrClosed)
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
		h, err := m.Lock(t.Context(), opt)
		require.NoError(t, err)
		require.Greater(t, h.Token(), token)
		require.NoError(t, h.Unlock(t.Context()))
		eventually(t, "it is free", func() bool { return free(t, rdb, m.Name()) })
	}
	keepIt(t, rdb, m)
	h, err := m.TryLock(t.Context(), holdfast.Lease(time.Minute))
	require.NoError(t, err, "nobody holds it, so TryLock gets it")
	require.NoError(t, h.Unlock(t.Context()))
}

// TestKeptInTurns: two clients take a lock in turns. It is kept in vain a few times, and then given
// back as without Keep.
func TestKeptInTurns(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	one := rlock.New(newClient(t, rdb, nil), "a", holdfast.Keep(forEver))
	two := rlock.New(newClient(t, rdb, nil), "a", holdfast.Keep(forEver))
	for range 20 { // from here on each knows
		onePair(t, one)
		onePair(t, two)
	}
	before := scripts(t, server)
	const turns = 100
	for range turns {
		onePair(t, one)
		onePair(t, two)
	}
	require.Less(t, scripts(t, server)-before, int64(4*turns*12/10), "hardly more than two for each")
}

// TestWanted: a holder hears of those who want the lock, in its client and in others.
func TestWanted(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), holdfast.Keep(forEver))
	keepIt(t, rdb, m)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	select {
	case <-h.Wanted():
		t.Fatal("nobody wants it")
	default:
	}
	other, _ := shared(t, nil)
	theirs := inBackground(t, rlock.New(other, m.Name()))
	<-h.Wanted()
	require.NoError(t, h.Unlock(t.Context()))
	h = <-theirs // although its Lock came by a call, and the keeper could have it again

	plain := inBackground(t, rlock.New(other, m.Name()))
	<-h.Wanted() // of the same client, without Keep
	again := h.Wanted()
	<-again
	require.NoError(t, h.Unlock(t.Context()))
	h = <-plain
	require.NoError(t, h.Unlock(t.Context()))
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

// TestKeepStorm: clients of all sorts want the same names. There is one holder at a time, tokens
// grow, and everybody is served.
func TestKeepStorm(t *testing.T) {
	const clients, goroutines, rounds, names = 3, 4, 60, 2
	var holders, last [names]atomic.Int64
	name := uniqueName(t)
	var group sync.WaitGroup
	for c := range clients {
		client, _ := shared(t, nil)
		for g := range goroutines {
			group.Go(func() {
				for i := range rounds {
					n := (c + g + i/7) % names
					opts := []holdfast.Option{holdfast.Keep(time.Duration(1+i%5) * 5 * time.Millisecond)}
					switch {
					case i%11 == 0:
						opts = append(opts, holdfast.NoHandoff())
					case i%13 == 0:
						opts = append(opts, holdfast.Lease(time.Minute))
					case i%17 == 0:
						opts = nil
					}
					h, err := rlock.New(client, name+string(rune('0'+n))).Lock(t.Context(), opts...)
					if err != nil {
						t.Error(err)
						return
					}
					if holders[n].Add(1) != 1 {
						t.Error("two holders")
					}
					if before := last[n].Swap(int64(h.Token())); before >= int64(h.Token()) { //nolint:gosec // of this century
						t.Errorf("token %d after %d", h.Token(), before)
					}
					holders[n].Add(-1)
					if err := h.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
}
