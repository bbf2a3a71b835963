package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestReplica: clients listen at the master, so a replica says that it does not know who listens, once. It reports no dead
// queue, and advises no unlock, which it would refuse. The master is the control: of the same keys without listeners it does both.
func TestReplica(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Command(t, "REPLICAOF", host, port)
	rdb, far := master.Client(t), replica.Client(t)
	h := kindtest.Lock(t, fairlock.New(kindtest.NewClient(t, rdb, nil), "fairy"), holdfast.Lease(time.Hour))
	k := keys.For("fairy")
	const waiter = "11111111-2222-4333-8444-555555555555:h1"
	require.NoError(t, rdb.RPush(t.Context(), k.Queue, waiter).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), k.Deadlines, redis.Z{Score: 1e15, Member: waiter}).Err())
	require.NoError(t, rdb.HSet(t.Context(), "endless", h.Owner(), 1).Err())
	eventually(t, func() bool { return exists(t, far, "fairy", k.Queue, k.Deadlines, "endless") == 4 }, "the replica has it all")
	for _, command := range []string{"ls", "ls --json", "inspect fairy", "inspect --json fairy", "top --once", "top --once --json"} {
		_, stdout, stderr := ask(master, strings.Fields(command)...)
		require.NotContains(t, stderr, "replica", command)
		require.Contains(t, stdout, map[bool]string{true: "none of them is alive", false: "dead-queue"}[command == "inspect fairy"])

		code, stdout, stderr := ask(replica, strings.Fields(command)...)
		require.Zero(t, code, stderr)
		require.Equal(t, "holdfast: this server is a replica: it does not know who listens\n", stderr, command)
		require.NotContains(t, stdout, "dead", command)
		require.NotContains(t, stdout, "nobody listens", command)
		require.NotContains(t, stdout, "to end it", command)
	}
	_, stdout, _ := ask(replica, "inspect", "endless")
	require.Contains(t, stdout, "free it with unlock --force at the master")

	// Who may not ask for the role gets what a master's user gets.
	_, stdout, stderr := says("ls", "--redis", user(t, replica, "blind", "-role"))
	require.Empty(t, stderr)
	require.Contains(t, stdout, "dead-queue")
}

// TestUnknownName: what "watch" says of a name without a trace of a lock, and not of one that was a lock.
func TestUnknownName(t *testing.T) {

	require.Equal(t, unknownName, between(nil, &sight{waiters: -1})[0].Note)
	require.Empty(t, between(nil, &sight{waiters: -1, token: 7})[0].Note)
	var b strings.Builder
	require.NoError(t, lines(&b)(between(nil, &sight{waiters: -1})[0]))
	require.Contains(t, b.String(), unknownName)
}

// TestTopOnReplica: the screen says it first, no row looks wrong for it, and the key that ends a hold says where holds end.
func TestTopOnReplica(t *testing.T) {
	m := oddModel(t)
	m.replicas = map[int]bool{0: true}
	m.wantEnd()
	require.Equal(t, "this server is a replica: holds end at the master", m.note)
	require.Equal(t, onReplica, newTopModel(m.topConfig, m.desk).note)
	r := live.Row{Lock: inspect.Lock{Listening: 3, Queue: []inspect.Waiter{{Remaining: time.Second}},
		Problems: []inspect.Problem{{Trouble: inspect.DeadQueue}, {Trouble: inspect.NoToken}}}}
	own := heardNothing(&r)
	require.Equal(t, []inspect.Problem{{Trouble: inspect.NoToken}}, own.Lock.Problems)
	require.True(t, own.Lock.Queue[0].Alive())
	require.Len(t, r.Lock.Problems, 2, "the picture keeps its own")
	require.False(t, r.Lock.Queue[0].Alive())
}
