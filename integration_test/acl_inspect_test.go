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

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// aclInspect is what a user may do who looks at locks and changes nothing, from Redis 7 on. Before, it is
// the two commands for scripts that may write, and all rights to the keys.
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
	t.Helper()
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

// TestInspectWithTheRule: with the rule everything is seen that the default user sees, nothing is
// refused, and without each of its words something is not.
func TestInspectWithTheRule(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		admin, ctx := srv.Client(t), t.Context()
		prepareKinds(t, admin)
		ears := admin.Subscribe(ctx, "redisson_lock__channel:{plain}")
		defer ears.Close()
		_, err := ears.Receive(ctx)
		require.NoError(t, err)
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
