package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
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
	// A cluster of Redis 7 or later announces by sharded pub/sub, and needs nothing of aclSingle but PING.
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

// onlyTheStory: a server was asked only for what the rule permits, and EXISTS, by which the story looks; our own look is later.
func onlyTheStory(t *testing.T, srv *redistest.Server) {
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

// aclIdentity lets go-redis introduce itself as it does by default, which the rule does not permit and nobody minds.
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

// TestLeastPrivilegeInACluster: the same in a cluster: channels are sharded from Redis 7 on, and no missing permission hangs.
func TestLeastPrivilegeInACluster(t *testing.T) {
	level.ForAll(t)
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		// With replicas: without, Redis 8.0 and Valkey abort at SPUBLISH if nodes.conf was written by hand ("nodes != NULL").
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

func without(rule, word string) string {
	words := strings.Fields(rule)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == word }), " ")
}

// TestLeastPrivilegeUnderSentinel: the Sentinels have users of their own, since 6.2.
func TestLeastPrivilegeUnderSentinel(t *testing.T) {
	level.ForAll(t)
	onOutermost(t, func(t *testing.T, p redistest.Program) {
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

// aclInspect is what a user needs who only looks at locks, from Redis 7 on. Before: EVAL, EVALSHA and all rights to the keys.
const aclInspect = "+scan +evalsha_ro +eval_ro +exists +get +getrange +hexists +hget +hkeys +hlen +hscan +hstrlen +llen +lrange +pttl +strlen " +
	"+time +type +zcard +zcount +zrange +zrangebyscore +zscore +pubsub|numsub +pubsub|channels %R~*"

// aclEnd is what one needs in addition who ends holds of any kind.
const aclEnd = "+evalsha +eval +del +hdel +hgetall +hset +incrby +lindex +lpop +lrem +ltrim +pexpire +publish +rpush +set +zadd +zrem " +
	"+hmget +zremrangebyscore ~* &*"

func inspectRule(s *redistest.Server) string {
	if s.Major() >= 7 {
		return aclInspect
	}
	return strings.NewReplacer("_ro", "", "%R~*", "~*").Replace(aclInspect)
}

// prepareKinds makes one lock of each kind, and a hash with many fields.
func prepareKinds(t *testing.T, rdb *redis.Client) {
	const us = "11111111-2222-4333-8444-555555555555:h"
	ctx, ends := t.Context(), fmt.Sprint(rdb.Time(t.Context()).Val().Add(time.Hour).UnixMilli())
	for _, command := range []string{
		"HSET plain " + us + "1 1", "SET holdfast_client:{" + us[:36] + "} label",
		"RPUSH redisson_lock_queue:{plain} " + us + "2", "ZADD redisson_lock_timeout:{plain} " + ends + " " + us + "2",
		"HSET rw mode read " + us + "1 1", "ZADD holdfast_rwlock_writers:{rw} " + ends + " " + us + "3",
		"SET sem 2", "ZADD {sem}:timeout " + ends + " " + us + "1", "ZADD holdfast_semaphore_queue:{sem} 1 " + us + "2",
		"ZADD holdfast_semaphore_places:{sem} " + ends + " " + us + "2", "HSET holdfast_semaphore_wants:{sem} " + us + "2 3",
	} {
		var args []any
		for word := range strings.FieldsSeq(command) {
			args = append(args, word)
		}
		require.NoError(t, rdb.Do(ctx, args...).Err())
	}
	for _, name := range []string{"plain", "rw", "sem", "many"} {
		require.NoError(t, rdb.Set(ctx, "redisson_lock_token:{"+name+"}", 5000, 0).Err())
	}
	for i := range 100 {
		require.NoError(t, rdb.HSet(ctx, "many", i, i).Err())
	}
}

// seenBy is all that a user sees: the locks, or an error.
func seenBy(ctx context.Context, rdb *redis.Client) (string, error) {
	i, err := inspect.New(rdb, nil)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, q := range []inspect.Query{{}, {Redisson: true}, {Contended: true}} {
		for l, err := range i.Locks(ctx, q) {
			if err != nil {
				return "", err
			}
			l.At, l.Remaining, l.Server = time.Time{}, 0, ""
			for n := range l.Holders {
				l.Holders[n].Remaining = 0
			}
			for n := range l.Queue {
				l.Queue[n].Remaining = l.Queue[n].Remaining.Truncate(30 * time.Minute)
			}
			line, err := json.Marshal(l)
			if err != nil {
				return "", err
			}
			lines = append(lines, string(line))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// TestInspectWithTheRule: with the rule all is seen that the default user sees, and without any of its words something is not.
func TestInspectWithTheRule(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		admin, ctx := srv.Client(t), t.Context()
		prepareKinds(t, admin)
		redistest.Subscribed(t, admin, "redisson_lock__channel:{plain}")
		all, err := seenBy(ctx, admin)
		require.NoError(t, err)
		require.Contains(t, all, `"Name":"sem"`)
		require.NotContains(t, all, "holdfast_semaphore_wants", "which looks like a lock")

		rule := inspectRule(srv)
		user := as(t, srv, "watcher", rule)
		srv.Command(t, "SCRIPT", "FLUSH")
		srv.Command(t, "ACL", "LOG", "RESET")
		seen, err := seenBy(ctx, user)
		require.NoError(t, err)
		require.Equal(t, all, seen)
		require.Empty(t, refused(t, srv))
		if srv.Major() >= 7 {
			err := user.Set(ctx, "plain", 1, 0).Err()
			require.True(t, lua.IsDenied(err), "%v", err)
		}
		for word := range strings.FieldsSeq(rule) {
			setUser(t, srv, "watcher", strings.Replace(rule+" ", word+" ", "", 1))
			srv.Command(t, "SCRIPT", "FLUSH")
			less, err := seenBy(ctx, user)
			require.True(t, err != nil || less != all, "nothing is missed without %s", word)
		}
	})
}

// TestEndWithTheRule: with the rule holds of all kinds are ended, and nobody's else.
func TestEndWithTheRule(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		ctx := t.Context()
		prepareKinds(t, srv.Client(t))
		rule := inspectRule(srv) + " " + aclEnd
		if srv.Major() < 7 {
			rule = strings.ReplaceAll(rule, "&*", "")
		}
		i, err := inspect.New(as(t, srv, "operator", rule), nil)
		require.NoError(t, err)
		srv.Command(t, "ACL", "LOG", "RESET")
		for _, name := range []string{"plain", "rw", "sem"} {
			ended, err := i.End(ctx, name, inspect.Grant{Owner: "11111111-2222-4333-8444-555555555555:h1"})
			require.NoError(t, err, name)
			require.Empty(t, ended.Untold, name)
		}
		require.Empty(t, refused(t, srv))
	})
}
