package workload

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestPlacesInCompany: who asks for its place again in another's pipeline has asked again, if it ever asked alone before.
func TestPlacesInCompany(t *testing.T) {
	rec := history.NewRecorder(func() int64 { return 1 })
	first, second := New(Config{}, rec, 3, 0, nil), New(Config{}, rec, 3, 1, nil)
	ctx := func(a *Actor) context.Context { return context.WithValue(t.Context(), actorKey{}, a) }
	ask := func(owner string) redis.Cmder {
		cmd := redis.NewCmd(t.Context(), "evalsha", lua.FairAcquire.Hash(), 1, "a", owner, 1, 2, 3, 30000)
		cmd.SetVal([]any{int64(0)})
		return cmd
	}
	p := new(Places)
	require.NoError(t, p.ProcessHook(func(context.Context, redis.Cmder) error { return nil })(ctx(first), ask("h1")))
	send := p.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return nil })
	require.NoError(t, send(ctx(second), []redis.Cmder{ask("h2"), ask("h1")}))
	var asked []int
	for _, o := range rec.Ops() {
		require.Equal(t, history.Queue, o.Kind)
		require.Equal(t, history.OK, o.Result)
		require.Equal(t, "h1", o.Owner)
		asked = append(asked, o.Actor)
	}
	require.Equal(t, []int{0, 0}, asked)
}

func TestMain(m *testing.M) { redistest.Main(m) }

// TestDeadlineBesidePause: a deadline is read by two clocks, one after the other, and a pause between them does not change it.
func TestDeadlineBesidePause(t *testing.T) {
	c := kindtest.NewClient(t, redistest.Shared(t).Client(t), nil)
	h := kindtest.Lock(t, rlock.New(c, "workload:deadline"))
	start, read := time.Now(), 0
	a := New(Config{Now: func() int64 {
		if read++; read == 1 { // the process is paused right afterwards, as far as can be told
			return int64(time.Since(start) - time.Minute)
		}
		return int64(time.Since(start))
	}}, nil, 0, 0, nil)
	require.WithinDuration(t, h.Deadline(), start.Add(time.Duration(a.until(h))), 10*time.Second)
	require.Greater(t, read, 2)
	require.NoError(t, h.Unlock(t.Context()))
}
