package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// numberKept has a call of SetPermits, for two, that the network keeps until its repeat has been answered, and
// another call has set ten. It returns how many permits there are then.
func numberKept(t *testing.T, hooks ...redis.Hook) int {
	t.Helper()
	l := newLab(t, 5)
	s, proxy := l.proxied(hooks...)
	unlock(t, lock(t, s)) // the client knows the server's clock
	proxy.KeepRequest(faultproxy.Command("EVAL", "EVALSHA"), 1, time.Hour)
	require.NoError(t, s.SetPermits(t.Context(), 2))
	require.NoError(t, l.process(nil).SetPermits(t.Context(), 10))
	proxy.Deliver()
	state, err := s.State(t.Context())
	require.NoError(t, err)
	return state.Permits
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
	t.Helper()
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

// many has 250 wait when as many permits come back at once, where no poll hands out any. It returns how many
// of them get theirs; those who do not are called off.
func many(t *testing.T, hooks ...redis.Hook) (got int) {
	t.Helper()
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

// TestManyAreFree: what comes back at once is handed out at once, also if it is more than one script hands
// out, and without a poll.
func TestManyAreFree(t *testing.T) {
	require.Equal(t, 250, many(t))

	// The control: the next who waits is not told to ask where a script has handed out enough.
	const goesOn, stops = "return nil, toAsk(command, owner) or unheard, true", "return nil, unheard, true"
	require.LessOrEqual(t, many(t, mutant.Hook(lua.SemRelease, goesOn, stops), mutant.Hook(lua.SemAcquire, goesOn, stops)), 100)
}

// repeatedAfter is the number of permits where the answer of a call that set it to 2 is lost, another
// call sets it to 5, and the first one is repeated after an outage.
func repeatedAfter(t *testing.T, outage time.Duration, hooks ...redis.Hook) int {
	t.Helper()
	srv := redistest.Start(t, redistest.Clock())
	l := &lab{t, srv, srv.Client(t), uniqueName(t), 8}
	proxy := faultproxy.New(t, srv.Addr())
	rdb := kindtest.Hooked(srv.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() }), hooks...)
	far, other := l.through(rdb, &holdfast.Options{RetryBudget: time.Minute}), l.process(nil)
	require.NoError(t, far.SetPermits(t.Context(), 8)) // it knows the server's clock from now on
	permits := func() int {
		s, err := other.State(t.Context())
		require.NoError(t, err)
		return s.Permits
	}
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

	// The control: if the server forgets calls as it forgets places, the repeat undoes the other
	// call.
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
		var group sync.WaitGroup
		begun, before := time.Now(), srv.CommandCalls(t)
		for range clients {
			s := l.process(nil)
			for range goroutines / clients {
				group.Go(func() {
					for range each {
						if err := holdfast.Do(t.Context(), s, func(context.Context) error { return nil }); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		group.Wait()
		after, grants, seconds := srv.CommandCalls(t), goroutines*each, int(time.Since(begun)/time.Second)+1
		scripts := int(after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"])
		t.Logf("proof: permits, %d clients: %d scripts for %d grants and their releases", clients, scripts, grants)
		require.LessOrEqual(t, scripts, 2*grants+grants/10+clients*seconds)
		l.settled()
	}
}
