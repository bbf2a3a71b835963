package doctor

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestServersWithFlaws: each flaw is found on a server that has it. The control is a server without it.
func TestServersWithFlaws(t *testing.T) {
	for _, c := range []struct {
		name  string
		conf  [][2]string // CONFIG SET
		look  func(context.Context, *patient) []Finding
		level Level
		says  []string
	}{
		{"it is a master", nil, role, OK, nil},
		{"it is no cluster", nil, func(ctx context.Context, p *patient) []Finding {
			return append(cluster(ctx, p), Finding{})
		}, OK, nil},
		{"evicts all", [][2]string{{"maxmemory", "100mb"}, {"maxmemory-policy", "allkeys-lru"}}, eviction, Error,
			[]string{"allkeys-lru", "any key", "noeviction"}},
		{"evicts locks", [][2]string{{"maxmemory", "100mb"}, {"maxmemory-policy", "volatile-ttl"}}, eviction, Error,
			[]string{"volatile-ttl", "as all locks have"}},
		{"might evict", [][2]string{{"maxmemory-policy", "allkeys-lru"}}, eviction, Note, []string{"there is no maxmemory"}},
		{"evicts nothing", [][2]string{{"maxmemory", "100mb"}}, eviction, OK, []string{"noeviction"}},
		{"full", [][2]string{{"maxmemory", "500kb"}}, memory, Warning, []string{" used", "refuses new locks"}},
		{"not full", [][2]string{{"maxmemory", "1gb"}}, memory, OK, []string{"of 1024 MiB"}},
		{"without a limit", nil, memory, OK, []string{"no limit"}},
		{"forgets all", nil, persistence, Warning, []string{"nothing is written to disk", "forgets all locks"}},
		{"snapshots", [][2]string{{"save", "3600 1"}}, persistence, Warning, []string{`save "3600 1"`, "last snapshot"}},
		{"syncs each second", [][2]string{{"appendonly", "yes"}}, persistence, Note, []string{"everysec", "last second"}},
		{"syncs at will", [][2]string{{"appendonly", "yes"}, {"appendfsync", "no"}}, persistence, Note,
			[]string{"half a minute"}},
		{"forgets nothing", [][2]string{{"appendonly", "yes"}, {"appendfsync", "always"}}, persistence, OK, nil},
		{"alone", nil, replicas, Note, []string{"no replicas", "redlock"}},
		{"without its replicas", [][2]string{{"min-replicas-to-write", "1"}}, replicas, Error,
			[]string{"0 of min-replicas-to-write 1", "NOREPLICAS"}},
		{"room for clients", nil, connections, OK, []string{" of 10000 clients"}},
		{"small buffers", [][2]string{{"client-output-buffer-limit", "pubsub 4096 1024 1"}}, buffers, Warning,
			[]string{"pubsub 4096 1024 1"}},
		{"usual buffers", nil, buffers, OK, []string{"pubsub 33554432 8388608 60"}},
		{"no limit of buffers", [][2]string{{"client-output-buffer-limit", "pubsub 0 0 0"}}, buffers, OK, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := redistest.Start(t)
			for _, set := range c.conf {
				srv.Command(t, "CONFIG", "SET", set[0], set[1])
			}
			f := only(t, c.look(t.Context(), admitted(t, srv.Client(t), Settings{})))
			expect(t, f, c.level, c.says...)
		})
	}
}

// TestSnapshotsThatFail: a directory is where the snapshot is to be.
func TestSnapshotsThatFail(t *testing.T) {
	srv := redistest.Start(t, redistest.Args("--save", "3600 1", "--dbfilename", "taken"))
	rdb := srv.Client(t)
	look := func() []Finding { return persistence(t.Context(), admitted(t, rdb, Settings{})) }
	require.Len(t, look(), 1, "control: before it fails")
	dir, err := rdb.ConfigGet(t.Context(), "dir").Result()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir["dir"], "taken"), 0o700))
	srv.Command(t, "BGSAVE")
	require.Eventually(t, func() bool { return len(look()) == 2 }, limit, 5*time.Millisecond)
	expect(t, look()[1], Error, "rdb_last_bgsave_status", "refuses locks")
}

// TestWhatCannotBeBroughtAbout: states that no test can bring about, as a full disk, are written into a healthy server's answer.
func TestWhatCannotBeBroughtAbout(t *testing.T) {
	p := admitted(t, redistest.Shared(t).Client(t), Settings{})
	change := func(section, field, value string) func() {
		fields := p.infos[section].fields
		before := fields[field]
		fields[field] = value
		return func() { fields[field] = before }
	}
	back := change("persistence", "loading", "1")
	expect(t, only(t, persistence(t.Context(), p)), Error, "loading")
	back()
	undo := change("persistence", "aof_enabled", "1")
	back = change("persistence", "aof_last_write_status", "err")
	expect(t, persistence(t.Context(), p)[1], Error, "aof_last_write_status", "disk may be full")
	back()
	require.Len(t, persistence(t.Context(), p), 1, "control")
	undo()

	for text, level := range map[string]Level{"5.0.14": Error, "6.0.0": OK, "": Unknown, "9.9": OK} {
		back := change("server", "redis_version", text)
		undo := change("server", "valkey_version", "")
		expect(t, only(t, version(t.Context(), p)), level)
		undo()
		back()
	}
	back = change("replication", "role", "sentinel")
	expect(t, only(t, role(t.Context(), p)), Error, "redis+sentinel://")
	back()
}

// TestReplicas: a primary without a replica in step, and a replica that is asked for locks.
func TestReplicas(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	primary, replica := r.Nodes[0], r.Nodes[1]
	look := func(check func(context.Context, *patient) []Finding, srv *redistest.Server, s Settings) Finding {
		return only(t, check(t.Context(), admitted(t, srv.Client(t), s)))
	}
	expect(t, look(role, replica, Settings{}), Error, "a replica of 127.0.0.1", "name the master")
	expect(t, look(role, primary, Settings{}), OK)
	require.Empty(t, replicas(t.Context(), admitted(t, replica.Client(t), Settings{})),
		"it has none, and its role says why")

	expect(t, look(persistence, primary, Settings{}), Error, "empties the replicas too")
	primary.Command(t, "CONFIG", "SET", "appendonly", "yes")
	expect(t, look(persistence, primary, Settings{}), Note)

	expect(t, look(replicas, primary, Settings{}), Warning, "1 replica, min-replicas-to-write is 0", "cut off")
	primary.Command(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	primary.Command(t, "CONFIG", "SET", "min-replicas-max-lag", "10")
	require.Eventually(t, func() bool { // a replica says once a second how far it is
		return look(replicas, primary, Settings{Lease: time.Hour}).Level == Note
	}, limit, 20*time.Millisecond)
	expect(t, look(replicas, primary, Settings{Lease: time.Hour}), Note, "1 replica, of which 1 are up to date",
		"Replicas")
	expect(t, look(replicas, primary, Settings{Lease: 9 * time.Second}), Warning, "min-replicas-max-lag is 10 s",
		"a third of the lease")

	primary.Command(t, "CONFIG", "SET", "min-replicas-max-lag", "3")
	replica.Pause()
	defer replica.Resume()
	var f Finding
	require.Eventually(t, func() bool { // whole seconds are counted, and it says nothing any more
		f = look(replicas, primary, Settings{Lease: 4 * time.Second})
		return f.Level == Warning
	}, limit, 20*time.Millisecond)
	expect(t, f, Warning, "the replica 127.0.0.1:", "s behind, and a third of the lease is 1.3",
		"a failover to it forgets grants")
}

// TestConnections: a server that has all the clients it takes, and one that had.
func TestConnections(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	look := func() Finding { return only(t, connections(t.Context(), admitted(t, rdb, Settings{}))) }
	expect(t, look(), OK)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxclients", "1").Err())
	require.Eventually(t, func() bool { return look().Level == Warning }, limit, 5*time.Millisecond)
	expect(t, look(), Warning, "of 1 clients", "refused")
	_, err := srv.Try("PING")
	require.Error(t, err, "the fault: there is no room")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxclients", "1000").Err())
	expect(t, look(), Note, "were turned away")
}

// TestRefusalsAreUnknown: a server that tells nothing, to this user or by its configuration, is not called bad.
func TestRefusalsAreUnknown(t *testing.T) {
	srv := redistest.Start(t, redistest.Args("--rename-command", "CONFIG", ""))
	expect(t, only(t, buffers(t.Context(), admitted(t, srv.Client(t), Settings{}))), Unknown, "+config|get")
	aof := redistest.Start(t, redistest.Args("--rename-command", "CONFIG", "", "--appendonly", "yes"))
	expect(t, only(t, persistence(t.Context(), admitted(t, aof.Client(t), Settings{}))), Unknown, "how often")
	p := admitted(t, user(t, redistest.Shared(t), "~* +@all -info -config -cluster"), Settings{})
	for name, look := range map[string]func(context.Context, *patient) []Finding{
		"version": version, "role": role, "cluster": cluster, "eviction": eviction, "memory": memory,
		"persistence": persistence, "replicas": replicas, "connections": connections, "buffers": buffers,
	} {
		t.Run(name, func(t *testing.T) {
			f := only(t, look(t.Context(), p))
			expect(t, f, Unknown)
			require.NotEmpty(t, f.Remedy)
		})
	}
}

func TestTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		read, dial time.Duration
		level      Level
		says       string
	}{
		"default":     {0, 0, OK, "ReadTimeout 5s"},
		"none":        {-1, 0, Error, "never returns"},
		"not even so": {-2, 0, Error, "never returns"},
		"a lease":     {30 * time.Second, 0, Error, "ReadTimeout is 30s, and the lease 30s"},
		"half of it":  {15 * time.Second, 0, Warning, "a third of the lease 10s"},
		"dialling":    {time.Second, 11 * time.Second, Warning, "DialTimeout is 11s"},
		"short":       {time.Second, time.Second, OK, "1s"},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: c.read, DialTimeout: c.dial})
			defer rdb.Close()
			p := &patient{Settings: Settings{}.withDefaults(), rdb: rdb}
			expect(t, only(t, timeouts(t.Context(), p)), c.level, c.says)
			many := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadTimeout: c.read,
				DialTimeout: c.dial})
			defer many.Close()
			p.rdb = many
			expect(t, only(t, timeouts(t.Context(), p)), c.level, c.says)
		})
	}
}

// TestClockThatIsMoved: a server's clock is set while it is looked at, either way. The control is the
// same server before: however busy the machine, its clock is not called wrong.
func TestClockThatIsMoved(t *testing.T) {
	srv := redistest.Start(t, redistest.Clock())
	rdb := srv.Client(t)
	look := func(between func()) Finding {
		p := admitted(t, rdb, Settings{Span: time.Millisecond})
		between()
		return only(t, clock(t.Context(), p))
	}
	require.NotEqual(t, Error, look(func() {}).Level, "control")
	expect(t, look(func() { srv.MoveClock(t, time.Hour) }), Error, "another rate", "NTP")
	expect(t, look(func() { srv.MoveClock(t, -2*time.Hour) }), Error, "another rate", "NTP")
	require.NotEqual(t, Error, look(func() {}).Level, "what it shows does not matter")
}

func TestClockIsRefused(t *testing.T) {
	p := admitted(t, user(t, redistest.Shared(t), "~* +@all -time"), Settings{})
	expect(t, only(t, clock(t.Context(), p)), Unknown, "+time")
}

// TestJudgeClock: readings of which both ends of a round trip are known.
func TestJudgeClock(t *testing.T) {
	began := time.Now()
	at := func(passed, theirs, apart, within time.Duration) []Finding {
		return judgeClock(reading{began.Add(apart), began, within},
			reading{began.Add(apart + theirs), began.Add(passed), within})
	}
	const ms = time.Millisecond
	expect(t, only(t, at(time.Second, time.Second, 0, ms)), OK, "agrees with ours")
	expect(t, only(t, at(time.Second, 1011*ms, 0, ms)), OK) // within a per cent and the round trips
	expect(t, only(t, at(time.Second, 1013*ms, 0, ms)), Error, "went on by 1.01s")
	expect(t, only(t, at(time.Second, 985*ms, 0, ms)), Error)
	expect(t, only(t, at(time.Second, time.Second, 3*time.Second, ms)), OK, "3s more than ours")
	expect(t, only(t, at(time.Second, time.Second, -3*time.Hour, ms)), Note, "3h0m0s less than ours", "do not mind")
	expect(t, only(t, at(time.Second, time.Second, 0, 6*ms)), Unknown, "nearer")
}

// TestLatency: the same round trips are fine for a long lease, and too long for a short one.
func TestLatency(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	expect(t, only(t, latency(t.Context(), admitted(t, rdb, Settings{Lease: time.Hour}))), OK, "(p50)", "(p99)")
	expect(t, only(t, latency(t.Context(), admitted(t, rdb, Settings{Lease: time.Microsecond}))), Error, "a longer lease")
	took := make([]time.Duration, 100)
	for i := range took {
		took[i] = time.Duration(i+1) * time.Millisecond
	}
	expect(t, only(t, judgeLatency(took, 4*time.Second)), OK,
		"round trips of 51ms (p50) and 99ms (p99); a renewal may take 400ms")
	expect(t, only(t, judgeLatency(took, 3*time.Second)), Warning, "from 3.96s up")
	expect(t, only(t, judgeLatency(took, 900*time.Millisecond)), Error, "holds are lost")
	expect(t, only(t, judgeLatency(took[:1], time.Second)), OK, "1ms (p50) and 1ms (p99)")
}

var orders = Settings{Prefix: "orders:"}

// listening are permissions of whoever waits, which the check of messages tries; useful are those without which a lock works.
var (
	listening = []string{"+subscribe", "+unsubscribe", "+ssubscribe", "+sunsubscribe"}
	useful    = []string{"+ping", "+pubsub|numsub", "+hdel"}
)

// TestNeedsAreTheDocuments: each kind is tried with its rule of docs/security.md, which integration tests try on every server.
func TestNeedsAreTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/security.md")
	require.NoError(t, err)
	doc := string(text)
	rule := func(from, to string) []string {
		_, part, found := strings.Cut(doc, from)
		require.True(t, found, from)
		part, _, found = strings.Cut(part, to)
		require.True(t, found, to)
		return regexp.MustCompile("[+~&][^\\s`]+").FindAllString(part, -1)
	}
	base := rule("ACL SETUSER orders on >password", "```")
	split := slices.IndexFunc(base, func(w string) bool { return w[0] == '&' })
	commands, last := base[:split], base[split:]
	fair := append(slices.Clone(base), rule("* **Fair locks**", "* **Read-write")...)
	want := map[string][]string{
		"rlock": base, "fairlock": fair,
		"rwlock": append(slices.Clone(commands), append(rule("* **Read-write locks**", "* **Elections"),
			slices.DeleteFunc(slices.Clone(last), func(w string) bool { return w[0] == '&' })...)...),
		"election":  append(slices.Clone(fair), rule("* **Elections**", "(on Redis 6.0")...),
		"semaphore": append(rule("* **Semaphores**", "* **Latches"), last[1:]...),
		"latch":     append(rule("* **Latches**", "* **The guard"), last[1:]...),
		"Client.Ping": append(slices.DeleteFunc(slices.Clone(base), func(w string) bool { return w[0] != '+' }),
			rule("* **`Client.Ping`**", "A client that has")...),
		"Options.Label": rule("* **Labels**", "Without"),
		"redlock":       append(slices.Clone(base), rule("* **Quorum locks** (`redlock`) also need", "; see")...),
	}
	p := &patient{Settings: orders}
	all := needs(p)
	require.Len(t, all, len(want))
	for _, n := range all {
		t.Run(n.kind, func(t *testing.T) {
			documented := slices.DeleteFunc(want[n.kind], func(w string) bool {
				// What costs nothing but the log where it is missing, and is named for rlock, is not tried for all.
				return slices.Contains(listening, w) || slices.Contains(useful, w) || w == "+pubsub" ||
					w == "~redisson_lock__channel:{orders:*" && n.kind == "rwlock"
			})
			tried := slices.DeleteFunc(append(slices.Clone(n.essential), n.useful...), func(w string) bool {
				return slices.Contains(useful, w)
			})
			slices.Sort(documented)
			slices.Sort(tried)
			require.Equal(t, slices.Compact(documented), slices.Compact(tried))
		})
	}
}

// union is a rule with which all kinds work.
func union(p *patient) (list []string) {
	for _, n := range needs(p) {
		list = append(list, append(slices.Clone(n.essential), n.useful...)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestPermissions: a user with the rule of all kinds lacks nothing; without one permission those kinds are named that need it,
// with it, and no others. Nothing is left behind, and nothing is tried on names that are not the user's.
func TestPermissions(t *testing.T) {
	srv := redistest.Start(t)
	rule := union(&patient{Settings: orders})
	whole := user(t, srv, strings.Join(rule, " "))
	expect(t, only(t, permissions(t.Context(), admitted(t, whole, orders))), OK,
		"by rlock, fairlock, rwlock, semaphore, latch, election, redlock, Client.Ping, Options.Label")
	for _, without := range rule {
		if srv.Major() < 7 && without[0] == '&' {
			continue
		}
		t.Run(without, func(t *testing.T) {
			rest := slices.DeleteFunc(slices.Clone(rule), func(w string) bool { return w == without })
			if without == "~orders:*" { // else another pattern, ~{orders:*, would be all that is left of the name
				rest = append(rest, "~elsewhere:*")
			}
			p := admitted(t, user(t, srv, strings.Join(rest, " ")), orders)
			found := permissions(t.Context(), p)
			for _, n := range needs(p) {
				at := slices.IndexFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Found, n.kind+" lacks ") })
				switch {
				case slices.Contains(n.essential, without):
					require.GreaterOrEqual(t, at, 0, "%s: %+v", n.kind, found)
					require.Contains(t, strings.Fields(found[at].Found), without)
					require.Contains(t, found[at].Remedy, "ACL SETUSER user-")
					require.Equal(t, n.kind == plainKind, found[at].Level == Error)
				case slices.Contains(n.useful, without):
					require.GreaterOrEqual(t, at, 0, "%s: %+v", n.kind, found)
					require.Equal(t, Note, found[at].Level)
				default:
					require.Negative(t, at, "%s does not need %s: %+v", n.kind, without, found)
				}
			}
			vanishes(t, srv)
		})
	}
}

// vanishes waits for the end of what could only be given a time to live of a millisecond.
func vanishes(t *testing.T, srv *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		keys, ok := srv.Command(t, "KEYS", "*").([]any)
		return ok && len(keys) == 0
	}, limit, time.Millisecond)
}

// TestPermissionsOfNobody: a user without any permission is told at once, and not blamed for answers that are hidden from it.
func TestPermissionsOfNobody(t *testing.T) {
	srv := redistest.Start(t)
	p := admitted(t, user(t, srv, "+ping"), Settings{})
	require.Equal(t, Error, Worst(permissions(t.Context(), p)))
	require.Equal(t, Error, Worst(messages(t.Context(), p)))
	expect(t, only(t, life(t.Context(), p)), Unknown, "+del")
	empty(t, srv)
}

// TestWithoutErasers: who may not delete is not asked to make anything.
func TestWithoutErasers(t *testing.T) {
	srv := redistest.Start(t)
	rule := " -del -pexpire"
	p := admitted(t, user(t, srv, "~* &* +@all"+rule), Settings{})
	found := permissions(t.Context(), p)
	require.True(t, slices.ContainsFunc(found, func(f Finding) bool {
		return f.Level == Unknown && strings.Contains(f.Found, "+hset +rpush +incrby +decr")
	}), "%+v", found)
	expect(t, only(t, life(t.Context(), p)), Unknown, "its token could not be deleted")
	empty(t, srv)
	p = admitted(t, user(t, srv, "~* &* +@all -del"), Settings{})
	found = permissions(t.Context(), p)
	require.False(t, slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Unknown }),
		"a time to live is an eraser: %+v", found)
	vanishes(t, srv)
}
