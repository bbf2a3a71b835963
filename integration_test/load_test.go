package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// step is something that happens to servers in use. It loses no acknowledged write, so the history must be a good one.
type step struct {
	name string
	do   func(t *testing.T, top topology.Topology)
}

// loadKey is in the slot that all locks of the load are in.
const loadKey = "{load}"

// loadLease is how long a lock stands whose release was refused, while nobody was permitted anything.
const loadLease = 10 * time.Second

// everywhere are the steps for every topology.
var everywhere = []step{
	{"scripts flushed", each("SCRIPT", "FLUSH")},
	{"connections killed", each("CLIENT", "KILL", "TYPE", "normal")},
	{"subscribers killed", each("CLIENT", "KILL", "TYPE", "pubsub")},
	{"out of memory for a moment", func(t *testing.T, top topology.Topology) {
		each("CONFIG", "SET", "maxmemory", "1")(t, top)
		awaitError(t, top, "OOM", func(rdb redis.UniversalClient) error {
			return rdb.Set(t.Context(), loadKey, 1, time.Second).Err()
		})
		each("CONFIG", "SET", "maxmemory", "0")(t, top)
	}},
	{"stopped for a moment", func(t *testing.T, top topology.Topology) {
		n := top.Serving(t, loadKey)
		n.Pause()
		awaitError(t, top, "", func(rdb redis.UniversalClient) error { return rdb.Get(t.Context(), loadKey).Err() })
		n.Resume()
	}},
	{"permissions taken and given back", func(t *testing.T, top topology.Topology) {
		each("ACL", "SETUSER", topology.User, "-evalsha")(t, top)
		each("CLIENT", "KILL", "TYPE", "normal")(t, top)
		each("ACL", "SETUSER", topology.User, "+evalsha")(t, top)
	}},
}

// stepsOf are those for one topology.
func stepsOf(top topology.Topology) []step {
	steps := append([]step(nil), everywhere...)
	if r, ok := top.(topology.Resharder); ok {
		steps = append(steps, step{"slot moved", func(t *testing.T, _ topology.Topology) { r.Reshard(t, loadKey) }})
	}
	// the others' may lose what is written meanwhile
	if f, ok := top.(topology.Failover); ok && top.Kind() == topology.Cluster {
		steps = append(steps, step{"graceful failover", func(t *testing.T, _ topology.Topology) { f.Failover(t, loadKey) }})
	}
	return steps
}

// TestUnderLoad checks the history of random use by several clients while things happen to servers, in the seed's order.
func TestUnderLoad(t *testing.T) {
	seed := level.Seed(t)
	replay := level.Replay(t, seed)
	eachKind(t, topology.Single|topology.Replicated|topology.Cluster, func(t *testing.T, top topology.Topology, k kind) {
		rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // chooses faults, guards nothing
		l := newLoad(t, top, k, rng)
		steps := stepsOf(top)
		for _, i := range rng.Perm(len(steps)) {
			l.during(steps[i])
		}
		l.finish(replay)
	})
}

// load is clients that use locks.
type load struct {
	*testing.T
	top       topology.Topology
	now       func() int64
	stop      context.CancelFunc
	group     sync.WaitGroup
	clients   []*holdfast.Client
	recorders []*history.Recorder
	faults    []history.Window
}

func newLoad(t *testing.T, top topology.Topology, k kind, rng *rand.Rand) *load {
	start := time.Now()
	l := &load{T: t, top: top, now: func() int64 { return int64(time.Since(start)) }}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(func() { // if the test has failed on its way
		l.stop()
		l.group.Wait()
	})
	for client := range 3 {
		rdb := top.Connect(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 500 * time.Millisecond })
		rdb.AddHook(new(workload.Places))
		c := newClient(t, rdb, &holdfast.Options{Lease: loadLease})
		rec := history.NewRecorder(l.now)
		l.clients, l.recorders = append(l.clients, c), append(l.recorders, rec)
		cfg := workload.Config{
			Lock:  func(name string) workload.Locker { return k.make(c, name) },
			Name:  func(rng *rand.Rand) string { return loadKey + strconv.Itoa(rng.IntN(2)) },
			Think: 10 * time.Millisecond, Hold: 5 * time.Millisecond, Wait: 20 * time.Millisecond, Patience: patience,
			Now: l.now,
		}
		for actor := range 2 {
			a := workload.New(cfg, rec, client, actor, rand.New(rand.NewPCG(rng.Uint64(), 0))) //nolint:gosec // as above
			l.group.Go(func() { a.Run(ctx) })
		}
	}
	l.progress("the start")
	return l
}

// during does a step and waits until locks are granted again.
func (l *load) during(s step) {
	from := l.now()
	s.do(l.T, l.top)
	l.faults = append(l.faults, history.Window{From: from, To: l.now()})
	l.progress(s.name)
}

// progress waits until every client got some more locks, which a busy machine grants slowly: seconds' worth take a minute.
func (l *load) progress(after string) {
	const (
		some    = 5
		forSome = 2 * time.Minute
	)
	for i, r := range l.recorders {
		want := grants(r) + some
		require.Eventually(l, func() bool { return grants(r) >= want }, forSome, 5*time.Millisecond,
			"client %d is granted no locks after: %s", i, after)
	}
}

func grants(r *history.Recorder) (n int) {
	for _, o := range r.Ops() {
		if o.Result == history.OK && (o.Kind == history.Lock || o.Kind == history.Try) {
			n++
		}
	}
	return n
}

// finish stops the clients, and checks what they did and what they left.
func (l *load) finish(replay string) {
	l.stop()
	l.group.Wait()
	var histories [][]history.Op
	for i, r := range l.recorders {
		histories = append(histories, r.Ops())
		require.NoError(l, l.clients[i].Close(context.Background()))
	}
	// What is checked in any case goes by tokens and by the order of events, so no machine is too slow for it.
	cfg := history.Config{
		Lease: loadLease, Recovery: 10 * time.Second, Faults: l.faults, Slack: time.Hour, Place: 15 * time.Second,
	}
	if level.Soaking() { // and how long things take; of a machine that stands still for longer this says nothing
		cfg.Bound, cfg.Slack = loadLease*6/10, 2*time.Second
	}
	history.Report(l, history.Check(history.Merge(histories...), cfg), replay)
	nothingLeft(l.T, l.top, loadKey)
}

// nothingLeft waits until no lock with this prefix is held; then each key must have a TTL and no client may be subscribed.
func nothingLeft(t *testing.T, top topology.Topology, prefix string) {
	n := top.Serving(t, prefix)
	list := func(args ...string) (all []string) {
		reply, err := n.Try(args...)
		if err != nil {
			return nil // a server that does not know sharded channels has none
		}
		for _, item := range reply.([]any) {
			all = append(all, item.(string))
		}
		return all
	}
	require.Eventually(t, func() bool { return len(list("KEYS", escape(prefix)+"*")) == 0 }, patience,
		5*time.Millisecond, "locks are left")
	for _, key := range list("KEYS", "*") {
		require.Positive(t, n.Command(t, "PTTL", key), "%s has no time to live", key)
	}
	const channels = "redisson_*" // Sentinels have one of their own
	require.Eventually(t, func() bool {
		return len(list("PUBSUB", "CHANNELS", channels))+len(list("PUBSUB", "SHARDCHANNELS", channels)) == 0
	}, patience, 5*time.Millisecond, "subscriptions are left")
}

// escape makes a pattern of a name.
func escape(name string) string {
	return strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(name)
}

// each sends a command to every server.
func each(args ...string) func(t *testing.T, top topology.Topology) {
	return func(t *testing.T, top topology.Topology) {
		for _, n := range top.Nodes() {
			n.Command(t, args...)
		}
	}
}

// awaitError waits until a command of an ordinary client fails, with an error that begins like this.
func awaitError(t *testing.T, top topology.Topology, prefix string, do func(redis.UniversalClient) error) {
	rdb := topology.Admin(t, top, func(o *redis.UniversalOptions) {
		o.ReadTimeout, o.MaxRetries = 100*time.Millisecond, -1
	})
	require.Eventually(t, func() bool {
		err := do(rdb)
		return err != nil && !errors.Is(err, redis.Nil) && strings.HasPrefix(err.Error(), prefix)
	}, patience, 5*time.Millisecond)
}
