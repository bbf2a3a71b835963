//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// weather is what happens to the servers of a run.
type weather struct {
	tb       testing.TB
	t        *target
	lease    time.Duration
	names    int // in use in each period
	period   time.Duration
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
	for sleep(ctx, random(w.rng, gap)) {
		kind := deal.next(kinds)
		w.count[kind]++
		from := now()
		w.fault(kind)(ctx, w)
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

// fault is a fault of servers, or of masters of a quorum, of which it hits a minority.
func (w *weather) fault(kind string) func(ctx context.Context, w *weather) {
	if w.t.mode == quorum {
		return ofMasters[kind]
	}
	return global[kind]
}

// entry is a line of a diary of faults; its moments compare with those in histories.
func entry(from int64, who, kind string) string {
	return fmt.Sprintf("%s to %s %s: %s", time.Duration(from), time.Duration(now()), who, kind)
}

// during has all servers in some state for a time.
func (w *weather) during(ctx context.Context, begin, end []string, shortest, longest time.Duration) {
	w.t.each(begin...)
	sleep(ctx, between(w.rng, shortest, longest))
	w.t.each(end...)
}

func (w *weather) pause(ctx context.Context, d time.Duration) {
	n := w.t.nodes[w.rng.IntN(len(w.t.nodes))]
	n.Pause()
	sleep(ctx, d)
	n.Resume()
}

// refuses are the faults in which a server refuses what it is asked.
var refuses = map[string]bool{"out-of-memory": true, "no-scripts": true, "no-publish": true}

// global are the faults of servers, by name.
var global = map[string]func(ctx context.Context, w *weather){
	"server-pause": func(ctx context.Context, w *weather) {
		w.pause(ctx, between(w.rng, 50*time.Millisecond, 500*time.Millisecond))
	},
	"server-pause-beyond-lease": func(ctx context.Context, w *weather) {
		w.pause(ctx, min(w.lease+between(w.rng, 0, w.lease/2), budget/2))
	},
	"server-sleep": func(_ context.Context, w *weather) { // returns when it has slept
		w.t.each("DEBUG", "SLEEP", strconv.FormatFloat(between(w.rng, 50*time.Millisecond,
			600*time.Millisecond).Seconds(), 'f', 3, 64))
	},
	"client-pause": func(ctx context.Context, w *weather) {
		d := between(w.rng, 50*time.Millisecond, 500*time.Millisecond)
		w.t.each("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10))
		sleep(ctx, d)
	},
	"kill-pubsub":  func(_ context.Context, w *weather) { w.t.each("CLIENT", "KILL", "TYPE", "pubsub") },
	"kill-clients": func(_ context.Context, w *weather) { w.t.each("CLIENT", "KILL", "TYPE", "normal") },
	"script-flush": func(_ context.Context, w *weather) { w.t.each("SCRIPT", "FLUSH") },
	"out-of-memory": func(ctx context.Context, w *weather) {
		w.during(ctx, []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"},
			50*time.Millisecond, 600*time.Millisecond)
	},
	"no-scripts": func(ctx context.Context, w *weather) {
		w.during(ctx, []string{"ACL", "SETUSER", "default", "-evalsha", "-eval"},
			[]string{"ACL", "SETUSER", "default", "+evalsha", "+eval"}, 50*time.Millisecond, 600*time.Millisecond)
	},
	"no-publish": func(ctx context.Context, w *weather) {
		w.during(ctx, []string{"ACL", "SETUSER", "default", "-publish"},
			[]string{"ACL", "SETUSER", "default", "+publish"},
			50*time.Millisecond, 600*time.Millisecond)
	},
	// The longest jump that all leases bear: they are trusted for 1 % less 2 ms. Jumps add up
	// within a lease, and so come rarely (see the plan).
	"clock": func(_ context.Context, w *weather) {
		for _, n := range w.t.nodes {
			n.MoveClock(w.tb, 2*time.Millisecond)
		}
	},
	"failover": func(ctx context.Context, w *weather) {
		// The nodes of a cluster do not vote twice for one shard within two node timeouts, which
		// are a second here.
		if sleep(ctx, time.Until(w.failedOver.Add(2*time.Second))) {
			w.t.failover(w.tb, w.rng)
			w.failedOver = time.Now()
		}
	},
}
