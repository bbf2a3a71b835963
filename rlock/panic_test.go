package rlock_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// panicky is a hook of go-redis that panics at some calls of one script.
type panicky struct {
	aim   atomic.Pointer[aim]
	owner atomic.Value // whose calls, "" if everybody's
	after atomic.Bool  // the command was sent
}

// aim is a script, and how often the hook is still to panic at it. The two are one, so that a command
// of the background cannot use up what is meant for another script.
type aim struct {
	script *lua.Script
	times  atomic.Int32
}

func (p *panicky) around(send func() error, cmds ...redis.Cmder) (err error) {
	due := func(cmd redis.Cmder) bool {
		a := p.aim.Load()
		owner, _ := p.owner.Load().(string)
		return a != nil && len(cmd.Args()) > 1 && cmd.Args()[1] == a.script.Hash() &&
			(owner == "" || slices.Contains(cmd.Args(), any(owner))) &&
			a.times.Add(-1) >= 0
	}
	panics := slices.ContainsFunc(cmds, due)
	if !panics || p.after.Load() {
		err = send()
	}
	if panics {
		panic("hook")
	}
	return err
}

// at has the hook panic at the next calls of a script.
func (p *panicky) at(s *lua.Script, times int32, after bool) {
	p.after.Store(after)
	a := &aim{script: s}
	a.times.Store(times)
	p.aim.Store(a)
}

func newPanicky(t *testing.T, opts *holdfast.Options) (*panicky, *holdfast.Client, *redis.Client) {
	t.Helper()
	rdb, p := redistest.Shared(t).Client(t), &panicky{}
	rdb.AddHook(redistest.Around(p.around))
	kindtest.Load(t, rdb, lua.Acquire, lua.Release, lua.Recount, lua.Renew, lua.Pass)
	return p, newClient(t, rdb, opts), rdb
}

// TestPanickingHook: a hook panics, before a command was sent or after it. The panic is its
// caller's, and the lock is nobody's a moment later: not in Redis, not in this client.
func TestPanickingHook(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"": context.Background(), ", in a goroutine": cancelled} {
		for _, after := range []bool{false, true} {
			p, c, rdb := newPanicky(t, &holdfast.Options{Lease: time.Hour})
			m := rlock.New(c, uniqueName(t))
			lock := func() *holdfast.Hold {
				h := take(ctx, t, m.Lock)
				return h
			}
			panics := func(what string, s *lua.Script, owner string, f func()) {
				p.owner.Store(owner) // else it may be a release that gives back the first lock, once more
				p.at(s, 1, after)
				require.PanicsWithValue(t, "hook", f, what+name)
			}
			panics("lock", lua.Acquire, "", func() { _, _ = m.Lock(ctx) })
			h := lock()
			require.Equal(t, 1, h.Count())
			panics("re-entry", lua.Recount, h.Owner(), func() { _, _ = m.Lock(withOwner(ctx, h)) })
			inner := take(h.Context(), t, m.Lock)
			require.Equal(t, 2, inner.Count())
			panics("unlock of the inner one", lua.Recount, h.Owner(), func() { _ = inner.Unlock(ctx) })
			panics("extend", lua.Renew, h.Owner(), func() { _ = h.Extend(ctx, time.Hour) })
			panics("unlock", lua.Release, h.Owner(), func() { _ = h.Unlock(ctx) })
			next := lock()
			require.Greater(t, next.Token(), h.Token())
			waits := begin(ctx, t, m.Lock)
			eventually(t, "queued", func() bool { return queued() == 1 })
			panics("unlock of who was handed it", lua.Release, "nobody", func() {
				_ = next.Unlock(ctx)
				if w := waits.Hold(); w != nil {
					p.owner.Store(w.Owner())
					_ = w.Unlock(ctx)
				}
			})
			eventually(t, "free", func() bool { return free(t, rdb, m.Name()) })
		}
	}
}

// withOwner is a context with the owner of a hold.
func withOwner(ctx context.Context, h *holdfast.Hold) context.Context {
	if ctx.Done() == nil {
		return context.WithoutCancel(h.Context())
	}
	return h.Context()
}

// TestPanickingHookControl: the same with the panic let through at once: who comes next waits for a
// place that nobody has.
func TestPanickingHookControl(t *testing.T) {
	p, c, rdb := newPanicky(t, nil)
	m := rlock.New(c, uniqueName(t))
	restore := defence.Panics.Without(t)
	p.at(lua.Acquire, 1, false)
	require.PanicsWithValue(t, "hook", func() { _, _ = m.Lock(context.Background()) })
	restore()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := begin(ctx, t, m.Lock)
	eventually(t, "queued", func() bool { return queued() == 1 })
	require.True(t, free(t, rdb, m.Name()))
	cancel()
	require.ErrorIs(t, waits.Err(), context.Canceled)
}

// TestPanicInTheBackground: where there is no caller, a panic is a failure like any other: renewals
// are tried again, and a lock whose caller has left is given back.
func TestPanicInTheBackground(t *testing.T) {
	const lease = 3 * time.Second
	p, c, rdb := newPanicky(t, &holdfast.Options{Lease: lease})
	m := rlock.New(c, uniqueName(t))
	h := lock(t, m)
	p.at(lua.Renew, 2, false)
	end := h.Deadline()
	eventually(t, "renewed", func() bool { return h.Deadline().After(end) && p.aim.Load().times.Load() <= 0 })
	require.NoError(t, h.Context().Err())
	p.at(lua.Release, 3, false)
	require.PanicsWithValue(t, "hook", func() { _ = h.Unlock(t.Context()) })
	eventually(t, "given back", func() bool { return free(t, rdb, m.Name()) })
}
