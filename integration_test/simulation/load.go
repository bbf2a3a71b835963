package simulation

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// load is what callers cost at a moment.
type load struct {
	at         int64
	places     int // in the queue at the server
	commands   int // that the server had to do so far
	goroutines int // of the process, without those of the simulation
}

// measure notes what callers cost, until the storm ends. No other world may run meanwhile: the goroutines are the process's.
func (w *World) measure(storm context.Context) {
	if w.Crowd == 0 {
		return
	}
	name, before := w.nth(0), runtime.NumGoroutine()+w.Clients*(w.Actors+w.Crowd)
	for w.sleep(storm, max(w.trip(), 10*time.Millisecond)) {
		l := load{at: w.Now(), goroutines: runtime.NumGoroutine() - before}
		for _, n := range w.networks() {
			l.goroutines -= 3 * len(n.open()) // of a connection: each way, and the server's
		}
		queue, _ := w.server.List(keys.For(name).Queue)
		permits, _ := w.server.ZMembers(keys.ForPermits(name).Queue)
		writers, _ := w.server.ZMembers(keys.ForReadWrite(name).Writers)
		l.places = len(queue) + len(permits) + len(writers)
		w.mu.Lock()
		l.commands = w.commands
		w.loads = append(w.loads, l)
		w.mu.Unlock()
	}
}

// The bounds of what callers may cost, beside twice as much as there are callers who want the lock.
const (
	morePlaces     = 8
	moreGoroutines = 60 // for each client: its renewals, its subscriptions and polls, its observers, its log
	moreCommands   = 100
)

// dear finds the first moment at which callers cost more than they may. In a fault, and in the recovery time after
// it, places may stand that cannot be given back.
func (w *World) dear(ops []history.Op) (found []history.Violation) {
	limit := func(check string, l load, is, most int) bool {
		if is > most {
			found = append(found, history.Violation{Check: check, Text: fmt.Sprintf("%d at %s, and not more than %d were to be",
				is, time.Duration(l.at), most)})
		}
		return is > most
	}
	for _, l := range w.loads {
		if w.disturbed(l.at) {
			break
		}
		live, calls := w.callers(ops, l.at)
		places := limit("places", l, l.places, 2*live+morePlaces)
		goroutines := limit("goroutines", l, l.goroutines, 2*live+moreGoroutines*w.Clients)
		if limit("commands", l, l.commands, 2*calls+moreCommands) || places || goroutines {
			break
		}
	}
	return found
}

// callers are how many want the lock, or did so until a moment ago, when what they leave is still being given back; and how many
// calls there were so far, of any kind.
func (w *World) callers(ops []history.Op, at int64) (live, calls int) {
	from := at - int64(6*w.slowest())
	want := make(map[[2]int]bool)
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Call > at, o.Kind == history.Queue, o.Kind == history.End, o.Kind == history.Crash:
			continue
		case o.Return >= from && (o.Kind == history.Lock || o.Kind == history.Try):
			want[[2]int{o.Client, o.Actor}] = true
		}
		calls++
	}
	return len(want), calls
}
