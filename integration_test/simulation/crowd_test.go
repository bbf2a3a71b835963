package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// TestCrowd runs worlds in which callers are the fault.
func TestCrowd(t *testing.T) {
	var sum totals
	for seeds := range worlds(t, upTo(12), upTo(24), nil) {
		for _, seed := range seeds {
			from := time.Now()
			w := &World{Settings: crowded(seed)}
			r := run(t, w)
			sum.add(r)
			stats(t, w, r, time.Since(from))
			history.Report(t, r.Problems, replay(t, seed))
		}
	}
	t.Logf("proof: simulation: crowds: %s", &sum)
}

func stats(t *testing.T, w *World, r Result, took time.Duration) {
	calls, grants, taken, outage, early, others := 0, 0, 0, 0, 0, 0
	for _, o := range r.Ops {
		if o.Kind != history.Lock && o.Kind != history.Try && o.Kind != history.Wait {
			others++
			continue
		}
		calls++
		switch {
		case o.Result == history.OK:
			grants++
		case o.Early:
			early++
		case o.Outage:
			outage++
		case o.Taken:
			taken++
		}
	}
	places, gor, live := 0, 0, 0
	ratio := 0.0
	for _, l := range w.loads {
		n := w.live2(r.Ops, l.at)
		places, gor, live = max(places, l.places), max(gor, l.goroutines), max(live, n)
		ratio = max(ratio, float64(l.places-8)/float64(max(n, 1)))
	}
	cmds := 0
	if n := len(w.loads); n > 0 {
		cmds = w.loads[n-1].commands
	}
	t.Log(fmt.Sprintf("seed %d %s fair=%v faults=%v crowd %d trip %v service %v queueing %v took %v: %d calls %d granted %d early %d taken %d outage; %d other ops; places %d live %d ratio %.1f goroutines %d commands %d (%d at last sample)",
		w.Seed, w.Kind, w.Fair, w.Only, w.Crowd, w.trip(), w.Service, w.queueing(), took.Round(time.Millisecond), calls, grants, early, taken, outage, others, places, live, ratio, gor, w.commands, cmds))
}
