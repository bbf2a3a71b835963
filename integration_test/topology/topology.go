package topology

import (
	"testing"

	"github.com/redis/go-redis/v9"

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
