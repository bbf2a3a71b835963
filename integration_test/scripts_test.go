package integration_test

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// allRows are the rows of all scripts.
func allRows() []row {
	return slices.Concat(acquireRows, blockRows, startRows, recountRows, releaseRows, leaveRows, takenRows, renewRows,
		stateRows, passRows, passTokenRows, voteRows, voteTokenRows, voteClockRows, voteLateRows, forceRows,
		fairAcquireRows, fairOwnRows, fairPlaceRows, fairHandRows, fairReleaseRows, fairPollRows, fairMixedRows,
		fairJoinRows, fairStateRows, manyRows, recallRows, rwReadRows, rwWriteRows, rwReleaseRows, rwStayRows, rwOtherRows,
		electionRows, latchRows, semAcquireRows, semJoinRows, semReleaseRows, semRenewRows, semPollRows, semSetRows,
		forceOwnerRows, forceOthersRows, inspectRows, besideRows, fenceRows)
}

// TestScripts runs every row on every server in each way in which scripts are sent, and once
// edited.
func TestScripts(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb, rows := srv.Client(t), shardedRows
		if srv.Major() < 7 {
			rows = unshardedRows
		}
		for _, r := range slices.Concat(allRows(), rows) {
			t.Run(r.script.Name()+" "+r.name, func(t *testing.T) {
				ctx := t.Context()
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, r.script, lua.Run), "unknown to the server: by EVAL")
				require.NoError(t, r.check(ctx, rdb, r.script, lua.Run), "known to the server: by EVALSHA")
				require.NoError(t, r.check(ctx, rdb, r.script, inPipeline), "in a pipeline")
				require.NoError(t, rdb.ScriptFlush(ctx).Err())
				require.NoError(t, r.check(ctx, rdb, r.script, inPipeline), "in a pipeline, unknown to the server")
				require.Error(t, r.check(ctx, rdb, edited(t, r), lua.Run), "control: the row does not see the edit")
			})
		}
	})
}

// TestEveryScriptHasRows, each with an edit that it sees.
func TestEveryScriptHasRows(t *testing.T) {
	rows := map[*lua.Script]int{}
	for _, r := range allRows() {
		require.NotEmpty(t, r.cut, "%s %s", r.script.Name(), r.name)
		rows[r.script]++
	}
	for name, s := range scripts {
		require.Positive(t, rows[s.Script], name)
	}
}

// inPipeline is lua.Run by way of lua.RunAll.
func inPipeline(ctx context.Context, rdb lua.Processor, c lua.Call) (lua.Reply, error) {
	results := lua.RunAll(ctx, rdb.(*redis.Client), []lua.Call{c})
	return results[0].Reply, results[0].Err
}
