package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/semaphore"
)

// proxied is the semaphore for a client behind a proxy, which gives up a reply quickly; on a slow machine without a fault too.
func (l *lab) proxied(hooks ...redis.Hook) (*semaphore.Semaphore, *faultproxy.Proxy) {
	rdb, proxy := kindtest.Behind(l.TB, l.srv.Addr(), 100*time.Millisecond, hooks...)
	return l.through(rdb, nil), proxy
}

// TestAtMostOnce: each operation meets each fault, and is repeated. The server has what it should.
func TestAtMostOnce(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		l := newLab(t, 5)
		s, proxy := l.proxied()
		kindtest.Load(t, l.rdb, lua.SemAcquire, lua.SemRenew, lua.SemRelease, lua.SemSet, lua.SemState)
		first := lock(t, s) // the client knows the server's clock
		hit := func(s *lua.Script) { kindtest.Strike(t, proxy, s, fault) }
		hit(lua.SemAcquire)
		h := l.some(s, 3)
		require.Equal(t, 1, l.free())
		require.EqualValues(t, 4, l.out())
		hit(lua.SemRenew)
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		hit(lua.SemState)
		state := kindtest.State(t, s)
		require.Equal(t, [...]int{5, 1, 0, 2}, [...]int{state.Permits, state.Free, state.Waiters, len(state.Holders)})
		hit(lua.SemSet)
		require.NoError(t, s.SetPermits(t.Context(), 7))
		require.Equal(t, 3, l.free())
		hit(lua.SemRelease)
		unlock(t, h)
		require.Equal(t, 6, l.free())
		unlock(t, first)
		l.permits = 7
		l.settled()
	})
}

// The control: without the look at what the owner has, a repeated release counts twice. (TestLate shows it of an attempt.)
func TestRepeatControl(t *testing.T) {
	l := newLab(t, 5)
	s, proxy := l.proxied(mutant.Hook(lua.SemRelease, "local n = take(owner)", "local n = math.max(1, take(owner))"))
	unlock(t, lock(t, s)) // the server knows the script
	h := lock(t, s)
	proxy.On(faultproxy.Any, 1, faultproxy.DropReply)
	unlock(t, h)
	require.Greater(t, l.free(), 5)
}

// late has a request for two of five permits kept by the network until its repeat was granted them, with
// a lease that was then lengthened. It returns how many are free then, and how much of the lease is left.
func late(t *testing.T, hooks ...redis.Hook) (free int, left time.Duration) {
	l := newLab(t, 5)
	s, proxy := l.proxied(hooks...)
	unlock(t, lock(t, s)) // the client knows the server's clock
	proxy.KeepRequest(faultproxy.Command("EVAL", "EVALSHA"), 1, time.Hour)
	h := l.some(s, 2)
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	proxy.Deliver()
	state := kindtest.State(t, s)
	require.Equal(t, h.Owner(), state.Holders[0].Owner)
	free = l.free()
	unlock(t, h)
	return free, state.Holders[0].Remaining
}

// TestLate: what the network has kept for long counts nothing again, and shortens no lease.
func TestLate(t *testing.T) {
	free, left := late(t)
	require.Equal(t, 3, free)
	require.Greater(t, left, 50*time.Minute)

	// The control: without the look at what the owner has, nor at what of that is new.
	free, left = late(t, mutant.Hook(lua.SemAcquire, "if has(owner) and whole(owner, n) then", "if false then", "name, 0 - added)", "name, 0 - n)"))
	require.Equal(t, 1, free, "and not 3")
	require.Less(t, left, time.Minute)
}

// TestMissedMessage: a waiter that misses the message of its permit finds out by the poll while that is its own, and asks once.
func TestMissedMessage(t *testing.T) {
	l := newLab(t, 1)
	mute := mutant.Hook(lua.SemRelease, "unheard = publish(command, channel .. ':' .. id, text)", "unheard = nil")
	h := lock(t, l.edited(mute))
	s, proxy := l.proxied()
	waits := l.acquire(t.Context(), s, 1)
	l.waiting(1)
	unlock(t, h)
	unlock(t, waits.Hold())
	l.settled()
	require.LessOrEqual(t, proxy.Seen(kindtest.Script(lua.SemAcquire)), 5)
}

// silent has the only permit come back while a client with several waiters does not answer, and
// another waits behind it. It returns how often the permit was handed to the silent one.
func silent(t *testing.T, hooks ...redis.Hook) int {
	const waiters = 3
	l := newLab(t, 1)
	h := lock(t, l.edited(hooks...))
	s, proxy := l.proxied(hooks...)
	ctx, cancel := context.WithCancel(t.Context())
	var dead []*kindtest.Pending
	for i := range waiters {
		dead = append(dead, l.acquire(ctx, s, 1))
		l.waiting(int64(i + 1))
	}
	alive := l.acquire(t.Context(), l.edited(hooks...), 1)
	l.waiting(waiters + 1)
	eventually(t, "its mailbox", func() bool { return len(l.mailboxes()) == 2 })
	boxes := l.rdb.Subscribe(t.Context(), l.mailboxes()...)
	defer boxes.Close()
	messages := boxes.Channel()
	eventually(t, "they are heard", func() bool {
		n := l.rdb.PubSubNumSub(t.Context(), l.mailboxes()[0], l.mailboxes()[1]).Val()
		return n[l.mailboxes()[0]] == 2 && n[l.mailboxes()[1]] == 2
	})
	proxy.Silence(true)
	unlock(t, h)
	unlock(t, alive.Hold())
	proxy.Silence(false)
	cancel()
	for _, c := range dead {
		if h, _ := c.Result(); h != nil {
			unlock(t, h)
		}
	}
	handed := -1 // without the message to the one who lives
	for len(messages) > 0 {
		<-messages
		handed++
	}
	return handed
}

// mailboxes are the channels on which clients hear of what they are handed.
func (l *lab) mailboxes() []string {
	return l.rdb.PubSubChannels(context.Background(), "redisson_sc:{"+l.name+"}:*").Val()
}

// TestSilentClient: one that does not answer costs those behind it one claim, and not one for each of its waiters.
func TestSilentClient(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, silent(t), 2, "and one more if its poll came late")
}

// The control: without what is known of an ended claim. It takes up to five tries: an early poll takes a place out of the queue.
func TestSilentClientControl(t *testing.T) {
	t.Parallel()
	var hooks []redis.Hook
	for _, s := range []*lua.Script{lua.SemAcquire, lua.SemRelease, lua.SemPoll} {
		hooks = append(hooks, mutant.Hook(s, "return not lapsed or", "return true or"))
	}
	most := 0
	for range 5 {
		if most = max(most, silent(t, hooks...)); most > 2 {
			return
		}
	}
	require.Greater(t, most, 2)
}

// TestEnded: permits of a hold that was not renewed come back, all of them, and nobody else's do.
func TestEnded(t *testing.T) {
	l := newLab(t, 5)
	a, b := l.process(nil), l.process(nil)
	h := l.some(a, 3, holdfast.NoRenewal(), holdfast.Lease(time.Second))
	stays := l.some(b, 2)
	got := l.acquire(t.Context(), b, 3).Hold()
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
	require.Zero(t, l.free())
	require.EqualValues(t, 5, l.out())
	unlock(t, stays, got)
	l.settled()
}

// The control: permits that are taken back uncounted are lost. (They are a dead process's: a living one gives back its own.)
func TestEndedControl(t *testing.T) {
	l := newLab(t, 5)
	require.NoError(t, l.rdb.Set(t.Context(), l.name, 2, time.Hour).Err())
	for _, permit := range []string{"a:h1", "a:h1/2", "a:h1/3"} {
		require.NoError(t, l.rdb.ZAdd(t.Context(), l.ends(), redis.Z{Member: permit, Score: 1}).Err())
	}
	_, err := l.edited(mutant.Hook(lua.SemAcquire, "change(#ended)", "")).TryAcquire(t.Context(), 3)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.Zero(t, l.out())
	require.Equal(t, 2, l.free(), "and not 5")
}

// TestEndedUncounted: permits that have ended stay where they stand as long as the server's number is none that
// they could be added to. The control: they are taken away, and nobody counts them.
func TestEndedUncounted(t *testing.T) {
	uncounted := func(hooks ...redis.Hook) int64 {
		l := newLab(t, 1)
		require.NoError(t, l.rdb.Set(t.Context(), l.name, "0.5", time.Hour).Err())
		require.NoError(t, l.rdb.ZAdd(t.Context(), l.ends(), redis.Z{Member: "a:h1", Score: 1}).Err())
		require.ErrorContains(t, kindtest.Err(l.edited(hooks...).TryAcquire(t.Context(), 1)), "not an integer")
		return l.out()
	}
	require.EqualValues(t, 1, uncounted())
	require.Zero(t, uncounted(mutant.Hook(lua.SemAcquire, "change(0) -- fails here", "-- ")))
}

// Redisson's addPermits sets the number anew, without an end. The permits that are out do not end with
// their key, whose end was to be put off together with that of the number.
func TestEndlessNumber(t *testing.T) {
	require.Greater(t, endlessNumber(t), 24*time.Hour)

	// The control: without that the permits end with their key.
	require.LessOrEqual(t, endlessNumber(t, mutant.Hook(lua.SemRenew,
		"if last >= 0 and last < needed - 86400000 then call('PEXPIRE', permits, needed) end", "")), time.Minute)
}

// endlessNumber returns how long the permits that are out will be known, after a hold of an hour.
func endlessNumber(t *testing.T, hooks ...redis.Hook) time.Duration {
	l := newLab(t, 3)
	s := l.edited(hooks...)
	h := lock(t, s)
	require.NoError(t, l.rdb.Set(t.Context(), l.name, l.free(), 0).Err())
	require.NoError(t, l.rdb.Expire(t.Context(), l.ends(), time.Minute).Err()) // as it is when its time is nearly over
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	left := l.rdb.TTL(t.Context(), l.ends()).Val()
	unlock(t, h)
	require.NoError(t, l.rdb.Del(t.Context(), l.name).Err())
	return left
}

// numberKept has a call of SetPermits, for two, that the network keeps until its repeat has been answered, and
// another call has set ten. It returns how many permits there are then.
func numberKept(t *testing.T, hooks ...redis.Hook) int {
	l := newLab(t, 5)
	s, proxy := l.proxied(hooks...)
	unlock(t, lock(t, s)) // the client knows the server's clock
	proxy.KeepRequest(faultproxy.Command("EVAL", "EVALSHA"), 1, time.Hour)
	require.NoError(t, s.SetPermits(t.Context(), 2))
	require.NoError(t, l.process(nil).SetPermits(t.Context(), 10))
	proxy.Deliver()
	return kindtest.State(t, s).Permits
}

// TestLateNumber: a call of SetPermits that the network has kept does not undo a later one.
func TestLateNumber(t *testing.T) {
	require.Equal(t, 10, numberKept(t))

	// The control: without what is remembered of the call, and the limit until when it counts.
	require.Equal(t, 2, numberKept(t, mutant.Hook(lua.SemSet, "if not call('ZSCORE', places, this) then", "if true then",
		"#limit == #clock and limit < clock", "false")))
}

// wantsLost has who waits for all of three permits be handed what the server knows that it wants after the
// key that says so was lost: one. It returns the hold that came of it.
func wantsLost(t *testing.T, l *lab, opts []holdfast.Option, hooks ...redis.Hook) *holdfast.Hold {
	a, b := l.edited(hooks...), l.edited(hooks...)
	h := lock(t, a)
	waits := l.acquire(t.Context(), b, 3, opts...)
	l.waiting(1)
	asked := l.srv.CommandCalls(t)["evalsha"]
	eventually(t, "it has had its answer, and polls", func() bool { return l.srv.CommandCalls(t)["evalsha"] > asked })
	require.EqualValues(t, 1, l.rdb.Del(t.Context(), "holdfast_semaphore_wants:{"+l.name+"}").Val())
	unlock(t, h)
	return waits.Hold()
}

var plain = []holdfast.Option{holdfast.NoRenewal()}

// TestLostWants: who is handed fewer permits than it wants gives them back, and gets all of them.
func TestLostWants(t *testing.T) {
	for _, opts := range [][]holdfast.Option{nil, plain} {
		l := newLab(t, 3)
		h := wantsLost(t, l, opts)
		require.Zero(t, l.free())
		require.EqualValues(t, 3, l.out())
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		unlock(t, h)
		l.settled()
	}
}

// The controls: a message that does not say how many permits were handed over is believed, until the renewal
// finds out; without that, and without the look at what the owner has, there are permits from nowhere.
func TestLostWantsControl(t *testing.T) {
	lie := mutant.Hook(lua.SemRelease, "if wanted > 1 then text = text .. ' ' .. wanted end", "text = text .. ' 3'")
	l := newLab(t, 3)
	h := wantsLost(t, l, nil, lie)
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), holdfast.ErrLost)
	l = newLab(t, 3)
	h = wantsLost(t, l, nil, lie, mutant.Hook(lua.SemRenew, " or not whole(owner, n)", ""))
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	require.EqualValues(t, 5, l.out()+int64(l.free()), "and not 3")
	unlock(t, h)
	l = newLab(t, 3)
	h = wantsLost(t, l, plain, mutant.Hook(lua.SemAcquire, " and whole(owner, n) then", " then"))
	require.EqualValues(t, 5, l.out()+int64(l.free()), "and not 3")
	unlock(t, h)
}

// many has 250 wait when as many permits come back at once, without polls, and returns how many get theirs; others leave.
func many(t *testing.T, hooks ...redis.Hook) (got int) {
	const waiters, most = 250, 100
	l := newLab(t, waiters)
	hooks = append(hooks, mutant.Hook(lua.SemPoll, "failed = grant(ARGV[3], tonumber(ARGV[4]), ARGV[5], id)", "failed = nil"))
	s := l.edited(hooks...)
	all := l.some(s, waiters)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits []*kindtest.Pending
	for range waiters {
		waits = append(waits, l.acquire(ctx, s, 1))
	}
	l.waiting(waiters)
	unlock(t, all)
	if len(hooks) > 1 {
		l.waiting(waiters - most)
		cancel()
	}
	var held []*holdfast.Hold
	for _, w := range waits {
		if h, err := w.Result(); err == nil {
			held = append(held, h)
		}
	}
	unlock(t, held...)
	l.settled()
	return len(held)
}

// TestManyAreFree: what comes back at once is handed out at once, without a poll, even if it is more than one script hands out.
func TestManyAreFree(t *testing.T) {
	require.Equal(t, 250, many(t))

	// The control: the next who waits is not told to ask where a script has handed out enough.
	const goesOn, stops = "return nil, toAsk(command, owner) or unheard, true", "return nil, unheard, true"
	require.LessOrEqual(t, many(t, mutant.Hook(lua.SemRelease, goesOn, stops), mutant.Hook(lua.SemAcquire, goesOn, stops)), 100)
}

// repeatedAfter has a lost call set 2 permits, another call 5, and the first repeat after an outage. It returns the number.
func repeatedAfter(t *testing.T, outage time.Duration, hooks ...redis.Hook) int {
	srv := redistest.Start(t, redistest.Clock())
	l := &lab{t, srv, srv.Client(t), uniqueName(t), 8}
	proxy := faultproxy.New(t, srv.Addr())
	rdb := kindtest.Hooked(srv.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() }), hooks...)
	far, other := l.through(rdb, &holdfast.Options{RetryBudget: time.Minute}), l.process(nil)
	require.NoError(t, far.SetPermits(t.Context(), 8)) // it knows the server's clock from now on
	permits := func() int { return kindtest.State(t, other).Permits }
	proxy.On(faultproxy.Command("EVAL", "EVALSHA"), 0, faultproxy.DropReply)
	set := make(chan error, 1)
	go func() { set <- far.SetPermits(t.Context(), 2) }()
	eventually(t, "it is set, and the answer lost", func() bool { return permits() == 2 })
	proxy.Stop()
	require.NoError(t, other.SetPermits(t.Context(), 5))
	srv.MoveClock(t, outage)
	// Others come and go meanwhile.
	unlock(t, lock(t, other))
	proxy.Clear()
	proxy.Start()
	require.NoError(t, <-set)
	return permits()
}

// TestSetPermitsRepeatedAfterAWhile: however long a call is repeated, it is known as long.
func TestSetPermitsRepeatedAfterAWhile(t *testing.T) {
	require.Equal(t, 5, repeatedAfter(t, 20*time.Second))

	// The control: if the server forgets calls as it forgets places, the repeat undoes the other call.
	require.Equal(t, 2, repeatedAfter(t, 20*time.Second,
		mutant.Hook(lua.SemSet, "'ZADD', places, -now - more, this", "'ZADD', places, -now, this")))
}

// TestCostOfAGrant: where 64 goroutines of one process or of eight want 8 permits, a grant is a script
// or less, and so is a release. (Places may be asked for together, and the questions of the first waiter
// of a client are few. Each client polls once a second. That nobody starves is for [TestArrival] to show.)
func TestCostOfAGrant(t *testing.T) {
	for _, clients := range []int{1, 8} {
		srv := redistest.Start(t)
		l := &lab{t, srv, srv.Client(t), uniqueName(t), 8}
		const goroutines, each = 64, 25
		var of []*semaphore.Semaphore
		for range clients {
			of = append(of, l.process(nil))
		}
		begun, before := time.Now(), srv.CommandCalls(t)
		leak.Together(goroutines, func(i int) {
			for range each {
				assert.NoError(t, kindtest.Pair(t.Context(), of[i%clients]))
			}
		})
		after, grants, seconds := srv.CommandCalls(t), goroutines*each, int(time.Since(begun)/time.Second)+1
		scripts := int(after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"])
		t.Logf("proof: permits, %d clients: %d scripts for %d grants and their releases", clients, scripts, grants)
		require.LessOrEqual(t, scripts, 2*grants+grants/10+clients*seconds)
		l.settled()
	}
}
