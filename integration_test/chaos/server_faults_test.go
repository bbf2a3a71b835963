//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// weather is what happens to the servers of a run.
type weather struct {
	work
	tb       testing.TB
	t        *target
	rng      *rand.Rand
	faults   []history.Window
	refusals []history.Window // those in which servers answer with errors
	lapses   []history.Window // those in which a hold may be lost because masters lost their data
	count    map[string]int

	failedOver time.Time
	emptied    time.Time // when masters lost their data last
	diary      []string
}

// storm makes faults of these kinds until ctx ends.
func (w *weather) storm(ctx context.Context, kinds []string, gap time.Duration) {
	deal := bag{rng: w.rng}
	for workload.Sleep(ctx, random(w.rng, gap)) {
		kind := deal.next(kinds)
		w.count[kind]++
		from := now()
		global[kind](ctx, w)
		w.diary = append(w.diary, entry(from, "servers", kind))
		window := history.Window{From: from, To: now()}
		if kind != "foreign" {
			w.faults = append(w.faults, window)
		}
		if refuses[kind] {
			w.refusals = append(w.refusals, window)
		}
	}
}

// entry is a line of a diary of faults; its moments compare with those in histories.
func entry(from int64, who, kind string) string {
	return fmt.Sprintf("%s to %s %s: %s", time.Duration(from), time.Duration(now()), who, kind)
}

// tell sends a command to servers. What one of them does not know, or cannot do now, is left.
func tell(servers []*redistest.Server, command ...string) {
	for _, n := range servers {
		_, _ = n.Try(command...)
	}
}

// during has servers in some state for a time.
func (w *weather) during(ctx context.Context, begin, end []string) {
	hit := w.hit()
	tell(hit, begin...)
	workload.Sleep(ctx, between(w.rng, 50*time.Millisecond, 600*time.Millisecond))
	tell(hit, end...)
}

// once has servers do something.
func once(command ...string) func(context.Context, *weather) {
	return func(_ context.Context, w *weather) { tell(w.hit(), command...) }
}

// freeze stops servers for a time.
func (w *weather) freeze(ctx context.Context, d time.Duration) {
	hit := w.hit()
	for _, n := range hit {
		n.Pause()
	}
	workload.Sleep(ctx, d)
	for _, n := range hit {
		n.Resume()
	}
}

// refuses are the faults in which a server refuses what it is asked.
var refuses = map[string]bool{"out-of-memory": true, "no-scripts": true, "no-publish": true}

// clockJump is the longest that all leases bear: they are trusted for 1 % less 2 ms. Jumps add up within a lease, and so
// come rarely (see the plan). Beyond that a clock takes a master's vote away, and a hold that two masters have refused,
// because a rival had their votes for a moment, has none to spare until they are asked again. One folder up there is a jump
// that harms nothing, and one that does.
const clockJump = 2 * time.Millisecond

// global are the faults of servers, by name.
var global = map[string]func(ctx context.Context, w *weather){
	"pause": func(ctx context.Context, w *weather) {
		w.freeze(ctx, between(w.rng, 50*time.Millisecond, 500*time.Millisecond))
	},
	"pause-beyond-lease": func(ctx context.Context, w *weather) {
		w.freeze(ctx, min(w.Lease+between(w.rng, 0, w.Lease/2), budget/2))
	},
	"kill-pubsub":  once("CLIENT", "KILL", "TYPE", "pubsub"),
	"kill-clients": once("CLIENT", "KILL", "TYPE", "normal"),
	"script-flush": once("SCRIPT", "FLUSH"),
	"out-of-memory": func(ctx context.Context, w *weather) {
		w.during(ctx, []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"})
	},
	"clock": func(_ context.Context, w *weather) {
		for _, n := range w.hit() {
			n.MoveClock(w.tb, clockJump)
		}
	},

	// Not of masters of a quorum.
	"server-sleep": func(_ context.Context, w *weather) { // returns when it has slept
		d := between(w.rng, 50*time.Millisecond, 600*time.Millisecond)
		tell(w.hit(), "DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
	},
	"client-pause": func(ctx context.Context, w *weather) {
		d := between(w.rng, 50*time.Millisecond, 500*time.Millisecond)
		tell(w.hit(), "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10))
		workload.Sleep(ctx, d)
	},
	"no-scripts": func(ctx context.Context, w *weather) {
		w.during(ctx, []string{"ACL", "SETUSER", "default", "-evalsha", "-eval"}, []string{"ACL", "SETUSER", "default", "+evalsha", "+eval"})
	},
	"no-publish": func(ctx context.Context, w *weather) {
		w.during(ctx, []string{"ACL", "SETUSER", "default", "-publish"}, []string{"ACL", "SETUSER", "default", "+publish"})
	},
	"failover": func(ctx context.Context, w *weather) {
		// The nodes of a cluster do not vote twice for one shard within two node timeouts, which are a second here.
		if workload.Sleep(ctx, time.Until(w.failedOver.Add(2*time.Second))) {
			w.t.failover(w.tb, w.rng)
			w.failedOver = time.Now()
		}
	},

	// Only of these. Not while a lease is in force from before others lost their data: together they were a majority.
	"restart": func(ctx context.Context, w *weather) {
		if w.old(ctx) && workload.Sleep(ctx, time.Until(w.emptied.Add(w.Lease+2*time.Second))) {
			w.restart(ctx, w.hit())
		} else {
			w.count["restart"]--
		}
	},
	"foreign": func(ctx context.Context, w *weather) { w.foreign(ctx) },
}

// stall is noted by a process that did not run for a while: what it was about to do is late by that.
const stall history.Kind = "stall"

// noteStalls notes the stalls of this process until stop is closed.
func noteStalls(rec *history.Recorder, client int, stop <-chan struct{}) {
	const often, long = 50 * time.Millisecond, 250 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for last := now(); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		at := now()
		if at-last > int64(long) {
			rec.Begin(history.Op{Client: client, Kind: stall}).End(func(o *history.Op) { o.Call, o.Result = last, history.OK })
		}
		last = at
	}
}

// ownPauses are the times in which the process did not run, by what was done to it and by what it says itself.
func (p *process) ownPauses() []history.Window {
	all := slices.Clone(p.pauses)
	for _, o := range p.ops {
		if o.Kind == stall && o.Return != history.Forever {
			all = append(all, history.Window{From: o.Call, To: o.Return})
		}
	}
	return history.Union(all)
}

// story is its history without that.
func (p *process) story() []history.Op {
	return slices.DeleteFunc(slices.Clone(p.ops), func(o history.Op) bool { return o.Kind == stall })
}

// since is the moment from which on the process has run for so long, until another.
func (p *process) since(ran time.Duration, until int64) int64 {
	for _, w := range slices.Backward(p.pauses) {
		if w.To >= until {
			until = min(until, w.From)
			continue
		}
		if until-w.To > int64(ran) {
			break
		}
		ran -= time.Duration(until - w.To)
		until = w.From
	}
	return until - int64(ran)
}

func TestPausesOfProcess(t *testing.T) {
	p := &process{pauses: []history.Window{{From: 10, To: 20}, {From: 30, To: 40}}, ops: []history.Op{
		{Kind: stall, Call: 35, Return: 50}, {Kind: stall, Call: 60, Return: history.Forever}, {Kind: history.Lock}}}
	require.Equal(t, []history.Window{{From: 10, To: 20}, {From: 30, To: 50}}, p.ownPauses())
	require.Equal(t, []history.Op{{Kind: history.Lock}}, p.story())
	require.EqualValues(t, 45, p.since(5, 50))
	require.EqualValues(t, 28, p.since(12, 50))
	require.EqualValues(t, 7, p.since(23, 50))
	require.EqualValues(t, 29, p.since(1, 35), "it was paused then")
}

// mode is how clients connect.
type mode string

const (
	single   mode = "single"
	sentinel mode = "sentinel"
	cluster  mode = "cluster"
	quorum   mode = "quorum"

	masterName = redistest.SentinelMaster
)

// target is what a run is done to.
type target struct {
	name  string
	mode  mode
	nodes []*redistest.Server // that hold data
	addrs []string            // for clients
	clock bool                // the nodes' clocks can be moved
	begun time.Time           // of masters of a quorum
	// failover replaces a primary without losing a write; nil where there is no other.
	failover func(tb testing.TB, rng *rand.Rand)
}

// startServer makes a target of one server.
func startServer(tb testing.TB, p redistest.Program) *target {
	opts := []redistest.Option{redistest.Exec(p.Path), redistest.Debug()}
	t := &target{name: p.Name, mode: single, clock: haveCompiler()}
	if t.clock {
		opts = append(opts, redistest.Clock())
	}
	s := redistest.Start(tb, opts...)
	t.nodes, t.addrs = []*redistest.Server{s}, []string{s.Addr()}
	return t
}

// haveCompiler reports whether servers can have clocks of their own. Without a compiler the other faults are still worth it.
func haveCompiler() bool {
	_, err := exec.LookPath("cc")
	return err == nil
}

// startCluster makes a target of a cluster of three primaries with a replica each.
func startCluster(tb testing.TB, p redistest.Program) *target {
	c := redistest.StartCluster(tb, 3, 1, redistest.Exec(p.Path), redistest.Debug())
	t := &target{name: "cluster-" + p.Name, mode: cluster, nodes: c.Nodes}
	for _, n := range c.Nodes {
		t.addrs = append(t.addrs, n.Addr())
	}
	t.failover = func(tb testing.TB, rng *rand.Rand) { c.Switch(tb, strconv.Itoa(rng.IntN(100))) }
	return t
}

// startSentinel makes a target of a primary, a replica and Sentinels. It uses CLIENT PAUSE WRITE: Redis 7 or later, or Valkey.
func startSentinel(tb testing.TB, p redistest.Program) *target {
	s := redistest.StartSentinel(tb, redistest.Exec(p.Path), redistest.Debug())
	t := &target{name: "sentinel-" + p.Name, mode: sentinel, nodes: s.Nodes, addrs: s.Addrs()}
	t.failover = func(tb testing.TB, _ *rand.Rand) {
		// The old primary must take no write from before the replica has all until it is a replica itself. The Sentinels would
		// tell it so in the end, but their own connections are paused too, by the PUBLISH that they send.
		old := s.Primary(tb)
		old.Command(tb, "CLIENT", "PAUSE", "60000", "WRITE")
		s.AwaitReplica(tb.Context(), tb)
		host, port, err := net.SplitHostPort(s.Failover(tb).Addr())
		require.NoError(tb, err)
		old.Command(tb, "REPLICAOF", host, port)
		old.Command(tb, "CLIENT", "UNPAUSE")
	}
	return t
}

// proxies puts a fault proxy before each node, for one client process.
func (t *target) proxies(tb testing.TB) (list []*faultproxy.Proxy, byAddr map[string]string) {
	byAddr = make(map[string]string)
	for _, n := range t.nodes {
		p := faultproxy.New(tb, n.Addr())
		list = append(list, p)
		byAddr[n.Addr()] = p.Addr()
	}
	return list, byAddr
}

// keys are the keys of one node of the kind that locks are, those of queues, and those without a time to live.
func keys(tb testing.TB, n *redistest.Server) (locks, queues, eternal []string) {
	list, _ := n.Command(tb, "KEYS", "*").([]any)
	for _, k := range list {
		key := k.(string)
		ttl, err := n.Try("PTTL", key)
		switch {
		case err != nil: // this one is a replica; its primary is asked too
		case ttl == int64(-2): // it ended since
		case ttl == int64(-1):
			eternal = append(eternal, key)
		case begins(key, ofQueues):
			queues = append(queues, key)
		case !begins(key, remembered) && !counts(key):
			locks = append(locks, key)
		}
	}
	return locks, queues, eternal
}

var (
	ofQueues = []string{
		"redisson_lock_queue:", "redisson_lock_timeout:", "holdfast_rwlock_writers:", "holdfast_semaphore_queue:",
		"holdfast_semaphore_wants:",
	}
	// last tokens, how far waiters are, calls of latches that may be repeated, what the last leader said of
	// itself, who leads no more when it has lost the lock, calls that set the number of permits, and labels of who was killed
	remembered = []string{
		"redisson_lock_token:", "redisson_lock__channel:", "holdfast_latch:", "holdfast_election:",
		"holdfast_semaphore_places:", "holdfast_client:",
	}
)

func begins(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}
