package multilock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// trio is a multilock of a, b and c on three servers, the second of which is behind a proxy.
type trio struct {
	*testing.T
	direct  [3]*redis.Client
	clients [3]*holdfast.Client
	proxy   *faultproxy.Proxy
	all     *multilock.Mutex
}

var letters = [3]string{"a", "b", "c"}

func newTrio(t *testing.T, opts *holdfast.Options) *trio {
	t.Helper()
	s := &trio{T: t}
	var locks []holdfast.Locker
	for i, srv := range redistest.StartMasters(t, 3) {
		s.direct[i] = srv.Client(t)
		addr := srv.Addr()
		if i == 1 {
			s.proxy = faultproxy.New(t, addr)
			addr = s.proxy.Addr()
		}
		s.clients[i] = newClient(t, redistest.NewClient(t, addr, func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond }), opts)
		locks = append(locks, rlock.New(s.clients[i], letters[i]))
	}
	s.all = multilock.New(locks[2], locks[0], locks[1])
	return s
}

// held are the names that somebody has.
func (s *trio) held() (all []string) {
	s.Helper()
	all = []string{}
	for i, rdb := range s.direct {
		all = append(all, taken(s, rdb, letters[i])...)
	}
	return all
}

// TestALostReply: the answer to one member's release, or to its acquisition, is lost. It is repeated, and
// all are free.
func TestALostReply(t *testing.T) {
	for _, fault := range []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut, faultproxy.BlackHole} {
		t.Run(fault.String(), func(t *testing.T) {
			s := newTrio(t, nil)
			for _, script := range []*lua.Script{lua.Acquire, lua.Release} {
				unlock(t, lock(t.Context(), t, s.all)) // the server has the scripts then
				rule := s.proxy.On(faultproxy.Script(script.Hash()), 1, fault)
				h := lock(t.Context(), t, s.all)
				require.Equal(t, []string{"a", "b", "c"}, s.held())
				unlock(t, h)
				require.Empty(t, s.held())
				require.Equal(t, 1, rule.Count())
				s.proxy.Clear()
			}
		})
	}
}

// deadServer unlocks while the second server cannot be reached, and returns what stays taken of the
// others.
func deadServer(t *testing.T) (held []string, err error) {
	t.Helper()
	s := newTrio(t, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	h := lock(t.Context(), t, s.all)
	s.proxy.Stop()
	t.Cleanup(s.proxy.Start)
	err = h.Unlock(t.Context())
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrReleased)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrReleased)
	return append(taken(t, s.direct[0], "a"), taken(t, s.direct[2], "c")...), err
}

// TestADeadServer: one member's server is dead. The others are given back, and the error says which
// one is not.
func TestADeadServer(t *testing.T) {
	held, err := deadServer(t)
	require.Empty(t, held)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.ErrorContains(t, err, `multilock: unlock "a, b, c": rlock "b": `)
	require.NotContains(t, err.Error(), "\n")

	// The control: who stops at the first failure, as Redisson does, leaves what follows it taken.
	t.Cleanup(defence.GivesAllBack.Without(t))
	held, err = deadServer(t)
	require.ErrorIs(t, err, holdfast.ErrUnavailable)
	require.Equal(t, []string{"c"}, held)
}

// losses are how the member in the middle can be lost.
var losses = map[string]func(t *testing.T, s *trio){
	"forced": func(t *testing.T, s *trio) {
		forced, err := rlock.New(newClient(t, s.direct[1], nil), "b").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, forced)
	},
	"deleted":   func(t *testing.T, s *trio) { require.NoError(t, s.direct[1].Del(t.Context(), "b").Err()) },
	"forgotten": func(t *testing.T, s *trio) { require.NoError(t, s.direct[1].FlushAll(t.Context()).Err()) },
	"silent":    func(_ *testing.T, s *trio) { s.proxy.Silence(true) },
}

// TestTheMiddleIsLost: the context ends, and says which is lost. The others stay taken until Unlock,
// which gives them back, and leaves alone who has the lost one now.
func TestTheMiddleIsLost(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newTrio(t, &holdfast.Options{Lease: 2 * time.Second})
			h := lock(t.Context(), t, s.all)
			lose(t, s)
			cause := ended(t, h)
			require.ErrorIs(t, cause, holdfast.ErrLost)
			require.ErrorContains(t, cause, `rlock "b": lock lost`)
			require.False(t, h.Deadline().After(time.Now()))
			require.Equal(t, []string{"a"}, taken(t, s.direct[0], "a"))
			require.Equal(t, []string{"c"}, taken(t, s.direct[2], "c"))
			s.proxy.Silence(false)
			eventually(t, "the lock is free", func() bool { return len(taken(t, s.direct[1], "b")) == 0 })
			next := lock(t.Context(), t, rlock.New(newClient(t, s.direct[1], nil), "b"))
			_, err := s.all.TryLock(h.Context())
			require.ErrorIs(t, err, holdfast.ErrLost, "no new grant")
			err = h.Unlock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrLost)
			require.ErrorContains(t, err, `rlock "b": `)
			require.NotContains(t, err.Error(), `rlock "a"`)
			require.Equal(t, []string{"b"}, s.held())
			unlock(t, next)
		})
	}
}

// The control: a joined hold that does not follow its members goes on, although one is lost.
func TestTheMiddleIsLostControl(t *testing.T) {
	s := newTrio(t, &holdfast.Options{Lease: 2 * time.Second})
	t.Cleanup(defence.JoinedEnds.Without(t))
	h := lock(t.Context(), t, s.all)
	done := h.Context().Done()
	member := lock(h.Context(), t, rlock.New(s.clients[1], "b"))
	losses["deleted"](t, s)
	eventually(t, "the member's deadline is over", func() bool { return member.Deadline().Before(time.Now()) })
	select {
	case <-done:
		t.Fatal("it ends all the same: the defence is another one")
	default:
	}
	_ = h.Unlock(t.Context())
}

// cancelled waits for the third of three, is cancelled, and returns what is held at that moment.
func cancelled(t *testing.T) (held []string) {
	t.Helper()
	s := newTrio(t, nil)
	other := lock(t.Context(), t, rlock.New(newClient(t, s.direct[2], nil), "c"))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	waiting := begin(ctx, t, s.all.Lock)
	listened(t, s.direct[2], "c")
	require.Equal(t, []string{"a", "b", "c"}, s.held())
	why := fmt.Errorf("the caller has gone")
	cancel(why)
	err := waiting.Err()
	held = s.held()
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, `"c"`)
	unlock(t, other)
	return held
}

// TestCancelledBeforeTheLast: two of three are given back before Lock returns.
func TestCancelledBeforeTheLast(t *testing.T) {
	require.Equal(t, []string{"c"}, cancelled(t))
	// The control: without that, they stay taken for as long as the client lives.
	t.Cleanup(defence.AllOrNone.Without(t))
	require.Equal(t, []string{"a", "b", "c"}, cancelled(t))
}

// TestClosedWhileWaiting: the client of the last member is closed. The others are given back.
func TestClosedWhileWaiting(t *testing.T) {
	for closed := range 3 {
		s := newTrio(t, nil)
		other := lock(t.Context(), t, rlock.New(newClient(t, s.direct[2], nil), "c"))
		waiting := begin(t.Context(), t, s.all.Lock)
		listened(t, s.direct[2], "c")
		require.NoError(t, s.clients[closed].Close(t.Context()))
		err := waiting.Err()
		require.ErrorIs(t, err, holdfast.ErrClosed)
		require.Equal(t, []string{"c"}, s.held())
		unlock(t, other)
	}
}

// TestLostWhileWaiting: a member is lost while another one is waited for. The wait ends, and says
// which is lost.
func TestLostWhileWaiting(t *testing.T) {
	s := newTrio(t, &holdfast.Options{Lease: 2 * time.Second})
	other := lock(t.Context(), t, rlock.New(newClient(t, s.direct[2], nil), "c"))
	waiting := begin(t.Context(), t, s.all.Lock)
	listened(t, s.direct[2], "c")
	require.NoError(t, s.direct[0].Del(t.Context(), "a").Err())
	err := waiting.Err()
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.ErrorContains(t, err, `rlock "a": lock lost`)
	require.Equal(t, []string{"c"}, s.held())
	unlock(t, other)
}

// TestADeadServerWhileTaking: what was granted is given back before the error.
func TestADeadServerWhileTaking(t *testing.T) {
	s := newTrio(t, &holdfast.Options{RetryBudget: 300 * time.Millisecond})
	s.proxy.Stop()
	t.Cleanup(s.proxy.Start)
	for _, take := range []func(context.Context, ...holdfast.Option) (*holdfast.Hold, error){s.all.Lock, s.all.TryLock} {
		_, err := take(t.Context())
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, `"b"`)
		require.Empty(t, s.held())
	}
}
