package redlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlock"
)

func TestLockAndUnlock(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5} {
		l := newLab(t, n)
		p := l.party(nil)
		m := p.mutex(uniqueName(t))
		ctx := t.Context()
		last := uint64(0)
		for range 3 {
			before := time.Now()
			h, err := m.Lock(ctx)
			require.NoError(t, err)
			const trusted = holdfast.DefaultLease * 98 / 100
			require.WithinRange(t, h.Deadline(), before.Add(trusted), time.Now().Add(holdfast.DefaultLease))
			require.Greater(t, h.Token(), last)
			last = h.Token()
			require.Regexp(t, "^"+p.clients[0].ID()+`:h\d+$`, h.Owner())
			eventually(t, "every master has it", func() bool { return l.held(m.Name()) == n })
			for i, rdb := range l.direct {
				require.Equal(t, map[string]string{h.Owner(): "1"}, rdb.HGetAll(ctx, m.Name()).Val(), "master %d", i)
				require.LessOrEqual(t, rdb.Get(ctx, "redisson_lock_token:{"+m.Name()+"}").Val(), itoa(h.Token()))
			}
			require.NoError(t, h.Unlock(ctx))
			eventually(t, "no master has it", func() bool { return l.held(m.Name()) == 0 })
			require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrReleased)
		}
	}
}

func TestReentry(t *testing.T) {
	l := newLab(t, 3)
	m := l.party(nil).mutex(uniqueName(t))
	ctx := t.Context()
	outer, err := m.Lock(ctx)
	require.NoError(t, err)
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	inner, err := m.Lock(outer.Context())
	require.NoError(t, err)
	require.Equal(t, 2, inner.Count())
	require.Equal(t, outer.Token(), inner.Token())
	require.Equal(t, outer.Owner(), inner.Owner())
	counts := func(want string) func() bool {
		return func() bool {
			for _, h := range l.holders(m.Name()) {
				if h[outer.Owner()] != want {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "counted everywhere", counts("2"))
	require.NoError(t, inner.Unlock(ctx))
	eventually(t, "counted down everywhere", counts("1"))
	require.NoError(t, outer.Extend(ctx, time.Hour))
	require.Greater(t, time.Until(outer.Deadline()), 50*time.Minute)
	require.NoError(t, outer.Unlock(ctx))
	eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
}

// Many goroutines of several processes: never two inside, tokens grow, and every one has its turns.
func TestExclusion(t *testing.T) {
	l := newLab(t, 5)
	name, inside, last := uniqueName(t), atomic.Int32{}, atomic.Uint64{}
	var g sync.WaitGroup
	errs := make(chan error, 1000)
	for range 4 {
		m := l.party(nil).mutex(name)
		for range 4 {
			g.Go(func() {
				for range 10 {
					h, err := m.Lock(t.Context())
					if err != nil {
						errs <- err
						return
					}
					if inside.Add(1) != 1 {
						errs <- errors.New("two inside")
					}
					if before := last.Swap(h.Token()); before >= h.Token() {
						errs <- errors.New("tokens do not grow")
					}
					inside.Add(-1)
					if err := h.Unlock(context.Background()); err != nil {
						errs <- err
					}
				}
			})
		}
	}
	g.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	eventually(t, "all released", func() bool { return l.held(name) == 0 })
}

func TestInput(t *testing.T) {
	l := newLab(t, 3)
	p := l.party(nil)
	twice := []*holdfast.Client{p.clients[0], p.clients[1], p.clients[0]}
	for what, m := range map[string]*redlock.Mutex{
		"clients is empty":    redlock.New(nil, "a"),
		"clients[1] is nil":   redlock.New([]*holdfast.Client{p.clients[0], nil}, "a"),
		"are the same":        redlock.New(twice, "a"),
		"MasterTimeout is 0s": p.mutex("a", redlock.MasterTimeout(0)),
		"is trusted for":      p.mutex("a", redlock.MasterTimeout(time.Second), holdfast.Lease(time.Second)),
		"zero Mutex":          {},
	} {
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, what)
	}
}

// Two clients that reach one server have two votes by one master.
func TestTwinsAreRefused(t *testing.T) {
	l := newLab(t, 2)
	a, b := l.party(nil), l.party(nil)
	m := redlock.New([]*holdfast.Client{a.clients[0], a.clients[1], b.clients[1]}, uniqueName(t))
	_, err := m.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "clients[1] and clients[2] reach the same server")
	eventually(t, "nothing is left", func() bool { return l.held(m.Name()) == 0 })
}
