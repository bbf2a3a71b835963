package remote

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// plainLock is as much of a lock as an undoer needs.
type plainLock struct {
	kind.Lock
	name string
}

func (plainLock) Kind() string   { return "plain" }
func (l plainLock) Name() string { return l.name }
func (l plainLock) Release(owner, publish string) lua.Call {
	return lua.Release.Call(l.name, "channel:"+l.name, owner, publish)
}

// TestAnsweredAfterItWasGivenBack: a caller leaves a request that another caller sends, and that one has to wait for a
// connection. Meanwhile the id is given back twice, and then the request is granted. Its answer has the id given back once
// more, long before no request can be executed any more. Control: without that, it stays.
func TestAnsweredAfterItWasGivenBack(t *testing.T) {
	require.Equal(t, int64(0), answeredLate(t))
	defer defence.Landed.Without(t)()
	require.Equal(t, int64(1), answeredLate(t), "control")
}

// answeredLate returns whether the lock is taken in the end.
func answeredLate(t *testing.T) (taken int64) {
	const owner = "11111111-2222-4333-8444-555555555555:h1"
	rdb, l := redistest.Shared(t).Client(t), plainLock{name: t.Name()}
	to := NewServer(rdb, false)
	to.Clock.attempt = time.Hour // until then it may be executed
	now := rdb.Time(t.Context()).Val().UnixMicro()
	to.Clock.Saw(time.Now(), strconv.FormatInt(now, 10))
	var mu sync.Mutex
	released, sent, connected := 0, make(chan struct{}), make(chan struct{})
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		is := func(hash string) bool { return slices.Contains(cmds[0].Args(), any(hash)) }
		if is(lua.Acquire.Hash()) && len(cmds) > 1 {
			close(sent)
			<-connected
		}
		err := send()
		if is(lua.Release.Hash()) && err == nil {
			mu.Lock()
			released++
			mu.Unlock()
		}
		return err
	}))
	for _, s := range []*lua.Script{lua.Acquire, lua.Release} {
		require.NoError(t, rdb.ScriptLoad(t.Context(), s.Text()).Err())
	}
	life, closing := context.WithCancel(t.Context())
	home := &Session{Life: life, Tasks: &task.Group{}, Log: slog.New(slog.DiscardHandler), Retry: time.Minute, Publish: "PUBLISH"}
	acquire := func(ctx context.Context, via lua.Processor, name string) error {
		_, err := lua.Run(ctx, via, lua.Acquire.Call(name, "token:"+name, owner, 600000, 600000, "0", 1, to.Clock.Limit()))
		return err
	}
	group, patient := combine.NewGroup(2), make(chan error, 1)
	others, _ := group.Member(t.Context())
	go func() { patient <- acquire(others, to.Single, l.name+", of another") }()
	ctx, leave := context.WithTimeout(t.Context(), time.Hour)
	go func() {
		<-sent
		leave()
	}()
	mine, _ := group.Member(ctx)
	err := acquire(mine, to.hasty, l.name)
	require.True(t, combine.IsUnanswered(err), err)
	home.Undo(to, l, owner, 0, time.Minute, true)
	home.WhenLanded(to, l, owner, err)
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return released
	}
	require.Eventually(t, func() bool { return count() == 2 }, time.Minute, time.Millisecond)
	close(connected)
	require.NoError(t, <-patient)
	if !defence.Landed.Off() {
		require.Eventually(t, func() bool { return count() == 3 }, time.Minute, time.Millisecond)
	}
	taken = rdb.Exists(t.Context(), l.name).Val()
	require.NoError(t, rdb.Del(t.Context(), l.name, l.name+", of another").Err())
	closing()
	require.NoError(t, home.Tasks.Wait(t.Context()))
	return taken
}
