package fairlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestLeaveWhileAsked: a waiter whose question the network keeps leaves at once. What the question
// comes to, when it reaches the server after all, is given back.
func TestLeaveWhileAsked(t *testing.T) {
	l := newLine(t)
	first := wait(t.Context(), t, l.rdb, l.faulty) // so the next one's question is asked for it
	kept := l.proxy.DelayRequest(script(lua.FairAcquire), 1, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, l.faulty.Lock)
	<-kept.Fired()
	given := l.proxy.Seen(script(lua.FairRelease))
	cancel()
	require.ErrorIs(t, left.Err(), context.Canceled)
	kept.Release()
	eventually(t, "it is given back, and once more for what comes late", func() bool {
		return l.proxy.Seen(script(lua.FairRelease)) >= given+3
	})
	require.Len(t, queued(t, l.rdb, "line"), 1)
	l.drained(first)
}

// TestQuestionsOvertake: questions that the network keeps do not hold up those that come later. The
// control: without that they do.
func TestQuestionsOvertake(t *testing.T) {
	require.True(t, placedBeside(t, patience))
	defer defence.Overtake.Without(t)()
	require.False(t, placedBeside(t, 3*time.Second), "the fault is none")
}

// placedBeside reports whether a waiter gets its place while as many questions of its client as are
// sent at the same time have no answer.
func placedBeside(t *testing.T, within time.Duration) bool {
	t.Helper()
	srv := redistest.Start(t)
	rdb, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
	slow := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = time.Minute })
	client, other := newClient(t, slow, nil), newClient(t, rdb, nil)
	ctx, leave := context.WithCancel(t.Context())
	for _, name := range []string{"a", "b"} {
		_ = lock(t, fairlock.New(other, name))
		wait(ctx, t, rdb, fairlock.New(client, name))
	}
	const flights = 2
	var ended [flights + 1]chan struct{}
	enter := func(i int, name string) {
		ended[i] = make(chan struct{})
		go func() {
			defer close(ended[i])
			_, _ = fairlock.New(client, name).Lock(ctx)
		}()
	}
	var kept [flights]*faultproxy.Rule
	for i := range kept {
		kept[i] = proxy.DelayRequest(script(lua.FairAcquire), 1, time.Hour)
		enter(i, "a")
		<-kept[i].Fired()
	}
	enter(flights, "b")
	defer func() {
		leave()
		for i, done := range ended {
			if i < flights {
				kept[i].Release()
			}
			<-done
		}
	}()
	for end := time.Now().Add(within); time.Now().Before(end); {
		if len(queued(t, rdb, "b")) == 2 {
			return true
		}
	}
	return false
}
