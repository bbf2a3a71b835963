package workload

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/lua"
)

// TestPlacesInCompany: one who asks for its place again, in a pipeline that another sends, has asked again.
// Who has not asked alone before is not known there.
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
