package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlock"
)

func TestLockAndUnlock(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		l := newLab(t, n)
		p := l.party(nil)
		m := p.mutex(uniqueName(t))
		ctx := t.Context()
		last := uint64(0)
		for range 3 {
			before := time.Now()
			h := take(ctx, t, m.Lock)
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
