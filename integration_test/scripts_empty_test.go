package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestScriptsMakeNothingOfNothing: a server that has lost everything stays empty, whatever a client still sends that waits
// no longer, or that was closed. What takes, joins or sets makes something, so it says until when it may be executed.
func TestScriptsMakeNothingOfNothing(t *testing.T) {
	meant := map[string]string{
		"force": "the last token is kept: a forced release makes later tokens greater than those of a holder that still works",
		"fence": "it is the guarded write itself",
	}
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		made := map[string]bool{}
		for _, r := range allRows() {
			require.NoError(t, rdb.FlushAll(ctx).Err())
			_, err := lua.Run(ctx, rdb, r.call(r.script))
			name, _, _ := strings.Cut(r.args, " ")
			keys := rdb.Keys(ctx, "*").Val()
			if len(keys) == 0 {
				continue
			}
			made[name] = true
			if meant[name] == "" {
				require.Contains(t, " "+scripts[name].args, " until", "%s %s (%v) makes %q", name, r.name, err, keys)
			}
		}
		require.True(t, made["sem_acquire"] && made["sem_set"] && made["latch_set"] && made["fence"], "control: some make something")
	})
}
