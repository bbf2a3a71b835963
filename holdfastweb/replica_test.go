package holdfastweb_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestReplica: clients listen at the master, so the page of a replica says that it does not know who listens. It reports no
// dead queue, and offers no end of a hold, which the replica would refuse. The master is the control: of the same keys without
// listeners its page does both. Who looks needs no permission for that.
func TestReplica(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Command(t, "REPLICAOF", host, port)
	replica.Command(t, "ACL", "SETUSER", "watcher", "on", ">secret", "+@all", "-role", "~*")
	rdb, far := master.Client(t), replica.Client(t, func(o *redis.Options) { o.Username, o.Password = "watcher", "secret" })
	held(t, rdb, "fairy")
	k := keys.For("fairy")
	const waiter = "11111111-2222-4333-8444-555555555555:h2"
	require.NoError(t, rdb.RPush(t.Context(), k.Queue, waiter).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), k.Deadlines, redis.Z{Score: 1e15, Member: waiter}).Err())
	eventually(t, "the replica has it all", func() bool {
		return far.Exists(t.Context(), "fairy", k.Token, k.Queue, k.Deadlines).Val() == 4
	})
	may := holdfastweb.Options{Permit: func(*http.Request, string) (string, bool) { return "me", true }}
	const says = "is a replica: it does not know who listens, and ends no hold"
	for target, alarm := range map[string]string{"/": "dead-queue", "/lock?name=fairy": "none of them is alive"} {
		a := get(t, newPage(t, rdb, quick(may)), target)
		require.Contains(t, a.body, alarm, target)
		require.NotContains(t, a.body, says, target)

		a = get(t, newPage(t, far, quick(may)), target)
		require.Equal(t, http.StatusOK, a.StatusCode, target)
		require.Contains(t, a.body, says, target)
		require.Contains(t, a.body, "fairy", target)
		require.NotContains(t, a.body, alarm, target)
	}
	require.Contains(t, get(t, newPage(t, rdb, quick(may)), "/lock?name=fairy").body, "end?")
	require.NotContains(t, get(t, newPage(t, far, quick(may)), "/lock?name=fairy").body, "end?")
}
