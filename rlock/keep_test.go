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
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// forEver is a Keep whose idleness does not end in a test.
const forEver = time.Hour

// onePair locks and unlocks once, and returns the token.
func onePair(t testing.TB, m *rlock.Mutex, opts ...holdfast.Option) uint64 {
	h := lock(t, m, opts...)
	ctx := h.Context()
	unlock(t, h)
	require.Equal(t, holdfast.ErrReleased, context.Cause(ctx))
	return h.Token()
}

// keepIt has a client keep the lock. It takes more than one pair: the client listens for calls only from the first one on.
func keepIt(t testing.TB, rdb redis.UniversalClient, m *rlock.Mutex) (token uint64) {
	require.Eventually(t, func() bool {
		token = onePair(t, m)
		return !free(t, rdb, m.Name())
	}, patience, time.Millisecond, "the lock is kept")
	return token
}

// scripts is how many scripts a server has run.
func scripts(t testing.TB, s *redistest.Server) int64 {
	calls := s.CommandCalls(t)
	return calls["evalsha"] + calls["eval"]
}

func channelOf(m *rlock.Mutex) string { return "redisson_lock__channel:{" + m.Name() + "}" }

// TestKeep: the client that keeps a lock takes it without asking the server, with growing tokens.
func TestKeep(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	m := rlock.New(newClient(t, rdb, nil), "a", rlock.Keep(forEver))
	tokens := []uint64{keepIt(t, rdb, m)}
	before := scripts(t, server)
	const pairs = 1000
	for range pairs {
		tokens = append(tokens, onePair(t, m))
	}
	require.IsIncreasing(t, tokens)
	require.Less(t, scripts(t, server)-before, int64(pairs/10), "only for more tokens")
	state := kindtest.State(t, m)
	require.Positive(t, state.Remaining)
	require.Equal(t, 1, state.Count, "to Redis it is held")

	h := take(t.Context(), t, m.TryLock)
	again := take(h.Context(), t, m.Lock)
	require.Equal(t, 2, again.Count())
	require.Equal(t, 2, count(t, rdb, "a", h.Owner()))
	unlock(t, again, h)
}

// TestWithoutKeep is the control: each pair is two scripts, and nothing else is sent.
func TestWithoutKeep(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	m := rlock.New(newClient(t, rdb, nil), "a", rlock.Keep(forEver), rlock.Keep(0))
	onePair(t, m)
	server.ResetStats(t)
	for range 10 {
		onePair(t, m)
		require.True(t, free(t, rdb, "a"))
	}
	calls := server.CommandCalls(t)
	require.Equal(t, int64(20), calls["evalsha"])
	require.Zero(t, calls["eval"]+calls["subscribe"]+calls["unsubscribe"]+calls["ssubscribe"])
}

// TestKeptAndUnfit: the next Lock of the client wants what the kept lock is not. It is given back and asked for anew.
func TestKeptAndUnfit(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), rlock.Keep(forEver))
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
	unlock(t, take(t.Context(), t, m.TryLock, holdfast.Lease(time.Minute)))
}

// TestWanted: a holder hears of those who want the lock, in its client and in others.
func TestWanted(t *testing.T) {
	keeper, rdb := shared(t, nil)
	m := rlock.New(keeper, uniqueName(t), rlock.Keep(forEver))
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
	unlock(t, plain.Hold())
	require.Nil(t, (*holdfast.Hold)(nil).Wanted())
}

// kept is a lock that a client keeps, and a client beside that.
type kept struct {
	rdb    *redis.Client // of the keeper
	keeper *rlock.Mutex
	other  *rlock.Mutex // the same lock, of another client
}

func newKept(t *testing.T, d time.Duration) *kept {
	server := redistest.Start(t)
	rdb := server.Client(t)
	other := newClient(t, server.Client(t), nil)
	k := &kept{rdb: rdb, keeper: rlock.New(newClient(t, rdb, nil), "a", rlock.Keep(d)), other: rlock.New(other, "a")}
	keepIt(t, rdb, k.keeper)
	return k
}

// pause is how long a keeper leaves the lock idle that goes on using it, in a test that ends before
// all tokens are used up that it has: then it asks the server in any case.
const pause = 40 * time.Millisecond

// listen is somebody who waits as Redisson's clients do: who listens and does not call.
func (k *kept) listen(t *testing.T) <-chan *redis.Message {
	return redistest.Subscribed(t, k.rdb, channelOf(k.keeper)).Channel()
}

// TestKeptAndWanted: the call comes while the lock is held. The holder gives it back at its end.
func TestKeptAndWanted(t *testing.T) {
	served := func(wait time.Duration) bool {
		k := newKept(t, forEver)
		h := lock(t, k.keeper)
		other := begin(t.Context(), t, k.other.Lock, holdfast.Wait(wait))
		<-h.Wanted()
		defer defence.KeptCalled.Without(t)() // or a call that comes after the end of the hold would help
		awaitSubscriber(t, k.rdb, "a")        // it has asked again and waits
		unlock(t, h)
		theirs, err := other.Result()
		if err == nil {
			unlock(t, theirs)
		}
		return err == nil
	}
	require.True(t, served(patience))
	defer defence.KeptWanted.Without(t)()
	require.False(t, served(soon), "it would wait for the end of what the lock is kept for")
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

// TestKeptAndForced: a kept lock is forced free. The client learns of that at once, not when it renews the lease.
func TestKeptAndForced(t *testing.T) {
	theirs := func(within time.Duration) bool {
		k := newKept(t, forEver)
		kindtest.Forced(t, k.other)
		h := lock(t, k.other)
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

// TestKeptAndStopped: the server is silent for longer than the lease while the lock is kept. It is not
// given to the next Lock then, which asks the server and gets it when that answers.
func TestKeptAndStopped(t *testing.T) {
	t.Parallel()
	p := newProxied(t, &holdfast.Options{Lease: time.Second})
	m := rlock.New(p.client, "a", rlock.Keep(forEver))
	token := keepIt(t, p.direct, m)
	p.proxy.Silence(true)
	eventually(t, "its lease ends", func() bool { return free(t, p.direct, "a") })
	other := newClient(t, p.direct, nil)
	theirs := lock(t, rlock.New(other, "a"))
	h, err := m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnavailable, "it holds %v", h)
	p.proxy.Silence(false)
	unlock(t, theirs)
	require.Greater(t, onePair(t, m), token)
}

// TestHandOff: 64 goroutines of one client. The lock hardly goes back to the server, and without hand-offs always.
func TestHandOff(t *testing.T) {
	const goroutines, rounds = 64, 10
	srv := redistest.Start(t)
	m := rlock.New(newClient(t, srv.Client(t), nil), "a")
	scripts := func(opts ...holdfast.Option) int64 {
		srv.ResetStats(t)
		require.IsIncreasing(t, chain(t, m, goroutines, rounds, opts...))
		calls := srv.CommandCalls(t)
		return calls["evalsha"] + calls["eval"]
	}
	const grants = goroutines * rounds
	start := time.Now()
	handed := scripts()
	t.Logf("%d scripts for %d grants", handed, grants)
	looks := int64(time.Since(start) / (10 * time.Millisecond)) // of a slow machine most are for these
	require.Less(t, handed, grants/8+looks)
	require.GreaterOrEqual(t, scripts(holdfast.NoHandoff()), int64(2*grants), "control: two scripts for each")
	require.True(t, free(t, srv.Client(t), "a"))
}

// handed makes a hold that was handed off from another one of the same client.
func handed(t *testing.T, m *rlock.Mutex, opts ...holdfast.Option) (first, next *holdfast.Hold) {
	l := lineUp(t.Context(), t, m, 1, opts...)
	unlock(t, l.holder)
	return l.holder, l.next[0].Hold()
}

// TestHandedHolder: the hash names the one who got the lock from the server for as long as the client hands it off, and so does
// every holder. Who got the lock handed re-enters, extends, unlocks within and at last.
func TestHandedHolder(t *testing.T) {
	c, rdb := shared(t, nil)
	m := rlock.New(c, uniqueName(t))
	first, next := handed(t, m)
	require.Equal(t, first.Owner(), next.Owner())
	counts := func(n string) {
		require.Equal(t, map[string]string{next.Owner(): n}, rdb.HGetAll(t.Context(), m.Name()).Val())
	}
	counts("1")
	s := kindtest.State(t, m)
	require.Equal(t, next.Owner(), s.Owner)
	require.GreaterOrEqual(t, s.Token, next.Token())
	inner := take(next.Context(), t, m.Lock)
	require.Equal(t, next.Token(), inner.Token())
	counts("2")
	require.NoError(t, inner.Extend(t.Context(), time.Minute))
	require.Greater(t, rdb.PTTL(t.Context(), m.Name()).Val(), 50*time.Second)
	unlock(t, inner)
	counts("1")
	require.NoError(t, context.Cause(next.Context()))
	unlock(t, next)
	require.True(t, free(t, rdb, m.Name()))
	require.ErrorIs(t, next.Unlock(t.Context()), holdfast.ErrReleased)
}

// TestOwnerThatHandedOnIsAnother: the lock was handed off, and whoever had it before asks for it again. The hash still has the
// id under which that was granted, but it is not theirs any more: an attempt that is repeated is refused.
func TestOwnerThatHandedOnIsAnother(t *testing.T) {
	again := func(t *testing.T) error {
		p := newProxied(t, nil)
		warm(t, p)
		owner := holdfast.WithOwner(t.Context())
		first := take(owner, t, p.mutex.Lock)
		l := &line{mutex: p.mutex}
		l.join(t.Context(), t)
		unlock(t, first)
		next := l.next[0].Hold()
		require.Equal(t, first.Owner(), next.Owner(), "handed on")
		rule := p.proxy.On(script(lua.Acquire), 1, faultproxy.DropReply)
		second, err := p.mutex.TryLock(owner)
		require.Equal(t, 1, rule.Count())
		if err == nil {
			require.NoError(t, context.Cause(next.Context()), "two holders")
			_ = second.Unlock(t.Context())
		}
		_ = next.Unlock(t.Context())
		return err
	}
	require.ErrorIs(t, again(t), holdfast.ErrNotAcquired)
	defer defence.FreshOwner.Without(t)()
	require.NoError(t, again(t), "control: it is taken for the holder")
}

// TestNotHandedOn: the lock goes back to the server where either side wants another lease, no renewal, or no hand-off.
func TestNotHandedOn(t *testing.T) {
	lease, plain, never := holdfast.Lease(20*time.Second), holdfast.NoRenewal(), holdfast.NoHandoff()
	for name, row := range map[string]struct {
		first, next []holdfast.Option
		handed      bool
	}{
		"nothing":             {nil, nil, true},
		"other lease":         {nil, []holdfast.Option{lease}, false},
		"same lease":          {[]holdfast.Option{lease}, []holdfast.Option{lease}, true},
		"next not renewed":    {nil, []holdfast.Option{plain}, false},
		"first not renewed":   {[]holdfast.Option{plain}, nil, false},
		"next without":        {nil, []holdfast.Option{never}, false},
		"first without":       {[]holdfast.Option{never}, nil, false},
		"neither is renewed":  {[]holdfast.Option{plain}, []holdfast.Option{plain}, false},
		"default lease, said": {nil, []holdfast.Option{holdfast.Lease(holdfast.DefaultLease)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, rdb := shared(t, nil)
			m := rlock.New(c, uniqueName(t))
			l := lineUp(t.Context(), t, m, 0, row.first...)
			l.join(t.Context(), t, row.next...)
			unlock(t, l.holder)
			next := l.next[0].Hold()
			require.Equal(t, row.handed, l.holder.Owner() == next.Owner())
			require.Greater(t, next.Token(), l.holder.Token())
			unlock(t, next)
			require.True(t, free(t, rdb, m.Name()))
		})
	}
}
