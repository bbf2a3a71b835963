package integration_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
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

// TestWrongTypeNamesTheLock: a key that holds something else is an error that says which key and
// what to do, for every operation, on every server; the key is not touched.
func TestWrongTypeNamesTheLock(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		h := kindtest.Take(ctx, t, rlock.New(newClient(t, rdb, nil), scriptLock).Lock)
		require.NoError(t, rdb.Set(ctx, scriptLock, "text", time.Minute).Err())
		m := rlock.New(newClient(t, rdb, nil), scriptLock) // a client of its own does not wait for the holder
		for op, try := range map[string]func() error{
			"lock":         func() error { _, err := m.Lock(ctx); return err },
			"try":          func() error { _, err := m.TryLock(ctx); return err },
			"state":        func() error { _, err := m.State(ctx); return err },
			"force unlock": func() error { _, err := m.ForceUnlock(ctx); return err },
		} {
			err := try()
			require.ErrorContains(t, err, `rlock: `+op+` "orders:42": the key orders:42 holds something that is not a lock, or `+scriptToken+` something that is not a token`)
			require.ErrorContains(t, err, "WRONGTYPE")
		}
		require.ErrorIs(t, h.Extend(ctx, time.Minute), holdfast.ErrLost)
		require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
		require.Equal(t, "text", rdb.Get(ctx, scriptLock).Val())

		require.NoError(t, prepare(ctx, rdb, "TOKEN[x]/20s"))
		_, err := m.Lock(ctx)
		require.ErrorContains(t, err, scriptToken+" something that is not a token")
		require.Zero(t, rdb.Exists(ctx, scriptLock).Val(), "nothing was locked")
	})
}

// TestWrongTypeNamesTheFairLock: the same for a lock of four keys. A release goes through, and says
// what it could not do.
func TestWrongTypeNamesTheFairLock(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb, ctx := redistest.Start(t, redistest.Exec(p.Path)).Client(t), t.Context()
		m := fairlock.New(newClient(t, rdb, nil), scriptLock)
		const someone = "ORDER[d:h1]/20s"
		for _, key := range []string{scriptLock, scriptToken, scriptQueue, scriptEnds} {
			for op, try := range map[string]func() error{
				"lock": func() error { _, err := m.Lock(ctx); return err },
				"try":  func() error { _, err := m.TryLock(ctx); return err },
			} {
				require.NoError(t, prepare(ctx, rdb, someone))
				require.NoError(t, rdb.Set(ctx, key, "text", time.Minute).Err())
				err := try()
				if key == scriptToken { // text is none either, but of the right type
					require.ErrorContains(t, err, "HOLDFAST", op)
				} else {
					require.ErrorContains(t, err, "WRONGTYPE", op)
				}
				require.ErrorContains(t, err, key, "%s: it names the key", op)
				require.Equal(t, "text", rdb.Get(ctx, key).Val())
			}
		}
		for _, key := range []string{scriptQueue, scriptEnds} {
			require.NoError(t, rdb.FlushAll(ctx).Err())
			h := kindtest.Take(ctx, t, m.Lock)
			require.NoError(t, rdb.RPush(ctx, scriptQueue, "d:h1").Err())
			require.NoError(t, rdb.Set(ctx, key, "text", time.Minute).Err())
			err := h.Unlock(ctx)
			require.ErrorContains(t, err, "released")
			require.ErrorContains(t, err, "WRONGTYPE")
			require.Zero(t, rdb.Exists(ctx, scriptLock).Val())
		}
	})
}
