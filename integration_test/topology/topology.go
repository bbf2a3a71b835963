// Package topology gives a test every way in which Redis is run: a single server, a primary with
// replicas, one under Sentinels, a cluster; in every version that can be had, as processes, and single servers as
// containers too.
//
// A test names what it needs and runs once for each:
//
//	topology.Each(t, topology.Single|topology.Cluster, func(t *testing.T, top topology.Topology) {
//		rdb := top.Connect(t)
//		...
//	})
//
// A topology is started once for each call of the function, so subtests inside it share it. What
// only some can do is an interface of its own ([Failover], [Killer], [Loser], [Resharder]): a type
// assertion asks for it.
//
// HOLDFAST_SERVERS=dir tests the programs in dir/bin/*-server, HOLDFAST_DOCKER=1 images in
// containers. Where one of them is set, a version of the list in [Wanted] that cannot be had is a
// loud skip, and a failure if CI=true. Where neither is, only the local server is tested, and the
// log says so.
//
// Not here: faults of the network between client and server. Put a faultproxy between them with the
// change of options that [Topology.Connect] takes.
package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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
	// Connect returns a new client that finds its way as a user's would, also after a failover, and
	// logs in as [User]. It is closed when the test ends.
	Connect(tb testing.TB, change ...Change) redis.UniversalClient
	// Admin is Connect for the default user, who may do everything.
	Admin(tb testing.TB, change ...Change) redis.UniversalClient
}

// Node is one server.
type Node interface {
	Addr() string
	// Command sends one command as the default user, past any proxy: string, int64, []any or nil.
	// An error fails the test.
	Command(tb testing.TB, args ...string) any
	// Try is Command for commands that may fail.
	Try(args ...string) (any, error)
	// Pause stops the server without a word; connections stay open. Resume lets it go on.
	Pause()
	Resume()
	// Kill ends the server and all its data.
	Kill()
}

// Failover is a topology that can put another server in the place of the one that serves a key.
// What was acknowledged before the call is kept; what is written meanwhile may be lost, except in a
// cluster.
type Failover interface {
	Failover(tb testing.TB, key string) (promoted Node)
}

// Killer is a topology that goes on when the server of a key is killed. What was not replicated by
// then is lost.
type Killer interface {
	KillServing(tb testing.TB, key string) (promoted Node)
}

// Loser is a topology that can lose acknowledged writes: what is written to the key's server while
// during runs is gone when LoseWrites returns, and so is that server.
type Loser interface {
	LoseWrites(tb testing.TB, key string, during func()) (promoted Node)
}

// Resharder is a topology that can move a key's slot to another master.
type Resharder interface {
	Reshard(tb testing.TB, key string)
	// BeginReshard leaves the slot half moved, so that a test can act before it calls Finish.
	BeginReshard(tb testing.TB, key string) *redistest.Move
}

// Addrs are the addresses that a client is given to find its way by, which need not be go-redis:
// those of the Sentinels, who call the primary [redistest.SentinelMaster], or of the servers.
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

// options are those of a client: go-redis's own, but one dial for each attempt, so that a test of a
// dead server does not wait for five, and nothing sent that the test did not ask for.
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

// Rule is what [User] may do: the commands that the scripts call, those that run scripts and
// subscribe, and what go-redis asks a cluster. It may not read other users, change the
// configuration, or list keys. Keys and channels are not restricted, because tests choose their
// names.
const Rule = "~* &* " +
	"+eval +evalsha +hlen +hexists +hset +hdel +hgetall +get +set +del +pexpire +pttl +time +publish +spublish " +
	"+lindex +llen +lpop +lrange +lrem +ltrim +rpush +zadd +zcard +zcount +zrange +zrem +zscore " +
	"+hget +hkeys +hmget +exists +decr +incrby +zrangebyscore +zremrangebyscore +pubsub|numsub +pubsub|shardnumsub " +
	"+subscribe +unsubscribe +ssubscribe +sunsubscribe +ping +wait " +
	"+cluster|slots +command +asking"

// rule is Rule for a server of this version: Redis 6.0 knows neither rules for channels nor sharded
// pub/sub and refuses what it does not know.
func rule(version string) []string {
	words := append([]string{"on", ">" + Password}, strings.Fields(Rule)...)
	if !strings.HasPrefix(version, "6.") {
		return words
	}
	return slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"&*", "+spublish", "+ssubscribe", "+sunsubscribe"}, w)
	})
}
