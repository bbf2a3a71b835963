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
	beside []string
}

var (
	showsPairs   = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricJain, metricCommands}
	showsClients = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricMoved, metricJain,
		metricLeastShare, metricCommands}
	showsGaps = []string{metricGapMean, metricGapP50, metricGapP99, metricMoved, metricWaitP99, metricJain,
		metricJainProcesses, metricCommands}
)

var (
	showsQuorum  = []string{metricRate, metricWaitMean, metricWaitP50, metricWaitP99, metricCommands}
	showsQuorum8 = []string{metricRate, metricWaitP50, metricWaitP99, metricLongest, metricMoved, metricJain,
		metricLeastGoroutine, metricMostGoroutine, metricCommands}
)

// scenarios are all of them, in the order in which they run.
var scenarios = []scenario{
	{name: "single", about: "one goroutine, one name, nobody else",
		shows:     []string{metricRate, metricWaitP50, metricWaitP99, metricCommands},
		processes: 1, clients: 1, goroutines: 1},
	{name: "names", about: "a name for each of 64 goroutines on 8 clients in one process", shows: showsPairs,
		processes: 1, clients: 8, goroutines: 64, each: true},
	{name: "local", about: "one name, 64 goroutines on one client", shows: showsClients,
		processes: 1, clients: 1, goroutines: 64},
	{name: "clients", about: "one name, 64 goroutines on 8 clients in one process", shows: showsClients,
		processes: 1, clients: 8, goroutines: 64},
	{name: "processes", about: "one name, 8 processes of 8 goroutines on one client each", shows: showsClients,
		processes: 8, clients: 1, goroutines: 8},
	{name: "gap2", about: "hand-over: one name held for 1 ms, 2 processes of 1 goroutine each", shows: showsGaps,
		processes: 2, clients: 1, goroutines: 1, section: time.Millisecond},
	{name: "gap16", about: "hand-over: one name held for 1 ms, 2 processes of 8 goroutines on one client each",
		shows:     showsGaps,
		processes: 2, clients: 1, goroutines: 8, section: time.Millisecond},
	{name: "crash", about: "a holder is killed (SIGKILL), lease 2 s where there is one: time until a waiter of another process has the lock",
		shows: []string{metricTakeover}, measure: measureCrash, lease: 2 * time.Second},
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
}

// takes says whether a contender takes part.
func (s scenario) takes(c contender) bool {
	if (c.needs == needMasters) != s.quorum {
		return slices.Contains(s.beside, c.name)
	}
	return !s.onlyOwn || c.group == own
}
