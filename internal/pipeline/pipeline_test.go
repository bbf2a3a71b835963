package pipeline

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestRefusedConnection: a connection that the server refuses is the error of each command. Without Exec none of them has one.
func TestRefusedConnection(t *testing.T) {
	server := redistest.Start(t)
	for what, change := range map[string]func(*redis.Options){
		"WRONGPASS": func(o *redis.Options) { o.Username, o.Password = "nobody", "wrong" },
		"ERR DB":    func(o *redis.Options) { o.DB = 99 },
	} {
		for _, exec := range []struct {
			name string
			told int
			run  func(redis.Pipeliner)
		}{
			{"Exec", 3, func(pipe redis.Pipeliner) { Exec(t.Context(), pipe) }},
			{"go-redis", 0, func(pipe redis.Pipeliner) { _, _ = pipe.Exec(t.Context()) }},
		} {
			t.Run(what+"/"+exec.name, func(t *testing.T) {
				pipe := server.Client(t, change).Pipeline()
				var cmds []redis.Cmder
				for range 3 {
					cmds = append(cmds, pipe.Get(t.Context(), "x"))
				}
				exec.run(pipe)
				told := 0
				for _, cmd := range cmds {
					if cmd.Err() != nil {
						require.ErrorContains(t, cmd.Err(), what)
						told++
					}
				}
				require.Equal(t, exec.told, told)
			})
		}
	}
}

// TestEachKeepsItsOwn: what one command came to is not the others'.
func TestEachKeepsItsOwn(t *testing.T) {
	pipe := redistest.Start(t).Client(t).Pipeline()
	set, wrong, missing := pipe.Set(t.Context(), "x", "1", 0), pipe.HGet(t.Context(), "x", "f"),
		pipe.Get(t.Context(), "none")
	Exec(t.Context(), pipe)
	require.NoError(t, set.Err())
	require.ErrorContains(t, wrong.Err(), "WRONGTYPE")
	require.ErrorIs(t, missing.Err(), redis.Nil)
}

// TestFormerPrimary: a pipeline whose second command meets a replica finds the new primary. Without Exec it stays there.
func TestFormerPrimary(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	former := r.Primary()
	ask := func(rdb *redis.Client, exec func(redis.Pipeliner)) error {
		pipe := rdb.Pipeline()
		_, set := pipe.Get(t.Context(), "x"), pipe.Set(t.Context(), "x", "1", 0)
		exec(pipe)
		return set.Err()
	}
	without := func(pipe redis.Pipeliner) { _, _ = pipe.Exec(t.Context()) }
	with := func(pipe redis.Pipeliner) { Exec(t.Context(), pipe) }
	one, two := r.Client(t), r.Client(t)
	require.NoError(t, ask(one, without))
	require.NoError(t, ask(two, with))
	r.AwaitReplicas(t.Context(), t)
	require.NotSame(t, former, r.Failover(t))
	for range 3 {
		require.True(t, redis.IsReadOnlyError(ask(one, without)))
	}
	require.NoError(t, ask(two, with), "go-redis tries again what it is told first")
}
