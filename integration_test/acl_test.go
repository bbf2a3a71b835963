package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// The smallest rule of a user that works with locks called orders:*, as docs/security.md has it.
const (
	aclScripts = "+evalsha +eval +hlen +hexists +hgetall +hset +hdel +del +get +set +pexpire +pttl +time"
	// A user of fair locks also needs these.
	aclFair = "+lindex +llen +lpop +lrange +lrem +ltrim +rpush +zadd +zcard +zcount +zrange +zrem +zscore " +
		"~redisson_lock_queue:{orders:* ~redisson_lock_timeout:{orders:*"
	// A user of read-write locks also needs these.
	aclReadWrite = "+hget +hkeys +hmget +exists +zadd +zcount +zrange +zrem " +
		"~{orders:* ~redisson_rwlock:{orders:* ~holdfast_rwlock_writers:{orders:*"
	aclReadWriteChannels = "&redisson_rwlock:{orders:*" // since Redis 6.2
	// All that a user of semaphores needs, beside the permissions for messages.
	aclSemaphore = "+evalsha +eval +get +set +incrby +pexpire +pttl +time +hget +hset +hdel " +
		"+zadd +zcard +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore " +
		"~orders:* ~{orders:* ~redisson_lock_token:{orders:* ~redisson_sc:{orders:* ~holdfast_semaphore_queue:{orders:* " +
		"~holdfast_semaphore_places:{orders:* ~holdfast_semaphore_wants:{orders:* ~holdfast_latch:{orders:*"
	aclSemaphoreChannels = "&redisson_sc:{orders:*" // since Redis 6.2
	// All that a user of latches needs, beside the permissions for messages.
	aclLatch = "+evalsha +eval +decr +get +set +del +pexpire +pttl +time ~orders:* ~holdfast_latch:{orders:* " +
		"&redisson_countdownlatch__channel__{orders:*"
	// A user of elections needs those of fair locks and these.
	aclElection = "~holdfast_election:{orders:* ~holdfast_election__channel:{orders:* &holdfast_election__channel:{orders:*"
	aclKeys     = "~orders:* ~redisson_lock_token:{orders:* ~redisson_lock__channel:{orders:*"
	// A client with a label, and one that looks for deadlocks, also need these.
	aclLabel    = "+get +set +del ~holdfast_client:{*"
	aclChannels = "&redisson_lock__channel:{orders:*" // since Redis 6.2
	aclSingle   = "+publish +subscribe +unsubscribe +pubsub|numsub +ping"
	// A cluster of Redis 7 or later announces by sharded pub/sub, and needs nothing of aclSingle
	// but PING.
	aclCluster = "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub +ping +cluster|slots +command +asking"
	// What a client asks of Sentinels, as a user of theirs.
	aclSentinel = "+sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +ping &+switch-master &+replica-reconf-done"
)

// aclRule is the rule for a server of that version.
func aclRule(srv *redistest.Server, cluster bool) string {
	switch {
	case srv.Major() < 7 && cluster:
		return strings.Join([]string{aclScripts, aclKeys, aclSingle, "+cluster|slots +command +asking"}, " ")
	case srv.Major() < 7:
		return strings.Join([]string{aclScripts, aclKeys, aclSingle}, " ")
	case cluster:
		return strings.Join([]string{aclScripts, aclKeys, aclChannels, aclCluster}, " ")
	}
	return strings.Join([]string{aclScripts, aclKeys, aclChannels, aclSingle}, " ")
}

// refused is what the server logged that a user was not permitted, such as "exists".
func refused(t *testing.T, srv *redistest.Server) []string {
	t.Helper()
	var objects []string
	for _, entry := range srv.Command(t, "ACL", "LOG", "100").([]any) {
		fields := entry.([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == "object" {
				objects = append(objects, fmt.Sprint(fields[i+1]))
			}
		}
	}
	slices.Sort(objects)
	return slices.Compact(objects)
}

// onlyTheStory: a server was asked for nothing that the rule does not permit, but for EXISTS, by
// which the story itself looks what is left; a look of our own comes after it.
func onlyTheStory(t *testing.T, srv *redistest.Server) {
	t.Helper()
	for _, object := range refused(t, srv) {
		require.Equal(t, "exists", object)
	}
	left, err := look(t.Context(), srv.Client(t))
	require.NoError(t, err)
	require.NoError(t, left.withTTL())
	for key := range left {
		require.Contains(t, key, "redisson_lock_token:")
	}
}

// aclIdentity lets go-redis introduce itself as it does by default, which the rule does not permit
// and nobody minds.
const aclIdentity = "client|setinfo"

// TestLeastPrivilege: with exactly this rule a lock has its whole life.
func TestLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb := as(t, srv, "limited", aclRule(srv, false))
		story(t, func() redis.UniversalClient { return rdb }, "orders:42")
		onlyTheStory(t, srv)

		srv.Command(t, "ACL", "LOG", "RESET")
		plain := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "limited", Password: "secret"})
		defer plain.Close()
		story(t, func() redis.UniversalClient { return plain }, "orders:43")
		for _, object := range refused(t, srv) {
			require.Contains(t, []string{"exists", aclIdentity, "client", "client|maint_notifications"}, object,
				"with all of go-redis's defaults")
		}
		require.ErrorContains(t, rdb.Get(t.Context(), "other").Err(), "NOPERM", "control: the user is a limited one")
	})
}

// TestLeastPrivilegeInACluster: the same in a cluster, where the channels are sharded from Redis 7
// on. Without each permission that only a cluster needs, nothing hangs.
func TestLeastPrivilegeInACluster(t *testing.T) {
	level.ForAll(t)
	for _, p := range outermost(t) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			// With replicas: Redis 8.0 and Valkey abort at SPUBLISH (cluster_legacy.c, "nodes != NULL")
			// on a master without one whose nodes.conf was written by hand.
			c := redistest.StartCluster(t, 2, 1, redistest.Exec(p.Path))
			rule := aclRule(c.Nodes[0], true)
			on := aclServers{all: c.Nodes, cluster: true, others: []*holdfast.Client{newClient(t, c.Client(t), nil)},
				connect: func(user string) []redis.UniversalClient {
					return []redis.UniversalClient{c.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = user, "secret" })}
				}}
			on.permit(t, "limited", rule)
			for _, name := range []string{"orders:42", "orders:43", "orders:44"} {
				story(t, func() redis.UniversalClient { return on.connect("limited")[0] }, name)
			}
			for _, node := range c.Masters(t) {
				onlyTheStory(t, node)
			}
			fails := map[string]string{"+cluster|slots": "lock, wait", "+publish": "unlock", "+subscribe": "wait"}
			if c.Nodes[0].Major() >= 7 {
				fails = map[string]string{"+cluster|slots": "lock, wait", "+spublish": "unlock", "+ssubscribe": "wait",
					aclChannels: "unlock, wait"}
			}
			k := aclOfLock
			k.ops = slices.DeleteFunc(slices.Clone(k.ops), func(op aclOp) bool {
				return !slices.Contains([]string{"lock", "unlock", "wait"}, op.name)
			})
			for i, word := range strings.Fields(strings.TrimPrefix(rule, aclScripts)) {
				if !strings.HasPrefix(word, "~") { // which is as on a single server
					t.Run(word, func(t *testing.T) { k.without(t, on, fmt.Sprint("limited-", i), rule, word, fails[word]) })
				}
			}
		})
	}
}

func without(rule, word string) string {
	words := strings.Fields(rule)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == word }), " ")
}

// TestLeastPrivilegeUnderSentinel: the Sentinels have users of their own, since 6.2.
func TestLeastPrivilegeUnderSentinel(t *testing.T) {
	level.ForAll(t)
	for _, p := range outermost(t) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t, redistest.Exec(p.Path))
			for _, node := range s.Nodes {
				setUser(t, node, "limited", aclRule(node, false))
			}
			limited := s.Nodes[0].Major() >= 7
			if limited {
				for _, sentinel := range s.Sentinels {
					setUser(t, sentinel, "watcher", aclSentinel)
				}
			}
			connect := func() redis.UniversalClient {
				return s.Client(t, func(o *redis.FailoverOptions) {
					o.Username, o.Password = "limited", "secret"
					if limited {
						o.SentinelUsername, o.SentinelPassword = "watcher", "secret"
					}
				})
			}
			story(t, connect, "orders:42")
			onlyTheStory(t, s.Nodes[0])
			s.Failover(t)
			story(t, connect, "orders:43")
			if limited {
				for _, sentinel := range s.Sentinels {
					require.Empty(t, refused(t, sentinel))
				}
			}
		})
	}
}

// eventually waits for a condition.
func eventually(ctx context.Context, t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}
