package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestPermissionLostWhileWaiting: somebody waits already when the permission to listen goes. The holder never lets go, so only
// an error ends the wait. Servers with permissions for channels close the connection of a subscriber who lost one; for
// commands, and on Redis 6.0, the connection is closed here, as any network may do.
func TestPermissionLostWhileWaiting(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := aclRule(srv, false)
		words := []string{"+subscribe"}
		if srv.Major() >= 7 {
			words = append(words, aclChannels)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i, word := range words {
			name := fmt.Sprint("orders:", i)
			other := rlock.New(newClient(t, srv.Client(t), nil), name)
			held := mustLock(t, other)
			mine := rlock.New(newClient(t, as(t, srv, "limited", rule), nil), name)
			waits := kindtest.Begin(ctx, t, mine.Lock)
			channel := "redisson_lock__channel:{" + name + "}"
			kindtest.Eventually(t, "the waiter listens", func() bool {
				return srv.Command(t, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64) == 1
			})
			setUser(t, srv, "limited", without(rule, word))
			if word == "+subscribe" {
				srv.Command(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
			err := waits.Err()
			require.NoError(t, ctx.Err())
			require.ErrorContains(t, err, `rlock: lock "`+name+`"`)
			require.True(t, aboutPermissions(err), "%v", err)
			require.Equal(t, held.Owner(), kindtest.State(t, other).Owner)
			require.NoError(t, held.Unlock(ctx))
		}
	})
}

// TestRespectStringsNeedsNoPermission: the rule is enough beside a string. Without GET it is an error, as without the option.
func TestRespectStringsNeedsNoPermission(t *testing.T) {
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule, rdb, ctx := aclRule(srv, false), srv.Client(t), t.Context()
		m := rlock.New(newClient(t, as(t, srv, "limited", rule), nil), "orders:42", rlock.RespectStrings())
		require.NoError(t, rdb.Set(ctx, "orders:42", "whose", 200*time.Millisecond).Err())
		kindtest.Unlock(t, kindtest.Take(ctx, t, m.Lock))

		require.NoError(t, rdb.Set(ctx, "orders:42", "whose", time.Minute).Err())
		kindtest.Refused(ctx, t, m.TryLock)
		setUser(t, srv, "limited", without(rule, "+get"))
		kindtest.Tells(t, kindtest.Err(m.TryLock(ctx)), kindtest.Not(holdfast.ErrNotAcquired), "WRONGTYPE")
		require.Equal(t, "whose", rdb.Get(ctx, "orders:42").Val())
	})
}

// TestLabelWithTheRule: with the rule clients show labels and see deadlocks; without its words for that only their locks work.
func TestLabelWithTheRule(t *testing.T) {
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule, ctx := aclRule(srv, false), t.Context()
		heard := make(chan event.Deadlock, 10)
		o := &holdfast.Options{Label: "who", LongWait: 80 * time.Millisecond, Observer: &event.Observer{
			Deadlocked: func(d event.Deadlock) { heard <- d },
		}}
		names := []string{"orders:1", "orders:2"}
		var clients [2]*holdfast.Client
		var holds [2]*holdfast.Hold
		for i := range clients {
			var err error
			clients[i], err = holdfast.New(as(t, srv, "labelled", rule+" "+aclLabel), o)
			require.NoError(t, err)
			holds[i] = mustLock(t, rlock.New(clients[i], names[i]))
		}
		waits, end := context.WithCancel(ctx)
		done := make(chan error, len(clients))
		for i, c := range clients {
			go func() {
				ctx, cancel := context.WithCancel(holds[i].Context())
				defer cancel()
				defer context.AfterFunc(waits, cancel)()
				_, err := rlock.New(c, names[1-i]).Lock(ctx)
				done <- err
			}()
		}
		for range clients {
			require.Equal(t, "who", kindtest.Receive(t, "the deadlock is seen", heard).Circle[1].Label)
		}
		require.Equal(t, "who", srv.Client(t).Get(ctx, "holdfast_client:{"+clients[0].ID()+"}").Val())
		end()
		for range clients {
			require.ErrorIs(t, <-done, holdfast.ErrNotAcquired)
		}
		for _, c := range clients {
			require.NoError(t, c.Close(ctx))
		}
		require.Empty(t, refused(t, srv))
		require.Empty(t, srv.Client(t).Keys(ctx, "holdfast_client*").Val())

		c, err := holdfast.New(as(t, srv, "less", rule), o)
		require.NoError(t, err)
		require.NoError(t, mustLock(t, rlock.New(c, names[0])).Unlock(ctx))
		kindtest.Eventually(t, "control: the label is refused", func() bool {
			return slices.ContainsFunc(refused(t, srv), func(object string) bool {
				return strings.HasPrefix(object, "holdfast_client:{") || object == "key"
			})
		})
		require.NoError(t, c.Close(ctx))
		require.ErrorIs(t, srv.Client(t).Get(ctx, "holdfast_client:{"+c.ID()+"}").Err(), redis.Nil)
	})
}

// TestDefaultLabelDenied: a user with the rule for locks alone has locks without warnings, and a client of it asks for its
// label once. Without a label it asks for nothing.
func TestDefaultLabelDenied(t *testing.T) {
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		for _, label := range []string{"", holdfast.NoLabel} {
			var log bytes.Buffer
			c, err := holdfast.New(as(t, srv, "limited", aclRule(srv, false)),
				&holdfast.Options{Label: label, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			require.NoError(t, err)
			unlocked := func() { require.NoError(t, mustLock(t, rlock.New(c, "orders:1")).Unlock(t.Context())) }
			unlocked()
			if label == "" {
				kindtest.Eventually(t, "the label is refused", func() bool { return len(refused(t, srv)) == 1 })
			}
			srv.Command(t, "ACL", "LOG", "RESET")
			unlocked()
			require.NoError(t, c.Close(t.Context()))
			require.NotContains(t, log.String(), "level=WARN")
			require.Empty(t, refused(t, srv), "nor is it deleted")
			srv.Command(t, "ACL", "LOG", "RESET")
		}

		c, err := holdfast.New(as(t, srv, "limited", aclRule(srv, false)), &holdfast.Options{Label: holdfast.NoLabel, Prefix: "orders:"})
		require.NoError(t, err)
		require.NoError(t, c.Ping(t.Context()), "the rule is enough for it, too")
		require.NoError(t, c.Close(t.Context()))
		require.Empty(t, refused(t, srv))
	})
}

// TestHandOffWithTheRule: the rule is enough for a lock that is handed off within a client, and
// without the permission to count listeners it works too.
func TestHandOffWithTheRule(t *testing.T) {
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		counts := func(object string) bool { return strings.HasPrefix(object, "pubsub") }
		rule := aclRule(srv, false)
		passOn := func(user, rule string) { // often enough to use up more than one block of tokens
			kindtest.Chain(t, rlock.New(newClient(t, as(t, srv, user, rule), nil), "orders:42"), 8, 100)
		}
		passOn("limited", rule)
		require.Empty(t, refused(t, srv))
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(srv.CommandCalls(t))), counts),
			"the server was asked who listens")
		passOn("less", without(rule, "+pubsub|numsub"))
		require.True(t, slices.ContainsFunc(refused(t, srv), counts), "control: that was refused")
	})
}

// TestSeveralLeastPrivilege: a multilock needs only what its members need, also if they are so many that one script takes them.
func TestSeveralLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		c := newClient(t, as(t, srv, "limited", aclRule(srv, false)), nil)
		var locks []holdfast.Locker
		for i := range 5 {
			locks = append(locks, rlock.New(c, fmt.Sprint("orders:", i)))
		}
		m := multilock.New(locks...)
		h := kindtest.Lock(t, m)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		kindtest.Refused(t.Context(), t, m.TryLock)
		require.NoError(t, h.Unlock(t.Context()))
		require.Empty(t, refused(t, srv))
	})
}

// as makes a user with that rule on a server and returns a client that is this user. A user of that name is replaced.
func as(t *testing.T, srv *redistest.Server, user, rule string, change ...func(*redis.Options)) *redis.Client {
	setUser(t, srv, user, rule)
	return srv.Client(t, append(change, func(o *redis.Options) { o.Username, o.Password = user, "secret" })...)
}

// setUser gives a user that rule and no other. Connections that are open obey it from their next command on.
func setUser(t *testing.T, srv *redistest.Server, user, rule string) {
	srv.Command(t, append([]string{"ACL", "SETUSER", user, "reset", "on", ">secret"}, strings.Fields(rule)...)...)
}

// allChannels is the rule for all channels, empty before there was such a permission (6.2).
func allChannels(srv *redistest.Server) string {
	if srv.Major() < 7 {
		return ""
	}
	return "allchannels"
}

// TestSecurityDocSaysWhatIsTested: docs/security.md has the rules of the tests, and the tables of [TestWithoutAPermission].
func TestSecurityDocSaysWhatIsTested(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "```\nACL SETUSER orders on >password\n")
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.Equal(t, strings.Fields(aclScripts+" "+aclKeys+" "+aclChannels+" "+aclSingle), strings.Fields(block))
	doc := strings.Join(strings.Fields(string(text)), " ")
	doc = strings.ReplaceAll(doc, "` `", " ") // rules on two lines of their own
	for _, rule := range []string{aclFair, aclReadWrite + " " + aclReadWriteChannels, aclElection, aclLatch, aclInspect, aclEnd,
		aclFence, aclCluster, aclReplicas, aclOnDisk, aclHint, aclLabel, aclSentinel, aclQuorum} {
		require.Contains(t, doc, "`"+rule+"`")
	}
	require.Contains(t, doc, "the last line and `+cluster|slots +command +asking`")
}

// TestTheSuiteRunsWithTheRule: the user of all topologies may run the same commands and no others.
func TestTheSuiteRunsWithTheRule(t *testing.T) {
	commands := func(rule string) map[string]bool {
		set := map[string]bool{}
		for word := range strings.FieldsSeq(rule) {
			if strings.HasPrefix(word, "+") {
				set[word] = true
			}
		}
		return set
	}
	require.Equal(t, commands(strings.Join([]string{aclScripts, aclFair, aclReadWrite, aclSemaphore, aclLatch, aclSingle,
		aclCluster, aclReplicas}, " ")), commands(topology.Rule))
}
