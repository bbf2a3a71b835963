package multilock_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestAHold: what the hold of several is.
func TestAHold(t *testing.T) {
	c, rdb := shared(t)
	ctx, n := t.Context(), names(t, "abc")
	for range 3 { // its token is ahead of the others'
		require.NoError(t, lock(ctx, t, rlock.New(c, n[1])).Unlock(ctx))
	}
	m := multilock.New(plain(c, n[2], n[0], n[1])...)
	require.Equal(t, strings.Join(n, ", "), m.Name())
	h := lock(ctx, t, m)
	require.Equal(t, n, taken(t, rdb, n...))
	require.Equal(t, 1, h.Count())
	require.Nil(t, h.Wanted())
	require.Greater(t, time.Until(h.Deadline()), 20*time.Second)
	var greatest uint64
	for i, name := range n {
		state, err := rlock.New(c, name).State(ctx)
		require.NoError(t, err)
		require.Equal(t, h.Owner(), state.Owner, "one owner for all")
		greatest = max(greatest, state.Token)
		for under, ctx := range map[string]context.Context{"it": h.Context(), "a context of it": context.WithoutCancel(h.Context())} {
			token, ok := fence.TokenOf(ctx, name)
			require.True(t, ok, under)
			require.Equal(t, state.Token, token, i)
		}
	}
	require.Equal(t, greatest, h.Token())
	require.NoError(t, h.Extend(ctx, time.Hour))
	for _, name := range n {
		require.Greater(t, rdb.PTTL(ctx, name).Val(), 59*time.Minute)
	}
	unlock(t, h)
	require.Empty(t, taken(t, rdb, n...))
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrReleased)
	require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrReleased)
	require.ErrorIs(t, h.Extend(ctx, time.Minute), holdfast.ErrReleased)
	next := lock(ctx, t, m)
	require.Greater(t, next.Token(), h.Token())
	unlock(t, next)
}

// TestReentry: members, the multilock and others that overlap with it re-enter under its context, and nobody else does.
func TestReentry(t *testing.T) {
	c, rdb := shared(t)
	ctx, n := t.Context(), names(t, "abcd")
	abc := multilock.New(plain(c, n[:3]...)...)
	h := lock(ctx, t, abc)
	for what, l := range map[string]holdfast.Locker{
		"a member": rlock.New(c, n[1]), "itself": multilock.New(plain(c, n[2], n[0], n[1])...),
		"an overlapping one": multilock.New(plain(c, n[1:]...)...),
	} {
		require.ErrorIs(t, kindtest.Err(l.TryLock(ctx)), holdfast.ErrNotAcquired, what)
		inner := take(h.Context(), t, l.TryLock)
		require.Equal(t, "2", count(t, rdb, n[1], h.Owner()), what)
		_, overlaps := fence.TokenOf(inner.Context(), n[0])
		require.True(t, overlaps, "the tokens of the hold around it too")
		unlock(t, inner)
		require.Equal(t, n[:3], taken(t, rdb, n...), what)
		require.Equal(t, "1", count(t, rdb, n[1], h.Owner()), what)
	}
	again := lock(h.Context(), t, abc)
	require.Equal(t, 2, again.Count())
	require.Equal(t, h.Token(), again.Token())
	unlock(t, again)
	require.NoError(t, h.Context().Err())
	unlock(t, h)
	require.Empty(t, taken(t, rdb, n...))
}

// TestUnderAnOwner: a context that carries an owner gives it to the multilock.
func TestUnderAnOwner(t *testing.T) {
	c, rdb := shared(t)
	ctx, n := holdfast.WithOwner(t.Context()), names(t, "ab")
	a := lock(ctx, t, rlock.New(c, n[0]))
	h := lock(ctx, t, multilock.New(plain(c, n...)...))
	require.Equal(t, a.Owner(), h.Owner())
	require.Equal(t, 1, h.Count(), "of the members' counts the least")
	unlock(t, h)
	require.Equal(t, n[:1], taken(t, rdb, n...))
	unlock(t, a)
}

// TestAllOrNone: one is taken by somebody else. TryLock, and Lock whose time is over, hold none.
func TestAllOrNone(t *testing.T) {
	c, rdb := shared(t)
	other, _ := shared(t)
	ctx, n := t.Context(), names(t, "abcdef")
	m := multilock.New(plain(c, n...)...)
	for i, name := range n {
		h := lock(ctx, t, rlock.New(other, name))
		for what, call := range map[string]func() (*holdfast.Hold, error){
			"TryLock": func() (*holdfast.Hold, error) { return m.TryLock(ctx) },
			"Wait(0)": func() (*holdfast.Hold, error) { return m.Lock(ctx, holdfast.Wait(0)) },
			"Wait":    func() (*holdfast.Hold, error) { return m.Lock(ctx, holdfast.Wait(500*time.Millisecond)) },
			"a member that stays taken": func() (*holdfast.Hold, error) {
				return m.TryLock(ctx, holdfast.HoldAtLeast(time.Hour))
			},
		} {
			got, err := call()
			require.Nil(t, got, what)
			require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
			require.ErrorContains(t, err, `rlock: `, what)
			require.ErrorContains(t, err, `"`+name+`"`, what)
			var of *holdfast.Error
			require.ErrorAs(t, err, &of)
			require.Equal(t, []string{"multilock", m.Name()}, []string{of.Kind, of.Name})
			require.Equal(t, n[i:i+1], taken(t, rdb, n...), what)
		}
		unlock(t, h)
	}
}

// The control: what was refused as a whole stays taken for as long as HoldAtLeast says, unless it is given back as no hold.
func TestAllOrNoneControl(t *testing.T) {
	t.Cleanup(defence.Forgo.Without(t))
	c, rdb := shared(t)
	other, _ := shared(t)
	ctx, n := t.Context(), names(t, "abc")
	h := lock(ctx, t, rlock.New(other, n[2]))
	refused(ctx, t, multilock.New(plain(c, n...)...).TryLock, holdfast.HoldAtLeast(time.Minute))
	require.Equal(t, n, taken(t, rdb, n...), "two of them by nobody")
	unlock(t, h)
}

// TestAHoldAroundKeepsItsTime: what the owner has by an earlier hold is not given back, and stays taken for its time.
func TestAHoldAroundKeepsItsTime(t *testing.T) {
	c, rdb := shared(t)
	other, _ := shared(t)
	ctx, n := t.Context(), names(t, "ab")
	a := lock(ctx, t, rlock.New(c, n[0]), holdfast.HoldAtLeast(time.Minute))
	b := lock(ctx, t, rlock.New(other, n[1]))
	refused(a.Context(), t, multilock.New(plain(c, n...)...).TryLock)
	require.NoError(t, a.Context().Err())
	unlock(t, a, b)
	require.Equal(t, n[:1], taken(t, rdb, n...))
}

// TestNothingBehindIsHeldMeanwhile: while a member is waited for, those before it are held, and those behind it are not.
func TestNothingBehindIsHeldMeanwhile(t *testing.T) {
	c, rdb := shared(t)
	other, _ := shared(t)
	ctx, n := t.Context(), names(t, "abcdef")
	b, d := lock(ctx, t, rlock.New(other, n[1])), lock(ctx, t, rlock.New(other, n[3]))
	waiting := begin(ctx, t, multilock.New(plain(c, n...)...).Lock)
	listened(t, rdb, n[1]) // it was refused, and has given back before it waits
	require.Equal(t, []string{n[0], n[1], n[3]}, taken(t, rdb, n...))
	unlock(t, b)
	listened(t, rdb, n[3])
	require.Equal(t, n[:4], taken(t, rdb, n...))
	unlock(t, d)
	next := waiting.Hold()
	for _, name := range n {
		require.Equal(t, "1", count(t, rdb, name, next.Owner()), "asked for once, also where it was waited for")
	}
	unlock(t, next)
	require.Empty(t, taken(t, rdb, n...))
}

// The control: what was granted at the same time is held while another one is waited for.
func TestNothingBehindIsHeldMeanwhileControl(t *testing.T) {
	t.Cleanup(defence.Behind.Without(t))
	c, rdb := shared(t)
	other, _ := shared(t)
	ctx, n := t.Context(), names(t, "abc")
	b := lock(ctx, t, rlock.New(other, n[1]))
	waiting := begin(ctx, t, multilock.New(plain(c, n...)...).Lock)
	listened(t, rdb, n[1])
	require.Equal(t, n, taken(t, rdb, n...))
	unlock(t, b)
	unlock(t, waiting.Hold())
}

// scripts takes eight locks of one client and gives them back, and returns how many scripts each took at best. (On a machine
// that stands still for 2 ms between two goroutines, they do not wait for each other.)
func scripts(t *testing.T) (toTake, toGiveBack int64) {
	srv := redistest.Start(t)
	c, direct := newClient(t, srv.Client(t), nil), srv.Client(t)
	ctx, n := t.Context(), names(t, "abcdefgh")
	m := multilock.New(plain(c, n...)...)
	sent := func(f func()) int64 {
		srv.ResetStats(t)
		f()
		calls := srv.CommandCalls(t)
		return calls["evalsha"] + calls["eval"]
	}
	toTake, toGiveBack = math.MaxInt64, math.MaxInt64
	for range 20 {
		var h *holdfast.Hold
		toTake = min(toTake, sent(func() { h = lock(ctx, t, m) }))
		require.Equal(t, n, taken(t, direct, n...))
		toGiveBack = min(toGiveBack, sent(func() { unlock(t, h) }))
	}
	return toTake, toGiveBack
}

// TestOneScript: the members of one client are asked for by one script, and given back by one.
func TestOneScript(t *testing.T) {
	toTake, toGiveBack := scripts(t)
	require.Equal(t, int64(1), toTake)
	require.Equal(t, int64(1), toGiveBack)

	// The control: goroutines that begin together, and do not say so, send the first two by themselves.
	t.Cleanup(defence.Group.Without(t))
	toTake, toGiveBack = scripts(t)
	require.Greater(t, toTake, int64(1))
	require.Greater(t, toGiveBack, int64(1))
}

// TestOtherKinds: members of all kinds, on several servers and clients, also nested.
func TestOtherKinds(t *testing.T) {
	masters := redistest.StartMasters(t, 3)
	var clients []*holdfast.Client
	var direct []*redis.Client
	for _, srv := range masters {
		clients = append(clients, newClient(t, srv.Client(t), nil))
		direct = append(direct, srv.Client(t))
	}
	ctx, n := t.Context(), names(t, "abcde")
	quorum := redlock.New(clients, n[1], redlock.TrustRestarts())
	m := multilock.New(
		multilock.New(rlock.New(clients[2], n[4]), fairlock.New(clients[1], n[2])), quorum,
		multilock.New(multilock.New(fairlock.New(clients[1], n[2])), rlock.New(clients[0], n[0])), rlock.New(clients[1], n[3]))
	require.Equal(t, strings.Join(n, ", "), m.Name())
	stands := func(want ...string) { // soon: a majority of masters is enough for the quorum
		eventually(t, strings.Join(want, ", ")+" stand", func() bool {
			var all []string
			for _, rdb := range direct {
				all = append(all, taken(t, rdb, n...)...)
			}
			return slices.Equal(want, all)
		})
	}
	want := []string{n[0], n[1], n[1], n[2], n[3], n[1], n[4]}
	for range 3 {
		h := lock(ctx, t, m)
		stands(want...)
		for _, name := range n {
			_, ok := fence.TokenOf(h.Context(), name)
			require.True(t, ok, name)
		}
		inner := lock(h.Context(), t, quorum)
		require.Equal(t, 2, inner.Count())
		unlock(t, inner)
		again := lock(h.Context(), t, m)
		require.Equal(t, 2, again.Count())
		unlock(t, again, h)
		stands()
	}
	last := lock(ctx, t, rlock.New(clients[2], n[4]))
	refused(ctx, t, m.TryLock)
	stands(n[4])
	unlock(t, last)
}

// TestWaitBoundsTheWhole: two members in turn are taken for longer than Wait in all. The second is asked for once at the end.
func TestWaitBoundsTheWhole(t *testing.T) {
	t.Parallel()
	c, rdb := shared(t)
	other, _ := shared(t)
	ctx, n := t.Context(), names(t, "ab")
	a, b := lock(ctx, t, rlock.New(other, n[0])), lock(ctx, t, rlock.New(other, n[1]))
	second := &wrapped{Locker: rlock.New(c, n[1])}
	waiting := begin(ctx, t, multilock.New(rlock.New(c, n[0]), second).Lock, holdfast.Wait(2*time.Second))
	listened(t, rdb, n[0])
	unlock(t, a)
	err := waiting.Err()
	tells(t, err, holdfast.ErrNotAcquired, n[1])
	require.Less(t, second.waits, 2*time.Second, "what the first has left of it")
	require.Equal(t, n[1:], taken(t, rdb, n...))
	unlock(t, b)
}

// crossing has two processes take a and b, given in both orders with a third member in between that is taken until both wait.
// nest is what each process makes of its members. Without the defence both leave when each waits for the other.
func crossing(t *testing.T, nest func(locks []holdfast.Locker) holdfast.Locker) []error {
	other, rdb := shared(t)
	ctx, n := t.Context(), names(t, "abxy")
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	x, y := lock(ctx, t, rlock.New(other, n[2])), lock(ctx, t, rlock.New(other, n[3]))
	one, _ := shared(t)
	two, _ := shared(t)
	first := begin(waiting, t, nest(plain(one, n[0], n[2], n[1])).Lock)
	listened(t, rdb, n[2])
	second := begin(waiting, t, nest(plain(two, n[1], n[3], n[0])).Lock)
	listen := func(names []string, enough int64) func() bool {
		return func() bool {
			count := int64(0)
			for _, name := range names {
				count += kindtest.Listeners(ctx, rdb, channelOf(name))
			}
			return count == enough
		}
	}
	eventually(t, "the second waits", listen(n, 2))
	unlock(t, x, y)
	if defence.OneOrder.Off() {
		eventually(t, "each waits for what the other has", listen(n[:2], 2))
		leave()
	}
	var failed []error
	for both := []*kindtest.Pending{first, second}; len(both) > 0; {
		i := kindtest.First(t, both...)
		h, err := both[i].Result()
		if err != nil {
			failed = append(failed, err)
		} else {
			unlock(t, h)
		}
		both = slices.Delete(both, i, i+1)
	}
	require.Empty(t, taken(t, rdb, n...))
	return failed
}

var nestings = map[string]func(locks []holdfast.Locker) holdfast.Locker{
	"flat": func(l []holdfast.Locker) holdfast.Locker { return multilock.New(l...) },
	"nested": func(l []holdfast.Locker) holdfast.Locker {
		return multilock.New(multilock.New(l[0], l[1]), multilock.New(l[2]))
	},
	"overlapping inside": func(l []holdfast.Locker) holdfast.Locker {
		return multilock.New(multilock.New(l[0], l[1]), multilock.New(l[1], l[2]))
	},
	"under other names": func(l []holdfast.Locker) holdfast.Locker {
		return multilock.New(renamed{l[0], "1"}, renamed{l[1], "2"}, renamed{l[2], "3"})
	},
}

// TestTwoOrders: two processes give the same locks in two orders, and none waits for the other.
func TestTwoOrders(t *testing.T) {
	for name, nest := range nestings {
		t.Run(name, func(t *testing.T) { require.Empty(t, crossing(t, nest)) })
	}
}

// The control: taken in the order in which they are given, each process holds what the other one waits for.
func TestTwoOrdersControl(t *testing.T) {
	t.Cleanup(defence.OneOrder.Without(t))
	for name, nest := range nestings {
		t.Run(name, func(t *testing.T) {
			failed := crossing(t, nest)
			require.NotEmpty(t, failed)
			require.ErrorIs(t, failed[0], holdfast.ErrNotAcquired)
		})
	}
}

// TestOneCallAsks: while a call has the turn, the others for the same members ask for nothing, or, when their time is over, for
// the first member alone. Control: without turns each of them asks for all, and is granted what it has to give back.
func TestOneCallAsks(t *testing.T) {
	const calls = 8
	asked := func(t *testing.T, wait time.Duration, enough int) (n int) {
		addr, of := redistest.Shared(t).Addr(), names(t, "ab")
		rdb, proxy := kindtest.Behind(t, addr, patience)
		c, acquired := newClient(t, rdb, nil), faultproxy.Script(lua.Acquire.Hash())
		second := func(args []string) bool { return acquired(args) && slices.Contains(args, of[1]) }
		other, direct := shared(t)
		first := lock(t.Context(), t, rlock.New(other, of[0]))
		has := begin(t.Context(), t, multilock.New(plain(c, of...)...).Lock)
		listened(t, direct, of[0])
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var group sync.WaitGroup
		for range calls {
			group.Go(func() { _, _ = multilock.New(plain(c, of...)...).Lock(ctx, holdfast.Wait(wait)) })
		}
		eventually(t, "they have asked", func() bool { return proxy.Seen(second) >= enough })
		if enough > 0 {
			leave()
		}
		group.Wait()
		n = proxy.Seen(second)
		unlock(t, first)
		unlock(t, has.Hold())
		return n
	}
	require.LessOrEqual(t, asked(t, 100*time.Millisecond, 0), 2, "by the one who has the turn, and again when the server's clock is known")
	defer defence.SetTurns.Without(t)()
	asked(t, time.Hour, 1+calls)
}

// TestCallersWhoLeaveStopNobody: callers who all wait for a few round trips get all members now and then, and who waits
// without a limit gets them, of the same client and of another one.
func TestCallersWhoLeaveStopNobody(t *testing.T) {
	const callers, grants, turns = 32, 8, 1
	addr, n := faultproxy.Distance(t, redistest.Shared(t).Addr(), time.Millisecond), names(t, "abc")
	client := func() *holdfast.Client { return newClient(t, redistest.NewClient(t, addr), nil) }
	here, there := client(), client()
	var granted, left atomic.Int64
	var wait atomic.Int64
	wait.Store(int64(15 * time.Millisecond))
	var wrong atomic.Pointer[error]
	ctx, over := context.WithTimeout(t.Context(), 10*patience) // on however busy a machine
	defer over()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for m := multilock.New(plain(here, n...)...); ctx.Err() == nil; {
				switch h, err := m.Lock(t.Context(), holdfast.Wait(time.Duration(wait.Load()))); {
				case err == nil:
					granted.Add(1)
					_ = h.Unlock(t.Context())
				case errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, holdfast.ErrUnavailable):
					if left.Add(1)%(64*callers) == 0 && granted.Load() == 0 { // nobody is answered sooner: a busy machine
						wait.Store(2 * wait.Load())
					}
				default:
					wrong.Store(&err)
					return
				}
			}
		})
	}
	var stay sync.WaitGroup
	for _, c := range []*holdfast.Client{here, there} {
		stay.Go(func() {
			for range turns {
				if err := kindtest.Pair(ctx, multilock.New(plain(c, n...)...)); err != nil && !errors.Is(err, holdfast.ErrLost) {
					wrong.Store(&err)
					return
				}
			}
		})
	}
	stay.Wait()
	eventually(t, "grants", func() bool { return granted.Load() >= grants || wrong.Load() != nil })
	over()
	all.Wait()
	if err := wrong.Load(); err != nil {
		require.NoError(t, *err)
	}
	t.Logf("%d granted, %d left", granted.Load(), left.Load())
}
