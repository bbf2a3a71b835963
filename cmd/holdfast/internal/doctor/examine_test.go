package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
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

// TestExamineCluster: each master is looked at. A node that is asked alone, and slots that nobody serves, are errors.
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
	require.ErrorContains(t, kindtest.Err(Examine(t.Context(), srv.Client(t), Settings{})), "NOAUTH")
	rdb := srv.Client(t)
	for _, p := range redistest.Programs(t) {
		noAuth := redistest.Start(t, redistest.Exec(p.Path), redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", ""))
		named := redis.NewClient(&redis.Options{Addr: noAuth.Addr(), Username: "user", Password: "Zq9tSeKret", MaxRetries: -1})
		require.ErrorContains(t, kindtest.Err(Examine(t.Context(), named, Settings{})), "auth", p.Name)
		require.NoError(t, named.Close())
	}
	srv.Kill()
	_, err := Examine(t.Context(), rdb, Settings{})
	require.Error(t, err)
	require.False(t, refused(err))
}

// TestMasters: one server twice, an even number, one away, and one just started are found. The control: three good ones.
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
	require.Error(t, kindtest.Err(ExamineMasters(t.Context(), rdbs[2:], s)), "nobody answers")
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

// expect compares a finding's level and words. A flaw says what it means and, unless only waiting helps, what to do.
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

// TestLife: a lock lives and leaves nothing. Where scripts or messages to waiters are forbidden, the finding names the step.
func TestLife(t *testing.T) {
	srv := redistest.Start(t)
	expect(t, only(t, life(t.Context(), admitted(t, srv.Client(t), Settings{}))), OK,
		"refused to another client, granted to it, and released")
	empty(t, srv)
	for without, says := range map[string]string{
		"-evalsha -eval": "could not be granted", "-hexists": "could not be entered again",
		"-hgetall": "could not be looked at",
	} {
		t.Run(without, func(t *testing.T) {
			rdb := user(t, srv, "~* &* +@all "+without)
			f := only(t, life(t.Context(), admitted(t, rdb, Settings{})))
			expect(t, f, Error, says)
		})
	}
}

// TestLifeIsRefused: what a server that takes no writes says is no matter of permissions, and the remedy is one for that.
func TestLifeIsRefused(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	for what, c := range map[string]struct {
		make   func()
		remedy string
	}{
		"READONLY":   {func() { replica.Command(t, "REPLICAOF", "127.0.0.1", strings.Split(master.Addr(), ":")[1]) }, "name the master"},
		"NOREPLICAS": {func() { replica.Command(t, "CONFIG", "SET", "min-replicas-to-write", "1") }, "bring the replicas back"},
		"OOM":        {func() { replica.Command(t, "CONFIG", "SET", "maxmemory", "1") }, "raise maxmemory"},
	} {
		t.Run(what, func(t *testing.T) {
			p := admitted(t, replica.Client(t), Settings{})
			c.make()
			f := only(t, life(t.Context(), p))
			replica.Command(t, "REPLICAOF", "NO", "ONE")
			replica.Command(t, "CONFIG", "SET", "min-replicas-to-write", "0")
			replica.Command(t, "CONFIG", "SET", "maxmemory", "0")
			require.Contains(t, f.Found, what)
			require.Contains(t, f.Remedy, c.remedy)
			require.NotContains(t, f.Remedy, "permission")
			require.NotContains(t, f.Remedy, "give this user")
		})
	}
	require.Equal(t, "p", remedy(user(t, master, "~* &* +@all -get").Get(t.Context(), "k").Err(), "p"), "the control: one is missing")
}

// TestMessagesFromElsewhere: behind one address subscriptions go to another server. The control: the client with one server.
func TestMessagesFromElsewhere(t *testing.T) {
	srv, other := redistest.Start(t), redistest.Start(t)
	for name, c := range map[string]struct {
		second string
		level  Level
		says   string
	}{
		"two servers": {other.Addr(), Error, "a message to oneself did not arrive: nothing for"},
		"one":         {srv.Addr(), OK, "arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			var dialled atomic.Int64
			rdb := srv.Client(t, func(o *redis.Options) {
				o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
					address := srv.Addr()
					if dialled.Add(1) > 1 { // the first is for commands, and stays in the pool
						address = c.second
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}
			})
			p := admitted(t, rdb, Settings{})
			if c.level == Error {
				p.patience = 10 * time.Millisecond // nothing will come, however long it is waited for
			} else {
				p.patience = limit
			}
			expect(t, only(t, messages(t.Context(), p)), c.level, c.says)
		})
	}
}

// TestMessagesThatAreForbidden: who may not listen, or not publish, is told which.
func TestMessagesThatAreForbidden(t *testing.T) {
	srv := redistest.Start(t)
	for rule, says := range map[string]string{
		"~* &* +@all -subscribe": "not confirmed: NOPERM",
		"~* &* +@all -publish":   "could not be published: NOPERM",
		"~* &orders:* +@all":     "not confirmed: NOPERM",
		"~* &other +@all":        "not confirmed: NOPERM",
		"~* &redisson_* +@all":   "",
	} {
		if srv.Major() < 7 && strings.Contains(says, "not confirmed") != strings.Contains(rule, "-subscribe") {
			continue // where there are no permissions for channels
		}
		t.Run(rule, func(t *testing.T) {
			f := only(t, messages(t.Context(), admitted(t, user(t, srv, rule), Settings{})))
			if says == "" {
				expect(t, f, OK)
				return
			}
			expect(t, f, Error, says, "sleep until the lease")
		})
	}
}

// TestDenied: what others were refused is a note, on servers that count it. Of others nothing is said.
func TestDenied(t *testing.T) {
	redistest.EachProgram(t, func(t *testing.T, program redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(program.Path))
		rdb := srv.Client(t)
		require.Empty(t, denied(t.Context(), admitted(t, rdb, Settings{})), "control")
		require.Error(t, user(t, srv, "~* &* +@all -get").Get(t.Context(), "k").Err())
		p := admitted(t, rdb, Settings{})
		if _, counts := p.infos["stats"].fields["acl_access_denied_cmd"]; !counts {
			require.Empty(t, denied(t.Context(), p))
			return
		}
		expect(t, only(t, denied(t.Context(), p)), Note, "1 commands", "ACL LOG")
	})
}

// TestDeniedAsCounted: what servers since 7.2 say of their counts, for a run that has an older one only.
func TestDeniedAsCounted(t *testing.T) {
	found := func(stats string) []Finding {
		return denied(t.Context(), &patient{infos: map[string]answer{"stats": {fields: infoFields(stats)}}})
	}
	const counts = "acl_access_denied_auth:4\r\nacl_access_denied_cmd:%d\r\n" +
		"acl_access_denied_key:%d\r\nacl_access_denied_channel:%d\r\n"
	expect(t, only(t, found(fmt.Sprintf(counts, 1, 2, 3))), Note, "1 commands, 2 on keys, 3 on channels", "ACL LOG")
	require.Empty(t, found(fmt.Sprintf(counts, 0, 0, 0)))
	require.Empty(t, found("total_commands_processed:1\r\n"), "a server that does not count")
}
