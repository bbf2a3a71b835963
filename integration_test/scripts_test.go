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
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// What several scripts do alike.
var sharedRows = table(`
token longer than the clock's, and smaller as text
	TOKEN=10000000000000000/20s | acquire,fair_acquire | !HOLDFAST | same | #last ~= #token or last => last
token that has no next one
	TOKEN=9007199254740991/20s | acquire,vote,fair_acquire | !HOLDFAST | same |
	n >= 9007199254740991 => n > 9007199254740991
token that is no number
	TOKEN=text/20s | acquire,vote | !HOLDFAST | same | if not n or => if not n then n = 0 end\nif
negative token
	TOKEN=-1/20s | acquire,vote | !HOLDFAST | same | local n = not string.find(last, '%D') and => local n =
key of another type
	notALock | acquire,fair_acquire | !WRONGTYPE | same |
	local fields = call('HLEN', name) => call('DEL', name)\nlocal fields = 0
token that is text of a token's length
	TOKEN=000000000000text/20s | acquire,fair_acquire | !HOLDFAST | same | or string.find(last, '%D')) then => ) then
free: a head start ends
	CHANNEL=30/5s | head_start,head_start_beside start=0 ends=30 | 1 clock | LOCK{a=1}/30s TOKEN=clock/1h |
	redis.pcall('DEL', KEYS[3]) => redis.pcall('GET', KEYS[3])
free, too late
	nothing | vote,fair_acquire,latch_set,rw_read,rw_write until=1000000000000000 | -2 clock | nothing |
	then return {-2, clock} end => then end
too late, by fewer digits
	nothing | vote,fair_acquire until=999999999999999 | -2 clock | nothing | #limit < #clock or =>
free
	nothing | fair_release,recount,release,leave,renew,election_announce,election_renew | -1 | nothing |
	if not held then return {-1} end =>
another's
	heldByB | recount,release,renew,force,election_announce | -1 | same |
	call('HEXISTS', name, ARGV[1]) => call('EXISTS', name)
key of another type
	notALock | release,force,election_announce | !WRONGTYPE | same |
	local held = call => call('DEL', name)\nlocal held = call
no latch
	heldByB | latch_set,latch_delete | !WRONGTYPE | same |
	local stands = call('GET', name) => local stands = call('EXISTS', name) == 1
too late
	three | latch_count,latch_delete until=1000000000000000 | -2 clock | same | then return {-2, clock} end => then end
a semaphore
	three COUNTS=semaphore/30s | latch_count,latch_set,latch_delete,latch_look | !HOLDFAST | same |
	call('GET', counts) == 'semaphore' => false
a latch
	threeFree COUNTS=latch/60s | sem_set,sem_acquire,sem_state | !HOLDFAST | same |
	call('GET', KEYS[8]) == 'latch' => false
`)

// allRows are the rows of all scripts.
func allRows() []row {
	return slices.Concat(sharedRows, acquireRows, blockRows, startRows, recountRows, releaseRows, leaveRows, takenRows, renewRows,
		stateRows, passRows, passTokenRows, voteRows, voteTokenRows, voteClockRows, voteLateRows, forceRows,
		fairAcquireRows, fairOwnRows, fairPlaceRows, fairHandRows, fairReleaseRows, fairPollRows, fairMixedRows,
		fairJoinRows, fairStateRows, manyRows, recallRows, rwReadRows, rwWriteRows, rwReleaseRows, rwStayRows, rwOtherRows,
		electionRows, latchRows, semAcquireRows, semJoinRows, semReleaseRows, semRenewRows, semPollRows, semSetRows,
		forceOwnerRows, forceOthersRows, inspectRows, besideRows, fenceRows)
}

// TestScripts runs every row on every server in each way in which scripts are sent, and once edited.
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

// TestWrongTypeNamesTheLock: a key of another type is an error of every operation, with key and remedy, and is not touched.
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
			require.ErrorContains(t, err, `rlock: `+op+` "orders:42": the key orders:42 is not a lock; a semaphore, a latch or another program may have this name, as "holdfast inspect" says; choose another name, or see docs/migrating.md if another library locks it; if it is a lock, `+scriptToken+` has the wrong type: WRONGTYPE Operation against a key holding the wrong kind of value`)
			require.Regexp(t, "kind of value$", err.Error(), "the hash of the script is left out")
			require.True(t, lua.IsError(err, "WRONGTYPE"))
		}
		require.ErrorIs(t, h.Extend(ctx, time.Minute), holdfast.ErrLost)
		require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
		require.Equal(t, "text", rdb.Get(ctx, scriptLock).Val())

		require.NoError(t, prepare(ctx, rdb, "TOKEN[x]/20s"))
		require.ErrorContains(t, kindtest.Err(m.Lock(ctx)), scriptToken+" has the wrong type")
		require.Zero(t, rdb.Exists(ctx, scriptLock).Val(), "nothing was locked")
	})
}

// TestWrongTypeNamesTheFairLock: the same for a lock of four keys. A release goes through, and says what it could not do.
// TestWrongTypeSaysWhatMayBeThere: at the name of a lock that is held a semaphore and a latch say that it may be one; at the name of a
// semaphore a lock says that it may be that.
func TestWrongTypeSaysWhatMayBeThere(t *testing.T) {
	client, _ := kindtest.Shared(t, nil)
	const aLock = "a lock, an election or another program may have this name"
	name := kindtest.UniqueName(t)
	kindtest.Lock(t, rlock.New(client, name))
	require.ErrorContains(t, kindtest.Err(semaphore.New(client, name, 2).TryAcquire(t.Context(), 1)), "is not a semaphore; "+aLock)
	require.ErrorContains(t, kindtest.Err(latch.New(client, name).Set(t.Context(), 1)), "is not a latch; "+aLock)

	name = kindtest.UniqueName(t)
	require.NoError(t, kindtest.Err(semaphore.New(client, name, 2).TryAcquire(t.Context(), 1)))
	require.ErrorContains(t, kindtest.Err(rlock.New(client, name).TryLock(t.Context())), "is not a lock; a semaphore, a latch or another program may have this name")
}

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
					require.ErrorContains(t, err, "does not hold a token: text; delete it, or choose another name", op)
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
			kindtest.Tells(t, h.Unlock(ctx), "released", "WRONGTYPE")
			require.Zero(t, rdb.Exists(ctx, scriptLock).Val())
		}
	})
}
