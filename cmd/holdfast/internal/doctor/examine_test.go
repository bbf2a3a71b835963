package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// worse are the findings of a level or worse. How busy the machine is decides about two of the checks.
func worse(found []Finding, than Level) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool {
		return f.Level < than || f.Check == "clock" || f.Check == "latency"
	})
}

// TestExamineEveryVersion: on a server of each version that is set up well nothing is wrong or
// unknown, each check has its say, nothing is left, and no key of others is touched.
func TestExamineEveryVersion(t *testing.T) {
	redistest.EachProgram(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path), redistest.Args("--appendonly", "yes", "--appendfsync", "always"))
		srv.Command(t, "SET", "orders:1", "theirs")
		found, err := Examine(t.Context(), srv.Client(t), Settings{Span: time.Millisecond})
		require.NoError(t, err)
		require.Empty(t, worse(found, Unknown))
		for _, c := range checks {
			quiet := c.name == "cluster" || c.name == "denied" // of which there is nothing to say here
			require.Equal(t, !quiet, slices.ContainsFunc(found, func(f Finding) bool { return f.Check == c.name }), c.name)
		}
		require.Equal(t, []any{"orders:1"}, srv.Command(t, "KEYS", "*"))
		require.Equal(t, "theirs", srv.Command(t, "GET", "orders:1"))
	})
}

// TestExamineCluster: each master is looked at, on names of its own. A node that is asked as if it
// were alone, and slots that nobody serves, are errors.
func TestExamineCluster(t *testing.T) {
	c := redistest.StartCluster(t, 2, 0)
	rdb := c.Client(t)
	found, err := Examine(t.Context(), rdb, Settings{Span: time.Millisecond})
	require.NoError(t, err)
	require.Empty(t, worse(found, Error))
	for _, node := range c.Nodes {
		for _, name := range []string{"cluster", "permissions", "life", "messages"} {
			at := slices.IndexFunc(found, func(f Finding) bool { return f.Check == name && f.Server == node.Addr() })
			require.GreaterOrEqual(t, at, 0, "%s on %s", name, node.Addr())
			if name == "cluster" && node.Major() < 7 {
				expect(t, found[at], Note, "no sharded pub/sub")
				continue
			}
			expect(t, found[at], OK)
		}
		empty(t, node)
	}

	p := admitted(t, c.Nodes[0].Client(t), Settings{})
	expect(t, only(t, cluster(t.Context(), p)), Error, "a node of a Cluster, and the client asks it alone",
		"redis+cluster://")

	all, err := admit(t.Context(), rdb, Settings{}.withDefaults())
	require.NoError(t, err)
	c.Nodes[0].Command(t, "CLUSTER", "DELSLOTS", "0")
	first := all[slices.IndexFunc(all, func(p *patient) bool { return p.address == c.Nodes[0].Addr() })]
	require.Eventually(t, func() bool { return Worst(cluster(t.Context(), first)) == Error }, limit, 5*time.Millisecond)
	expect(t, only(t, cluster(t.Context(), first)), Error, "cluster_state is fail: 16383 of 16384 slots", "held are lost")
}

// TestExamineSentinel: the master is looked at, whichever it is.
func TestExamineSentinel(t *testing.T) {
	s := redistest.StartSentinel(t)
	found, err := Examine(t.Context(), s.Client(t), Settings{Span: time.Millisecond})
	require.NoError(t, err)
	at := slices.IndexFunc(found, func(f Finding) bool { return f.Check == "role" })
	expect(t, found[at], OK, "a master")
	empty(t, s.Primary(t))
}

// TestExamineIsBrokenOff: wherever it is broken off, it says so, and nothing is left.
func TestExamineIsBrokenOff(t *testing.T) {
	srv := redistest.Start(t)
	why := errors.New("enough")
	for _, after := range []int64{1, 6, 30, 47, 55, 60, 65, 70, 90} {
		ctx, cancel := context.WithCancelCause(t.Context())
		rdb := srv.Client(t)
		left := atomic.Int64{}
		left.Store(after)
		rdb.AddHook(redistest.Around(func(send func() error, _ ...redis.Cmder) error { // a command, or a pipeline
			if left.Add(-1) == 0 {
				cancel(why)
			}
			return send()
		}))
		_, err := Examine(ctx, rdb, Settings{Span: time.Hour})
		require.Error(t, err, "after %d commands", after)
		require.True(t, errors.Is(err, why) || errors.Is(err, context.Canceled), "%v", err)
		cancel(nil)
		vanishes(t, srv)
	}
}

// TestNobodyAnswers, or lets us in: that is no finding.
func TestNobodyAnswers(t *testing.T) {
	srv := redistest.Start(t)
	srv.Command(t, "CONFIG", "SET", "requirepass", "secret")
	_, err := Examine(t.Context(), srv.Client(t), Settings{})
	require.ErrorContains(t, err, "NOAUTH")
	rdb := srv.Client(t)
	for _, p := range redistest.Programs(t) {
		noAuth := redistest.Start(t, redistest.Exec(p.Path), redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", ""))
		named := redis.NewClient(&redis.Options{Addr: noAuth.Addr(), Username: "user", Password: "Zq9tSeKret", MaxRetries: -1})
		_, err = Examine(t.Context(), named, Settings{})
		require.ErrorContains(t, err, "auth", p.Name)
		require.NoError(t, named.Close())
	}
	srv.Kill()
	_, err = Examine(t.Context(), rdb, Settings{})
	require.Error(t, err)
	require.False(t, refused(err))
}

// TestMasters: masters that are one server, an even number of them, one that is away, and one that
// has just started. Three that are none of this are the control.
func TestMasters(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	var rdbs []redis.UniversalClient
	for _, srv := range servers {
		rdbs = append(rdbs, srv.Client(t))
	}
	s := Settings{Lease: time.Millisecond, Span: time.Millisecond}
	look := func(rdbs ...redis.UniversalClient) []Finding {
		found, err := ExamineMasters(t.Context(), rdbs, s)
		require.NoError(t, err)
		return slices.DeleteFunc(found, func(f Finding) bool { return f.Check != "masters" })
	}
	require.Eventually(t, func() bool { // they count whole seconds
		return Worst(look(rdbs...)) == OK
	}, limit, 50*time.Millisecond)
	expect(t, only(t, look(rdbs...)), OK, "3 masters, which are different servers")
	s.Lease = time.Hour
	expect(t, look(rdbs...)[0], Note, "started ", "does not vote until a lease, 1h0m0s")
	s.Lease = time.Millisecond

	expect(t, only(t, look(rdbs[0], rdbs[1])), Note, "an even number", "loss of 0, as 1 masters do")
	expect(t, only(t, look(rdbs[0], rdbs[1], servers[0].Client(t))), Error, "the same server as "+servers[0].Addr(),
		"two votes")
	hidden := user(t, servers[0], "~* &* +@all -info")
	expect(t, only(t, look(hidden, rdbs[1], rdbs[2])), Unknown, "+info")
	servers[2].Kill()
	expect(t, look(rdbs...)[0], Error, "no answer", "one master less")
	_, err := ExamineMasters(t.Context(), rdbs[2:], s)
	require.Error(t, err, "nobody answers")
}

func TestWorst(t *testing.T) {
	require.Equal(t, OK, Worst(nil))
	require.Equal(t, Warning, Worst([]Finding{{Level: Unknown}, {Level: Warning}, {Level: Note}}))
	require.Equal(t, "ok note unknown warning error Level(9)",
		strings.Join([]string{OK.String(), Note.String(), Unknown.String(), Warning.String(), Error.String(),
			Level(9).String()}, " "))
}

func TestMain(m *testing.M) { redistest.Main(m) }

// limit is how long a test waits for what must come, on however slow a machine.
const limit = 2 * time.Minute

// admitted asks a server what it tells of itself.
func admitted(t *testing.T, rdb redis.UniversalClient, s Settings) *patient {
	t.Helper()
	all, err := admit(t.Context(), rdb, s.withDefaults())
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// only expects one finding, and returns it.
func only(t *testing.T, found []Finding) Finding {
	t.Helper()
	require.Len(t, found, 1)
	return found[0]
}

// expect compares a finding with its level and words of it. What is not well says what it means and,
// but for what only waiting helps with, what to do.
func expect(t *testing.T, f Finding, level Level, says ...string) {
	t.Helper()
	require.Equal(t, level.String(), f.Level.String(), "%+v", f)
	for _, text := range says {
		require.Contains(t, f.Found+" | "+f.Means+" | "+f.Remedy, text)
	}
	if level == OK {
		require.Empty(t, f.Means+f.Remedy)
	} else {
		require.NotEmpty(t, f.Means, "%+v", f)
	}
}

// user makes a user with a rule, and a client that is this user.
func user(t *testing.T, srv *redistest.Server, rule string) *redis.Client {
	t.Helper()
	if srv.Major() < 7 { // 6.0 has no permissions for channels
		rule = strings.Join(slices.DeleteFunc(strings.Fields(rule), func(w string) bool { return w[0] == '&' }), " ")
	}
	name := "user-" + strings.ReplaceAll(t.Name(), "/", "-")
	srv.Command(t, append([]string{"ACL", "SETUSER", name, "reset", "on", ">secret"}, strings.Fields(rule)...)...)
	return srv.Client(t, func(o *redis.Options) { o.Username, o.Password = name, "secret" })
}

// empty says that a server has no key.
func empty(t *testing.T, srv *redistest.Server) {
	t.Helper()
	require.Equal(t, []any{}, srv.Command(t, "KEYS", "*"))
}
