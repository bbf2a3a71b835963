package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// sent notes commands on their way.
type sent struct {
	mu       sync.Mutex // guards the rest
	commands [][]string
	trips    int
}

func (s *sent) note(send func() error, cmds ...redis.Cmder) error {
	s.mu.Lock()
	s.trips++
	for _, cmd := range cmds {
		var words []string
		for _, arg := range cmd.Args() {
			words = append(words, fmt.Sprint(arg))
		}
		s.commands = append(s.commands, words)
	}
	s.mu.Unlock()
	return send()
}

// TestCommands: a list takes steps of a bounded size, one script for each lock, few round trips, and
// nothing that writes or goes through all keys at once.
func TestCommands(t *testing.T) {
	const others, locks, step = 20_000, 1_000, 1000
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), context.Background()
	const fill = `for i = 1, ARGV[1] do redis.call('SET', 'other:' .. i, 1) end
		for i = 1, ARGV[2] do
			redis.call('HSET', 'lock:' .. i, ARGV[3], 1) redis.call('PEXPIRE', 'lock:' .. i, 600000)
			redis.call('SET', 'redisson_lock_token:{lock:' .. i .. '}', 5000, 'PX', 600000)
		end return 1`
	require.NoError(t, rdb.Eval(ctx, fill, nil, others, locks, ours).Err())
	size := int(rdb.DBSize(ctx).Val())
	hook := &sent{}
	rdb.AddHook(redistest.Around(hook.note))
	srv.ResetStats(t)

	require.Len(t, list(t, newInspector(t, rdb, nil), inspect.Query{}), locks)
	counts := make(map[string]int)
	for _, words := range hook.commands {
		counts[words[0]]++
		if words[0] == "scan" {
			at := slices.Index(words, "count")
			require.Equal(t, strconv.Itoa(step), words[at+1])
		}
	}
	scripts := counts["evalsha_ro"] + counts["eval_ro"] + counts["evalsha"] + counts["eval"]
	require.LessOrEqual(t, counts["scan"], 2*size/step+10)
	require.LessOrEqual(t, scripts, locks+300, "one each, and those that the server does not know at first")
	require.LessOrEqual(t, hook.trips, counts["scan"]+3*locks/100+10)
	for command := range srv.CommandCalls(t) {
		require.Contains(t, []string{
			"scan", "evalsha_ro", "eval_ro", "evalsha", "eval", "get", "hello", "client|setinfo", "client",
			"time", "type", "exists", "pttl", "hlen", "hkeys", "hget", "hstrlen", "hexists", "getrange", "pubsub|numsub", "pubsub", "dbsize",
		}, command)
	}
	require.Equal(t, size, int(rdb.DBSize(ctx).Val()))
}

// TestScriptOnlyReads: from Redis 7 on the server itself sees to that.
func TestScriptOnlyReads(t *testing.T) {
	for _, p := range redistest.Programs(t) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		_, err := newInspector(t, srv.Client(t), nil).Lock(context.Background(), "x")
		require.NoError(t, err)
		calls := srv.CommandCalls(t)
		if strings.HasPrefix(p.Version, "6.") {
			require.Positive(t, calls["eval"])
			continue
		}
		require.Positive(t, calls["eval_ro"], "%v", calls)
		require.Zero(t, calls["eval"]+calls["evalsha"])
	}
}

// TestEndsEarly: who has seen enough stops the walk.
func TestEndsEarly(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := context.Background()
	for i := range 3000 {
		rdb.Set(ctx, keys.For(fmt.Sprint("lock:", i)).Token, 5000, time.Hour)
	}
	hook := &sent{}
	rdb.AddHook(redistest.Around(hook.note))
	for _, err := range newInspector(t, rdb, nil).Locks(ctx, inspect.Query{Free: true}) {
		require.NoError(t, err)
		break
	}
	require.Less(t, len(hook.commands), 1000)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range newInspector(t, rdb, nil).Locks(ended, inspect.Query{Free: true}) {
		require.ErrorIs(t, err, context.Canceled)
	}
}

// TestClaim: a lock that is handed on by force is the next one's for as long as after a release.
func TestClaim(t *testing.T) { require.Equal(t, fair.Claim, inspect.Claim) }
