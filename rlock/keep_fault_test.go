package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// kept is a lock that a client keeps, and a client beside that.
type kept struct {
	rdb    *redis.Client // of the keeper
	keeper *rlock.Mutex
	other  *rlock.Mutex // the same lock, of another client
}

func newKept(t *testing.T, d time.Duration) *kept {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	other := newClient(t, server.Client(t), nil)
	k := &kept{rdb: rdb, keeper: rlock.New(newClient(t, rdb, nil), "a", holdfast.Keep(d)), other: rlock.New(other, "a")}
	keepIt(t, rdb, k.keeper)
	return k
}

// pause is how long a keeper leaves the lock idle that goes on using it, in a test that ends before
// all tokens are used up that it has: then it asks the server in any case.
const pause = 40 * time.Millisecond

// gets reports whether another client gets the lock, and gives it back.
func (k *kept) gets(t *testing.T, wait time.Duration) bool {
	t.Helper()
	h, err := k.other.Lock(t.Context(), holdfast.Wait(wait))
	if err != nil {
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		return false
	}
	require.NoError(t, h.Unlock(t.Context()))
	return true
}

// listen is somebody who waits as Redisson's clients do: who listens and does not call.
func (k *kept) listen(t *testing.T) <-chan *redis.Message {
	t.Helper()
	ear := k.rdb.Subscribe(t.Context(), channelOf(k.keeper))
	t.Cleanup(func() { require.NoError(t, ear.Close()) })
	_, err := ear.Receive(t.Context())
	require.NoError(t, err)
	return ear.Channel()
}

// breakMailbox ends the connection on which calls arrive, and waits for the next one.
func (k *kept) breakMailbox(t *testing.T) {
	t.Helper()
	mailbox := func() int {
		return len(k.rdb.PubSubChannels(t.Context(), channelOf(k.keeper)+":*").Val())
	}
	require.Positive(t, mailbox())
	require.NoError(t, k.rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	eventually(t, "calls are heard again", func() bool { return mailbox() > 0 })
}

// TestKeptCalls: a client that asks for a kept lock calls it back. So the time for which it may be
// idle does not matter.
func TestKeptCalls(t *testing.T) {
	require.True(t, newKept(t, forEver).gets(t, patience))
	defer defence.KeptCalled.Without(t)()
	require.False(t, newKept(t, forEver).gets(t, soon), "without calls it stays")
}

// TestKeptAndWanted: the call comes while the lock is held. The holder gives it back at its end.
func TestKeptAndWanted(t *testing.T) {
	served := func(wait time.Duration) bool {
		k := newKept(t, forEver)
		h, err := k.keeper.Lock(t.Context())
		require.NoError(t, err)
		got := make(chan bool, 1)
		go func() {
			h, err := k.other.Lock(t.Context(), holdfast.Wait(wait))
			if err == nil {
				_ = h.Unlock(t.Context())
			}
			got <- err == nil
		}()
		<-h.Wanted()
		defer defence.KeptCalled.Without(t)() // or a call that comes after the end of the hold would help
		eventually(t, "it has asked again and waits", func() bool {
			return k.rdb.PubSubNumSub(t.Context(), channelOf(k.keeper)).Val()[channelOf(k.keeper)] > 0
		})
		require.NoError(t, h.Unlock(t.Context()))
		return <-got
	}
	require.True(t, served(patience))
	defer defence.KeptWanted.Without(t)()
	require.False(t, served(soon), "it would wait for the end of what the lock is kept for")
}

// TestKeptForSoLong: an idle lock is given back by itself.
func TestKeptForSoLong(t *testing.T) {
	const d = 50 * time.Millisecond
	k := newKept(t, d)
	ear := k.listen(t)
	eventually(t, "it is given back", func() bool { return free(t, k.rdb, "a") })
	require.Equal(t, "0", (<-ear).Payload, "and that is announced")
	onePair(t, k.keeper)

	k = newKept(t, forEver)
	onePair(t, k.keeper, holdfast.Keep(d)) // the last one says for how long
	eventually(t, "it is given back", func() bool { return free(t, k.rdb, "a") })

	defer defence.KeptIdle.Without(t)()
	k = newKept(t, d)
	ear = k.listen(t)
	select {
	case <-ear:
		t.Fatal("it is not idle for too long")
	case <-time.After(soon):
	}
}

// TestKeptBeforeWhoCannotCall: somebody waits who cannot call. A keeper that is never idle gives the
// lock back all the same. (On a machine that stands still it is idle: then the control tries again.)
func TestKeptBeforeWhoCannotCall(t *testing.T) {
	const d = time.Second
	heard := func(enough time.Duration) (heard, idle bool) {
		k := newKept(t, d)
		ear := k.listen(t)
		for end := time.Now().Add(enough); time.Now().Before(end); {
			begun := time.Now()
			onePair(t, k.keeper)
			select {
			case <-ear:
				return true, idle || time.Since(begun) > d/2
			case <-time.After(d / 10): // it does not use up its tokens, see pause
			}
			idle = idle || time.Since(begun) > d/2
		}
		return false, idle
	}
	given, _ := heard(patience)
	require.True(t, given)
	defer defence.KeptAsk.Without(t)()
	for given, tries := true, 0; given; tries++ {
		var idle bool
		given, idle = heard(d * 3 / 2)
		require.True(t, !given || idle && tries < 20, "nobody gives it back")
	}
}

// TestKeptAndCallsMissed: the connection on which calls arrive breaks. Whoever called meanwhile was
// not heard, so the lock is given back.
func TestKeptAndCallsMissed(t *testing.T) {
	k := newKept(t, forEver)
	k.breakMailbox(t)
	eventually(t, "it is given back", func() bool { return free(t, k.rdb, "a") })
	keepIt(t, k.rdb, k.keeper)

	defer defence.KeptMissed.Without(t)()
	k = newKept(t, forEver)
	ear := k.listen(t)
	require.NoError(t, k.rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	select {
	case <-ear:
		t.Fatal("it is given back all the same")
	case <-time.After(soon):
	}
}

// TestKeptAfterAGap: that happens while the lock is held. Before it is kept again, the server is
// asked who came meanwhile.
func TestKeptAfterAGap(t *testing.T) {
	keeps := func() bool {
		k := newKept(t, forEver)
		h, err := k.keeper.Lock(t.Context())
		require.NoError(t, err)
		k.breakMailbox(t)
		k.listen(t) // its call was lost
		require.NoError(t, h.Unlock(t.Context()))
		return !free(t, k.rdb, "a")
	}
	require.False(t, keeps())
	defer defence.KeptGap.Without(t)()
	require.True(t, keeps())
}

// TestKeptWhileItLeaves: the release of an idle lock is under way. The next Lock of the client waits
// for that, or it would be told that its own client has the lock.
func TestKeptWhileItLeaves(t *testing.T) {
	try := func() error {
		p := newProxied(t, nil)
		m := rlock.New(p.client, "a", holdfast.Keep(50*time.Millisecond))
		keepIt(t, p.direct, m)
		rule := p.proxy.DelayRequest(script(lua.Release), 1, 100*time.Millisecond)
		<-rule.Fired()
		h, err := m.TryLock(t.Context())
		if err == nil {
			require.NoError(t, h.Unlock(t.Context()))
		}
		return err
	}
	require.NoError(t, try())
	defer defence.KeptLeaves.Without(t)()
	eventually(t, "its own client is in the way", func() bool { return errors.Is(try(), holdfast.ErrNotAcquired) })
}

// TestKeptAndForced: the lock is forced free while it is kept. The client learns of that at once, and
// not when it renews the lease.
func TestKeptAndForced(t *testing.T) {
	theirs := func(within time.Duration) bool {
		k := newKept(t, forEver)
		forced, err := k.other.ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, forced)
		h, err := k.other.Lock(t.Context())
		require.NoError(t, err)
		for end := time.Now().Add(within); time.Now().Before(end); {
			mine, err := k.keeper.TryLock(t.Context())
			if errors.Is(err, holdfast.ErrNotAcquired) {
				return h.Unlock(t.Context()) == nil
			}
			require.NoError(t, err)
			require.Less(t, mine.Token(), h.Token(), "which a fence refuses")
			_ = mine.Unlock(context.Background())
			<-time.After(pause)
		}
		return false
	}
	require.True(t, theirs(patience))
	defer defence.KeptForced.Without(t)()
	require.False(t, theirs(soon))
}

// TestKeptAndLost: the server loses a lock that is kept. No hold is lost by that, and nothing is left
// when the next one asks.
func TestKeptAndLost(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	m := rlock.New(newClient(t, rdb, &holdfast.Options{Lease: time.Second}), "a", holdfast.Keep(forEver))
	token := keepIt(t, rdb, m)
	require.NoError(t, rdb.Set(t.Context(), "a", "somebody else's", time.Hour).Err())
	eventually(t, "a renewal has seen it", func() bool {
		h, err := m.TryLock(t.Context())
		if err == nil {
			_ = h.Unlock(t.Context())
		}
		return err != nil
	})
	require.NoError(t, rdb.Del(t.Context(), "a").Err())
	require.Greater(t, onePair(t, m), token)
}

// TestKeptAndStopped: the server is silent for longer than the lease while the lock is kept. It is not
// given to the next Lock then, which asks the server and gets it when that answers.
func TestKeptAndStopped(t *testing.T) {
	p := newProxied(t, &holdfast.Options{Lease: time.Second})
	m := rlock.New(p.client, "a", holdfast.Keep(forEver))
	token := keepIt(t, p.direct, m)
	p.proxy.Silence(true)
	eventually(t, "its lease ends", func() bool { return free(t, p.direct, "a") })
	other := newClient(t, p.direct, nil)
	theirs, err := rlock.New(other, "a").Lock(t.Context())
	require.NoError(t, err)
	h, err := m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable, "it holds %v", h)
	p.proxy.Silence(false)
	require.NoError(t, theirs.Unlock(t.Context()))
	require.Greater(t, onePair(t, m), token)
}
