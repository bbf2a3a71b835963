package redisson

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// What a storm is checked against.
const (
	stormLease = 12 * time.Second
	// a lock is not free for longer while somebody waits. A message that is missed costs the rest of a lease.
	stormBound = 8 * time.Second
	// and after a process was killed
	stormRecovery = 5 * time.Second
	// for which a dead waiter of Redisson's has its place: a lease, and its fairLockWaitTimeout
	stormPlace = 6 * time.Minute
	stormSlack = 2 * time.Second
)

// TestStorm: clients of both sides use the same names at random, plain, fair and read-write locks,
// semaphores and latches, on one server, behind Sentinel and in a cluster: until both have had each name, and
// for five seconds; in a soak for a minute. In the middle a process of Redisson's is killed. Their history is
// checked like all others; the tests of package history show of each check that it finds what is wrong.
func TestStorm(t *testing.T) {
	t.Parallel()
	topology.EachLocal(t, topology.Single|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		duration := 5 * time.Second
		if level.Soaking() {
			duration = time.Minute
		}
		st := newStorm(t, top)
		ops := st.rage(t, duration)
		found := history.Check(ops, st.config())
		history.Report(t, found, "go test -race -run "+t.Name()+" ./redisson")
		st.undisturbed(t, ops)
		seen := grants(ops)
		t.Logf("proof: redisson: %s, %s: %d operations, %d grants of Holdfast's and %d of Redisson's, %d of these "+
			"perhaps of a lock that it had been handed as its wait was over (P1), %d clients of which a live thread did not take in "+
			"time what it was handed (P2), %d violations", duration, top.Name(), len(ops), seen["ours"], seen["theirs"], st.takeUps,
			len(st.places.lapsed), len(found))
	})
}

// storm is what happens to a few names.
type storm struct {
	recorders []*history.Recorder
	faults    []history.Window
	goActors  func(ctx context.Context, group *sync.WaitGroup)
	actors    []theirs
	mortal    *Worker
	doomed    []theirs
	fatal     *history.Recorder // the doomed's
	ours      *holdfast.Client  // one of them
	places    *places
	rdb       redis.UniversalClient
	now       func() int64
	takeUps   int
}

// The clients of a storm: two of ours, two of Redisson's, and one of Redisson's that is killed.
const (
	oursFirst, theirsFirst, doomedClient = 0, 2, 4
	threads                              = 3
)

func newStorm(t *testing.T, top topology.Topology) *storm {
	start := time.Now()
	st := &storm{
		places: &places{pending: map[string]*pendingPlace{}, lapsed: map[int][]history.Window{}}, rdb: topology.Admin(t, top),
		now: func() int64 { return int64(time.Since(start)) },
	}
	seed := level.Seed(t)
	source := func(n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }
	var run []runner
	for client := range 2 {
		rdb := top.Connect(t)
		rdb.AddHook(new(workload.Places))
		c := kindtest.NewClient(t, rdb, &holdfast.Options{Lease: stormLease})
		rec := st.recorder()
		for n := range threads {
			run = append(run, workload.New(st.workload(c), rec, oursFirst+client, n, source(10*client+n)))
		}
		run = append(run, st.kinds(c, rec, oursFirst+client, func(n int) *rand.Rand { return source(1000 + 100*client + n) })...)
		st.ours = c
	}
	st.goActors = func(ctx context.Context, group *sync.WaitGroup) {
		for _, a := range run {
			group.Go(func() { a.Run(ctx) })
		}
	}
	c := Shared(t).Connect(t, top, Settings{Watchdog: millis(stormLease)})
	st.isRedisson(t, c)
	st.of(t, c, theirsFirst, source)
	st.of(t, Shared(t).Connect(t, top, Settings{Watchdog: millis(stormLease)}), theirsFirst+1, source)
	st.mortal = Start(t)
	st.of(t, st.mortal.Connect(t, top, Settings{Watchdog: millis(stormLease / 4)}), doomedClient, source)
	return st
}

// isRedisson checks that a client locks something, and has it set what the storm needs.
func (st *storm) isRedisson(t *testing.T, c *Client) {
	j, lock := c.Thread(t), Ask{Op: "lock", Kind: kinds[0].theirs, Name: "real"}
	require.NoError(t, j.Do(t, lock).Err())
	require.Equal(t, int64(1), st.rdb.Exists(t.Context(), lock.Name).Val(), "it is Redisson")
	lock.Op = "unlock"
	require.NoError(t, j.Do(t, lock).Err())
	st.set(t, st.ours, j)
}

func (st *storm) recorder() *history.Recorder {
	rec := history.NewRecorder(st.now)
	st.recorders = append(st.recorders, rec)
	return rec
}

// of makes the actors of a client of Redisson's.
func (st *storm) of(t *testing.T, c *Client, number int, source func(int) *rand.Rand) {
	rec := st.recorder()
	mortal, lease := number == doomedClient, stormLease
	if mortal {
		lease /= 4
	}
	n := 0
	start := func(name func(*rand.Rand) string) actor {
		n++
		return actor{rec: rec, now: st.now, places: st.places, rng: source(100*number + n), thread: c.Thread(t),
			client: number, number: n, lease: lease, mortal: mortal, name: name}
	}
	var all []theirs
	for range threads {
		one := start(anyOf(lockNames))
		all = append(all, &one)
	}
	if all = append(all, javaKinds(start)...); mortal {
		st.doomed, st.fatal = all, rec
		return
	}
	st.actors = append(st.actors, all...)
}

// workload is what ours do.
func (st *storm) workload(c *holdfast.Client) workload.Config {
	return workload.Config{
		Lock: func(name string) workload.Locker {
			if isFair(name) {
				return fairlock.New(c, name)
			}
			return rlock.New(c, name)
		},
		Name: anyOf(lockNames), Think: 40 * time.Millisecond, Hold: 2 * time.Millisecond, Wait: 10 * time.Millisecond,
		Lease: stormLease, Leases: []time.Duration{0, 15 * time.Second}, Extends: []time.Duration{20 * time.Second},
		Plain: 8, Patience: Patience, Now: st.now,
	}
}

// rage lets all actors run, kills a process in between, and returns what they did.
func (st *storm) rage(t *testing.T, duration time.Duration) []history.Op {
	t.Helper()
	if os.Getenv(IdleEnv) != "" {
		duration = min(duration, time.Second)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := time.Now()
	// Ours outlast Redisson's: these would wait for five minutes behind the place of the thread that was killed.
	going, enough := context.WithCancel(t.Context())
	defer enough()
	var group, ours, watch sync.WaitGroup
	watching, stop := context.WithCancel(t.Context())
	watch.Go(func() { st.places.watch(watching, st.rdb, fairNames) })
	st.goActors(going, &ours)
	for _, a := range append(st.actors, st.doomed...) {
		group.Go(func() { a.run(ctx) })
	}
	half := time.NewTimer(duration / 2)
	defer half.Stop()
	<-half.C
	call := st.fatal.Begin(history.Op{Kind: history.Crash, Client: doomedClient})
	from := st.now()
	st.mortal.Kill()
	call.End(func(o *history.Op) { o.Result = history.OK })
	// What it held and waited for stands until its leases, and claims for its places, have ended.
	st.faults = append(st.faults, history.Window{From: from, To: st.now() + int64(stormLease/4)})
	redistest.Within(duration+Patience, func() bool { return time.Since(begun) >= duration && len(st.lacking()) == 0 })
	cancel()
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(duration + 3*Patience):
		t.Error("some do not come to an end")
	}
	enough()
	ours.Wait()
	stop()
	watch.Wait()
	st.census(t, st.ours)
	var histories [][]history.Op
	for i, r := range st.recorders {
		ops := r.Ops()
		if i >= theirsFirst && i <= doomedClient {
			st.takeUps += takeUps(ops)
		}
		histories = append(histories, ops)
	}
	return history.Merge(histories...)
}

func (st *storm) config() history.Config {
	// who did not take the lock in time that it was handed stands at the end of the queue again
	local := map[int][]history.Window{doomedClient: st.faults}
	for client, windows := range st.places.lapsed {
		local[client] = append(local[client], windows...)
	}
	return history.Config{Lease: 20 * time.Second, Bound: stormBound, Recovery: stormRecovery, Faults: st.faults,
		Local: local, Place: stormPlace, Claim: claim,
		Slack: stormSlack, Late: time.Second, Permits: stormPermits}
}

// grants counts those of both sides, in all and of each name.
func grants(ops []history.Op) map[string]int {
	seen := map[string]int{}
	for _, o := range ops {
		side := "ours"
		if o.Client >= theirsFirst {
			side = "theirs"
		}
		if (o.Kind == history.Lock || o.Kind == history.Try || o.Kind == history.CountDown) && o.Result == history.OK {
			seen[side]++
			seen[side+" "+o.Name]++
		}
	}
	return seen
}

// lacking are the names that a side has not had yet.
func (st *storm) lacking() (list []string) {
	var ops []history.Op
	for _, r := range st.recorders {
		ops = append(ops, r.Ops()...)
	}
	seen := grants(ops)
	for _, name := range slices.Concat(lockNames, rwNames, permitNames, latchNames) {
		for _, which := range []string{"ours " + name, "theirs " + name} {
			if seen[which] == 0 {
				list = append(list, which)
			}
		}
	}
	return list
}

// undisturbed checks that both sides had their share of every name, and what they wanted.
func (st *storm) undisturbed(t *testing.T, ops []history.Op) {
	failed := map[string]int{}
	for _, o := range ops {
		switch {
		case o.Kind == history.Queue && history.IsTooMany(o.Error): // who wants more than there are is told so
		case o.Result == history.Unknown && o.Error != "" && !strings.Contains(o.Error, "context"): // which the storm's end ends
			failed[fmt.Sprint(o.Client, " ", o.Kind, ": ", o.Error)]++
		}
	}
	require.Empty(t, st.lacking())
	require.Empty(t, failed, "nothing was disturbed but who was killed")
}
