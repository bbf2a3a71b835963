// Package topology gives a test every way in which Redis is run: a single server, a primary with replicas, one under Sentinels,
// a cluster; in every version that can be had, as processes, and single servers as containers too.
//
// A test names what it needs and runs once for each:
//
//	topology.Each(t, topology.Single|topology.Cluster, func(t *testing.T, top topology.Topology) {
//		rdb := top.Connect(t)
//		...
//	})
//
// A topology is started once for each call of the function, so subtests inside it share it. What only some can do is an
// interface of its own ([Failover], [Killer], [Loser], [Resharder]): a type assertion asks for it.
//
// HOLDFAST_SERVERS=dir tests the programs in dir/bin/*-server, HOLDFAST_DOCKER=1 images in containers. Where one of them is
// set, a version of the list in [Wanted] that cannot be had is a loud skip, and a failure if CI=true. Where neither is, only
// the local server is tested, and the log says so.
//
// Not here: faults of the network between client and server. Put a faultproxy between them with the
// change of options that [Topology.Connect] takes.
package topology

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Kind is a way of running Redis. Kinds can be joined with |.
type Kind int

// The kinds.
const (
	Single     Kind = 1 << iota // one server
	Replicated                  // a primary with two replicas; the test decides on failovers
	Sentinel                    // a primary with a replica, under three Sentinels
	Cluster                     // three masters with a replica each

	// All is every kind.
	All = Single | Replicated | Sentinel | Cluster
)

// String names a kind.
func (k Kind) String() string {
	switch k {
	case Single:
		return "single"
	case Replicated:
		return "replicated"
	case Sentinel:
		return "sentinel"
	case Cluster:
		return "cluster"
	}
	return "several kinds"
}

// Change alters the options of a client before it is made.
type Change = func(*redis.UniversalOptions)

// Topology is Redis as a test finds it, started for this test and stopped with it.
type Topology interface {
	Kind() Kind
	// Name is the name of the subtest that [Each] makes, such as "cluster/redis-7.0.15/process".
	Name() string
	// Nodes are all servers that hold data.
	Nodes() []Node
	// Serving is the server that takes writes to the key now.
	Serving(tb testing.TB, key string) Node
	// Connect returns a new client that finds the server, also after a failover, as [User]. It is closed when the test ends.
	Connect(tb testing.TB, change ...Change) redis.UniversalClient
}

// Node is one server.
type Node interface {
	Addr() string
	// Command sends one command as the default user, past any proxy: string, int64, []any or nil. An error fails the test.
	Command(tb testing.TB, args ...string) any
	// Try is Command for commands that may fail.
	Try(args ...string) (any, error)
	// Pause stops the server without a word; connections stay open. Resume lets it go on.
	Pause()
	Resume()
	// Kill ends the server and all its data.
	Kill()
}

// Failover can replace a key's server. What was acknowledged before is kept; later writes may be lost, except in a cluster.
type Failover interface {
	Failover(tb testing.TB, key string) (promoted Node)
}

// Killer is a topology that goes on when the server of a key is killed. What was not replicated by then is lost.
type Killer interface {
	KillServing(tb testing.TB, key string) (promoted Node)
}

// Loser can lose acknowledged writes: what is written while during runs is gone when LoseWrites returns, with the server.
type Loser interface {
	LoseWrites(tb testing.TB, key string, during func()) (promoted Node)
}

// Resharder is a topology that can move a key's slot to another master.
type Resharder interface {
	Reshard(tb testing.TB, key string)
	// BeginReshard leaves the slot half moved, so that a test can act before it calls Finish.
	BeginReshard(tb testing.TB, key string) *redistest.Move
}

// Addrs are where any client finds its way: the Sentinels, which call the primary [redistest.SentinelMaster], or the servers.
func Addrs(top Topology) []string {
	if s, ok := top.(*sentinel); ok {
		return s.s.Addrs()
	}
	var addrs []string
	for _, n := range top.Nodes() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// options are go-redis's own, but one dial for each attempt, not five, and nothing sent that the test did not ask for.
func options(addrs []string, change []Change) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs:                    addrs,
		Username:                 User,
		Password:                 Password,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// asDefault logs in as the default user. It comes first, so that a test's own changes win.
func asDefault(change []Change) []Change {
	return append([]Change{func(o *redis.UniversalOptions) { o.Username, o.Password = "", "" }}, change...)
}

// Admin is [Topology.Connect] for the default user, who may do everything.
func Admin(tb testing.TB, top Topology, change ...Change) redis.UniversalClient {
	return top.Connect(tb, asDefault(change)...)
}

// closing closes a client when the test ends. Tests may have closed it themselves.
func closing[C redis.UniversalClient](tb testing.TB, rdb C) C {
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// connectTo returns a client of one address.
func connectTo(tb testing.TB, addr string, change []Change) redis.UniversalClient {
	return closing(tb, redis.NewClient(options([]string{addr}, change).Simple()))
}

// User and Password are what the clients of [Topology.Connect] log in with.
const (
	User     = "holdfast"
	Password = "a-password-for-tests"
)

// Rule is what [User] may do: run scripts, call what these call, subscribe, and what go-redis asks a cluster; not read users,
// change the configuration, or list keys. Tests choose the names, so keys and channels are free.
const Rule = "~* &* " +
	"+eval +evalsha +hlen +hexists +hset +hdel +hgetall +get +set +del +pexpire +pttl +time +publish +spublish " +
	"+lindex +llen +lpop +lrange +lrem +ltrim +rpush +zadd +zcard +zcount +zrange +zrem +zscore " +
	"+hget +hkeys +hmget +exists +decr +incrby +zrangebyscore +zremrangebyscore +pubsub|numsub +pubsub|shardnumsub " +
	"+subscribe +unsubscribe +ssubscribe +sunsubscribe +ping +wait " +
	"+cluster|slots +command +asking"

// rule is Rule for a version: Redis 6.0 refuses rules for channels and sharded pub/sub, which it does not know.
func rule(version string) []string {
	words := append([]string{"on", ">" + Password}, strings.Fields(Rule)...)
	if !strings.HasPrefix(version, "6.") {
		return words
	}
	return slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"&*", "+spublish", "+ssubscribe", "+sunsubscribe"}, w)
	})
}

// DockerEnv names the environment variable that, if it is 1, has images tested in containers.
const DockerEnv = "HOLDFAST_DOCKER"

// Line is a line of versions that the library is to be tested with.
type Line struct {
	Name  string // for subtests, such as "redis-8.0"; the names of its programs begin like this
	Image string
}

// Wanted are the lines of versions that the library says it supports.
var Wanted = []Line{
	{"redis-6", "redis:6"},
	{"redis-7", "redis:7"},
	{"redis-8.0", "redis:8"},
	{"redis-8.6", "redis:8.6"},
	{"valkey-8", "valkey/valkey:8"},
	{"valkey-9", "valkey/valkey:9"},
}

// has says whether a program belongs to the line.
func (l Line) has(p redistest.Program) bool {
	rest, ok := strings.CutPrefix(p.Name, l.Name)
	return ok && strings.ContainsAny(rest[:1], ".-") // 8.0 is not 8.06
}

// quickly leaves of the kinds what belongs to this run: in the quick level, a single server.
func quickly(t *testing.T, kinds Kind) Kind {
	if !testing.Short() || level.Soaking() {
		return kinds
	}
	if kinds&Single == 0 {
		level.ForAll(t)
	}
	return Single
}

// Each runs a test, in parallel, on each of the kinds, in a subtest for each version: a single
// server in all versions that can be had, the others in the oldest and the newest Redis and the
// newest Valkey. Containers are for single servers: the other kinds announce addresses to their clients, which from
// outside are not those of the containers, or are the same however a server is started. opts are for the processes;
// containers, which cannot follow them, are left out when there are any. The quick level has single servers only.
func Each(t *testing.T, kinds Kind, test func(t *testing.T, top Topology), opts ...redistest.Option) {
	each(t, kinds, some{containers: len(opts) == 0}, test, opts)
}

// EachOutermost is [Each] without containers, and for a single server too in the oldest and the newest Redis and the newest
// Valkey only: for what takes long, and does not depend on what a version can do.
func EachOutermost(t *testing.T, kinds Kind, test func(t *testing.T, top Topology)) {
	each(t, kinds, some{outermost: true}, test, nil)
}

// some is which servers a test is for.
type some struct{ containers, outermost bool }

func each(t *testing.T, kinds Kind, which some, test func(t *testing.T, top Topology), opts []redistest.Option) {
	t.Helper()
	ran := 0
	kinds = quickly(t, kinds)
	for kind := Single; kind <= Cluster; kind <<= 1 {
		if kinds&kind == 0 {
			continue
		}
		for _, c := range choose(t, kind, which) {
			ran++
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if c.missing != "" {
					redistest.Unavailable(t, c.missing)
				}
				if c.image != "" {
					test(t, startContainer(t, c.name, c.image))
					return
				}
				test(t, start(t, kind, c.program, opts))
			})
		}
	}
	if ran == 0 {
		t.Fatalf("topology: %d names no kind", kinds)
	}
}

// choice is one subtest: a program, an image, or why there is none.
type choice struct {
	name    string
	program redistest.Program
	image   string
	missing string
}

// choose lists what a kind is tested with.
func choose(t *testing.T, kind Kind, which some) []choice {
	t.Helper()
	programs := redistest.Programs(t)
	dir, docker := os.Getenv(redistest.ServersEnv), os.Getenv(DockerEnv) == "1"
	if dir == "" && !docker {
		onlyLocal.Do(func() {
			t.Logf("ONLY THE LOCAL SERVER IS TESTED (%s): set %s or %s=1 for the other versions", programs[0].Name,
				redistest.ServersEnv, DockerEnv)
		})
	}
	var missing []string
	if dir != "" {
		missing = lacking(kind, programs)
	}
	if kind != Single || which.outermost {
		programs = outermost(programs)
	}
	var choices []choice
	for _, p := range programs {
		choices = append(choices, choice{name: processName(kind, p), program: p})
	}
	for _, name := range missing {
		choices = append(choices, choice{name: kind.String() + "/" + name + "/process", missing: "no program of " +
			name + " in " + dir})
	}
	if docker && which.containers && kind == Single {
		for _, l := range Wanted {
			choices = append(choices, choice{name: kind.String() + "/" + l.Name + "/container", image: l.Image})
		}
	}
	return choices
}

// onlyLocal has it said once, and not by every test.
var onlyLocal sync.Once

// lacking names the lines of Wanted, for all kinds but Single the families, of which there is no program.
func lacking(kind Kind, programs []redistest.Program) []string {
	var names []string
	for _, l := range Wanted {
		if kind != Single {
			l.Name, _, _ = strings.Cut(l.Name, "-")
		}
		if !slices.ContainsFunc(programs, l.has) && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

// outermost are the oldest and the newest Redis and the newest Valkey. programs is sorted.
func outermost(programs []redistest.Program) []redistest.Program {
	valkeys := slices.IndexFunc(programs, func(p redistest.Program) bool { return p.Valkey })
	if valkeys < 0 {
		valkeys = len(programs)
	}
	var out []redistest.Program
	if valkeys > 0 {
		out = append(out, programs[0])
	}
	if valkeys > 1 {
		out = append(out, programs[valkeys-1])
	}
	if valkeys < len(programs) {
		out = append(out, programs[len(programs)-1])
	}
	return out
}

// EachLocal is [Each] with the local server only: for what need not be shown on every version.
func EachLocal(t *testing.T, kinds Kind, test func(t *testing.T, top Topology)) {
	kinds = quickly(t, kinds)
	local := redistest.Shared(t)
	programs := redistest.Programs(t)
	i := slices.IndexFunc(programs, func(p redistest.Program) bool {
		return p.Version == local.Version() && p.Valkey == local.IsValkey()
	})
	for kind := Single; kind <= Cluster; kind <<= 1 {
		if kinds&kind != 0 {
			t.Run(processName(kind, programs[i]), func(t *testing.T) {
				t.Parallel()
				test(t, start(t, kind, programs[i], nil))
			})
		}
	}
}
