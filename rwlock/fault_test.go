package rwlock_test

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
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rwlock"
)

// proxied is a lab whose own client goes through a proxy.
type proxied struct {
	*lab
	proxy  *faultproxy.Proxy
	client *holdfast.Client
	mutex  *rwlock.RWMutex
}

func newProxied(t *testing.T, hooks ...redis.Hook) *proxied {
	l := newLab(t)
	rdb, proxy := kindtest.Behind(t, redistest.Shared(t).Addr(), 200*time.Millisecond, hooks...)
	c := newClient(t, rdb, nil)
	return &proxied{l, proxy, c, rwlock.New(c, l.name)}
}

// next has the next sending of a script meet a fault.
func (p *proxied) next(s *lua.Script, fault faultproxy.Action) *faultproxy.Rule {
	p.proxy.Clear()
	return p.proxy.On(kindtest.Script(s), 1, fault)
}

// TestAtMostOnce: each operation of readers and writers meets each fault and is repeated; the server has exactly what is right.
func TestAtMostOnce(t *testing.T) {
	kindtest.EachFault(t, func(t *testing.T, fault faultproxy.Action) {
		p := newProxied(t)
		ctx := holdfast.WithOwner(t.Context())
		hit := func(s *lua.Script) { kindtest.Strike(t, p.proxy, s, fault) }
		hit(lua.RwWrite)
		w := take(ctx, t, p.mutex.Lock)
		hit(lua.RwRead)
		r := take(ctx, t, p.mutex.RLock)
		hit(lua.RwReadRenew)
		again := take(ctx, t, p.mutex.RLock)
		require.Equal(t, map[string]string{"mode": "write", w.Owner() + ":write": "1", w.Owner(): "2"}, p.fields())
		hit(lua.RwReadRenew)
		unlock(t, again)
		hit(lua.RwWriteRelease)
		unlock(t, w)
		require.Equal(t, map[string]string{"mode": "read", w.Owner(): "1"}, p.fields())
		hit(lua.RwReadRelease)
		unlock(t, r)
		require.Empty(t, p.fields())
		hit(lua.RwState)
		kindtest.State(t, p.mutex)
		for s, lock := range map[*lua.Script]kindtest.Acquire{lua.RwForce: p.mutex.RLock, lua.RwWriteRelease: p.mutex.Lock} {
			h := take(t.Context(), t, lock)
			hit(s)
			forced, err := p.mutex.ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, forced, s.Name())
			require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
			require.Empty(t, p.fields())
		}
	})
}

// lateRead has the network keep a request to read until its repeat was granted the lock, the reader
// has re-entered, and has a longer lease. It returns what the server has when the request has come.
func lateRead(t *testing.T, hooks ...redis.Hook) holdfast.Holder {
	p := newProxied(t, hooks...)
	unlock(t, take(t.Context(), t, p.mutex.RLock)) // the client knows the server's clock
	hash := lua.RwRead.Hash()
	if len(hooks) > 0 {
		hash = mutant.Hash(hooks[0])
	}
	p.proxy.KeepRequest(faultproxy.Script(hash), 1, time.Hour)
	r := take(t.Context(), t, p.mutex.RLock)
	again := take(r.Context(), t, p.mutex.RLock)
	require.NoError(t, r.Extend(t.Context(), time.Hour))
	p.proxy.Deliver()
	state := kindtest.State(t, p.mutex)
	unlock(t, again, r)
	return state.Holders[0]
}

// What comes late sets neither the count nor the lease of a reader back: else a writer would be let in beside it.
func TestLateRead(t *testing.T) {
	holder := lateRead(t)
	require.Equal(t, 2, holder.Count)
	require.Greater(t, holder.Remaining, 50*time.Minute)

	// The controls: each goes back where the script does not look at what there is.
	require.Equal(t, 1, lateRead(t, mutant.Hook(lua.RwRead, "owner, held[2] or '1'", "owner, '1'")).Count)
	holder = lateRead(t, mutant.Hook(lua.RwRead, "held[2] and math.max(ms, call('PTTL', lease)) or ms", "ms"))
	require.Less(t, holder.Remaining, time.Minute)
}

// A writer that died keeps readers out until its place ends, and no longer.
func TestWaitingWriterDies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := take(t.Context(), t, l.process(nil).RLock)
	rdb, proxy := kindtest.Behind(t, redistest.Shared(t).Addr(), 100*time.Millisecond)
	dying := rwlock.New(newClient(t, rdb, nil), l.name)
	ctx, cancel := context.WithCancel(t.Context())
	writer := begin(ctx, t, dying.Lock)
	eventually(t, "it waits", func() bool { return l.waiting() == 1 })
	proxy.Silence(true)
	refused(t.Context(), t, l.process(nil).TryRLock)
	unlock(t, take(t.Context(), t, l.process(nil).RLock))
	require.NoError(t, first.Context().Err())
	cancel()
	require.Error(t, writer.Err())
	proxy.Silence(false)
	unlock(t, first)
}

// cancelledWriter has a writer leave before its answer, and returns how many places are left when its client is done.
func cancelledWriter(t *testing.T, fault faultproxy.Action) int64 {
	p := newProxied(t)
	first := take(t.Context(), t, p.process(nil).RLock)
	rule := p.next(lua.RwWrite, fault)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writer := begin(ctx, t, p.mutex.Lock)
	<-rule.Fired()
	writers := "holdfast_rwlock_writers:{" + p.name + "}"
	eventually(t, "it has a place", func() bool { return p.waiting() == 1 })
	cancel()
	require.ErrorIs(t, writer.Err(), context.Canceled)
	_ = p.rdb.Persist(t.Context(), writers).Err() // which does not end by itself now
	p.proxy.Clear()
	require.NoError(t, p.client.Close(t.Context())) // waits for what is under way
	left := p.waiting()
	require.NoError(t, p.rdb.Del(t.Context(), writers).Err())
	unlock(t, first)
	return left
}

// A writer whose call was cancelled leaves no place, also if no answer comes.
func TestCancelledWriter(t *testing.T) {
	for _, fault := range []faultproxy.Action{faultproxy.DropReply, faultproxy.HoldReply} {
		require.Zero(t, cancelledWriter(t, fault), fault)
	}

	// The control: it had one, and it stays where who leaves gives nothing back.
	t.Cleanup(defence.Undo.Without(t))
	for _, fault := range []faultproxy.Action{faultproxy.DropReply, faultproxy.HoldReply} {
		require.EqualValues(t, 1, cancelledWriter(t, fault), fault)
	}
}

// readsAgain has a writer's call to read be cancelled while the answer is on its way, and then read again. It returns what came
// of that, and the fields of the lock while it read and after it has stopped to write.
func readsAgain(t *testing.T, hooks ...redis.Hook) (both, read map[string]string, err error) {
	p := newProxied(t, hooks...)
	own := holdfast.WithOwner(t.Context())
	w := take(own, t, p.mutex.Lock)
	unlock(t, take(own, t, p.mutex.RLock)) // the server knows the script
	hash := lua.RwRead.Hash()
	if len(hooks) > 0 {
		hash = mutant.Hash(hooks[0])
	}
	rule := p.proxy.On(faultproxy.Script(hash), 1, faultproxy.HoldReply)
	ctx, cancel := context.WithCancel(own)
	defer cancel()
	called := begin(ctx, t, p.mutex.RLock)
	<-rule.Fired()
	cancel()
	require.ErrorIs(t, called.Err(), context.Canceled)
	rule.Release()
	eventually(t, "what was granted is given back", func() bool { return len(p.fields()) == 2 })
	var h *holdfast.Hold
	eventually(t, "the server answers, which may take long on a busy machine", func() bool {
		h, err = p.mutex.TryRLock(own)
		return !errors.Is(err, holdfast.ErrUnavailable)
	})
	if err != nil {
		unlock(t, w)
		return nil, nil, err
	}
	both = p.fields()
	require.Contains(t, both, w.Owner()+":write")
	require.Contains(t, both, h.Owner())
	require.NotEqual(t, w.Owner(), h.Owner(), "by another name")
	unlock(t, w)
	read = p.fields()
	require.NoError(t, h.Context().Err())
	unlock(t, h)
	require.Empty(t, p.fields())
	return both, read, nil
}

// Who writes can read, also after a call to read was cancelled whose name may still arrive.
func TestReadAfterCancelledRead(t *testing.T) {
	both, read, err := readsAgain(t)
	require.NoError(t, err)
	require.Len(t, both, 3)
	require.Equal(t, "read", read["mode"])
	require.Len(t, read, 2)

	// The control: by another name, without saying by which it writes, it is refused.
	_, _, err = readsAgain(t, mutant.Hook(lua.RwRead, "(ARGV[6] ~= '' and ARGV[6] or owner)", "owner"))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
}
