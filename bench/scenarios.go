package main

import (
	"context"
	"slices"
	"time"
)

// scenario is one piece of work that contenders do.
type scenario struct {
	name  string
	about string
	// shows are the metrics in its table; the first one is plotted and compared.
	shows []string
	// measure does it once with one contender. The default does pairs.
	measure func(ctx context.Context, b *bench, s scenario, c contender, name string) (sample, error)

	// Of pairs: goroutines is per process, clients too.
	processes, clients, goroutines int
	each                           bool
	section                        time.Duration
	// onlyOwn leaves out the others, because they are asked about what only Holdfast's client can
	// tell.
	onlyOwn bool
	// lease is set where a contender has one. 0: its default.
	lease time.Duration
	// quorum is on several masters, for those who need them, and for those named in beside on the
	// first of these masters.
	quorum bool
	// beside are contenders of another kind that take part.
	beside []string
	// turns has the processes take the lock one after the other, again and again.
	turns bool
	// kind is that of the contenders; those in beside take part as well.
	kind kind
	// writers of each process lock to write, with pauses; the other goroutines read.
	writers int
	pause   time.Duration
	// permits is how many may be inside at once.
	permits int
	// laps of a latch, and how many of them are not counted.
	laps, warmLaps int
	// far is how much longer a round trip to the server takes.
	far time.Duration
	// versus are contenders that are compared beside the best of each group: the first with the
	// second.
	versus [][2]string
}

var (
	showsSingle  = []string{metricRate, metricWaitP50, metricWaitP99, metricCommands, metricServer, metricCPU}
	showsPairs   = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricJain, metricCommands, metricServer, metricCPU}
	showsClients = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricMoved, metricJain,
		metricLeastShare, metricCommands, metricServer, metricCPU}
	showsGaps = []string{metricGapMean, metricGapP50, metricGapP99, metricMoved, metricWaitP99, metricJain,
		metricJainProcesses, metricCommands}
)

var (
	showsQuorum  = []string{metricRate, metricWaitMean, metricWaitP50, metricWaitP99, metricCommands}
	showsQuorum8 = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricMoved, metricJain,
		metricLeastGoroutine, metricMostGoroutine, metricCommands}
)

var (
	showsReaders = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricJain, metricScripts, metricCommands,
		metricServer, metricCPU}
	showsWriter    = []string{metricLongest, metricLongestRead, metricBeyondRead, metricWaitP50, metricWaitP99, metricRate, metricReads}
	showsSemaphore = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricJain, metricLeastGoroutine,
		metricScripts, metricCommands, metricServer, metricCPU}
	showsFleet  = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricAllRate, metricFirstShare, metricLeastShare}
	showsResign = []string{metricGapMean, metricGapP50, metricGapP99, metricTrips, metricMoved, metricWaitP99, metricJain, metricCommands}
)

// scenarios are all of them, in the order in which they run.
var scenarios = []scenario{
	{name: "single", about: "one goroutine, one name, nobody else",
		shows:     showsSingle,
		processes: 1, clients: 1, goroutines: 1,
		versus: [][2]string{{"rlock", "redislock"}, {"rlock", "rlock-background"}, {"rlock-keep", "floor"}, {"rlock-observed", "rlock"}}},
	{name: "names", about: "a name for each of 64 goroutines on 8 clients in one process", shows: showsPairs,
		processes: 1, clients: 8, goroutines: 64, each: true},
	{name: "local", about: "one name, 64 goroutines on one client", shows: showsClients,
		processes: 1, clients: 1, goroutines: 64, versus: [][2]string{{"rlock-observed", "rlock"}}},
	{name: "clients", about: "one name, 64 goroutines on 8 clients in one process", shows: showsClients,
		processes: 1, clients: 8, goroutines: 64},
	{name: "processes", about: "one name, 8 processes of 8 goroutines on one client each", shows: showsClients,
		processes: 8, clients: 1, goroutines: 8},
	{name: "gap2", about: "hand-over: one name held for 1 ms, 2 processes of 1 goroutine each", shows: showsGaps,
		processes: 2, clients: 1, goroutines: 1, section: time.Millisecond},
	{name: "gap16", about: "hand-over: one name held for 1 ms, 2 processes of 8 goroutines on one client each",
		shows:     showsGaps,
		processes: 2, clients: 1, goroutines: 8, section: time.Millisecond},
	{name: "keep2", about: "one name, 2 processes of 1 goroutine take it strictly in turns", shows: showsSingle,
		processes: 2, clients: 1, goroutines: 1, onlyOwn: true, turns: true,
		versus: [][2]string{{"rlock-keep", "rlock"}}},
	{name: "far0.2", about: "single, where a round trip takes 0.2 ms longer", shows: showsSingle,
		processes: 1, clients: 1, goroutines: 1, far: 200 * time.Microsecond},
	{name: "far1", about: "single, where a round trip takes 1 ms longer", shows: showsSingle,
		processes: 1, clients: 1, goroutines: 1, far: time.Millisecond},
	{name: "far5", about: "single, where a round trip takes 5 ms longer", shows: showsSingle,
		processes: 1, clients: 1, goroutines: 1, far: 5 * time.Millisecond},
	{name: "names-far1", about: "names, where a round trip takes 1 ms longer", shows: showsPairs,
		processes: 1, clients: 8, goroutines: 64, each: true, far: time.Millisecond},
	{name: "clients-far1", about: "clients, where a round trip takes 1 ms longer", shows: showsClients,
		processes: 1, clients: 8, goroutines: 64, far: time.Millisecond},
	{name: "crash", about: "a holder is killed (SIGKILL), lease 2 s where there is one: time until a waiter of another process has the lock",
		shows: []string{metricTakeover, metricAfterLease}, measure: measureCrash, lease: 2 * time.Second,
		beside: []string{"election"}},
	{name: "waiters", about: "many goroutines of one client wait for a name that another client holds; then each gets it once",
		shows:   []string{metricRate, metricMemory, metricScripts, metricCommands, metricSubscriptions},
		measure: measureWaiters, onlyOwn: true},
	{name: "held", about: "many names held for two thirds of the default lease",
		shows:   []string{metricScriptRate, metricLeastTrust, metricGoroutines, metricLease},
		measure: measureHeld, onlyOwn: true},
	{name: "quorum", about: "five masters, one goroutine, one name, nobody else; rlock and floor on one of these masters", shows: showsQuorum,
		processes: 1, clients: 1, goroutines: 1, quorum: true, beside: []string{"rlock", "floor"}},
	{name: "quorum8", about: "five masters, one name, 64 goroutines on 8 clients in one process", shows: showsQuorum8,
		processes: 1, clients: 8, goroutines: 64, quorum: true},
	{name: "readers", about: "one name, 64 goroutines on 8 clients in one process read; rlock and floor with a name each",
		shows: showsReaders, kind: aReadWrite, processes: 1, clients: 8, goroutines: 64, each: true,
		beside: []string{"rlock", "floor"}, versus: [][2]string{{"rwlock", "rlock"}}},
	{name: "writer", about: "one name, 63 goroutines on 8 clients in one process read for 1 ms each time, and one writes every 10 ms",
		shows: showsWriter, kind: aReadWrite, processes: 1, clients: 8, goroutines: 64, writers: 1,
		section: time.Millisecond, pause: 10 * time.Millisecond},
	{name: "semaphore", about: "8 permits, 64 goroutines on 8 clients in one process", shows: showsSemaphore, kind: aSemaphore,
		processes: 1, clients: 8, goroutines: 64, permits: 8},
	{name: "semaphore-local", about: "8 permits, 64 goroutines on one client", shows: showsSemaphore, kind: aSemaphore,
		processes: 1, clients: 1, goroutines: 64, permits: 8},
	{name: "latch", about: "1 000 goroutines in 4 processes wait for a latch: how long after the last count-down they are awake",
		shows: []string{metricAwakeAll, metricAwakeP50, metricAwakeP99, metricSubscriptions, metricMessages, metricScriptsEach},
		kind:  aLatch, measure: measureLatch, processes: 4, clients: 1, goroutines: 250, laps: 8, warmLaps: 3},
	{name: "resign", about: "16 candidates in 2 processes, each leads for 1 ms and resigns", shows: showsResign, kind: anElection,
		processes: 2, clients: 1, goroutines: 8, section: time.Millisecond, beside: []string{"fairlock"},
		versus: [][2]string{{"election", "fairlock"}}},
	{name: "resign-far5", about: "resign, where a round trip takes 5 ms longer", shows: showsResign, kind: anElection,
		processes: 2, clients: 1, goroutines: 8, section: time.Millisecond, far: 5 * time.Millisecond, beside: []string{"fairlock"},
		versus: [][2]string{{"election", "fairlock"}}},
	{name: "candidates", about: "100 goroutines on 10 clients wait for a name that nobody gives up: what that costs the server",
		shows: []string{metricCommandRate, metricScriptRate}, kind: anElection, measure: measureIdle, onlyOwn: true,
		clients: 10, goroutines: 100, beside: []string{"fairlock"}, versus: [][2]string{{"election", "fairlock"}}},
	{name: "fleet", about: "one name, 8 clients of 4 threads or goroutines, half of them in a process of Java, which is measured; the other half are its rivals",
		shows: showsFleet, kind: aFleet, processes: 2, clients: 4, goroutines: 16,
		versus: [][2]string{{"fleet-rlock", "fleet-redisson"}, {"fleet-fairlock", "fleet-redisson-fair"}}},
	{name: "fleet-held", about: "fleet, with the name held for 1 ms",
		shows: showsFleet, kind: aFleet, processes: 2, clients: 4, goroutines: 16, section: time.Millisecond,
		versus: [][2]string{{"fleet-rlock", "fleet-redisson"}, {"fleet-fairlock", "fleet-redisson-fair"}}},
}

// takes says whether a contender takes part.
func (s scenario) takes(c contender) bool {
	switch {
	case len(c.only) > 0 && !slices.Contains(c.only, s.name):
		return false
	case s.turns && len(c.only) == 0 && c.name != "rlock":
		return false
	case s.far > 0 && c.needs != needNothing:
		return false
	}
	if (c.needs == needMasters) != s.quorum || c.kind != s.kind {
		return slices.Contains(s.beside, c.name)
	}
	return !s.onlyOwn || c.group == own
}
