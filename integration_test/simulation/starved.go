package simulation

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// enough is how many grants others may have of a lock while a client waits for it all the time and
// nothing is disturbed: several times as many as it takes until its turn.
const enough = 40

// starved finds clients that others are granted a lock before again and again.
func (w *World) starved(ops []history.Op) (found []history.Violation) {
	type waiter struct {
		client int
		name   string
	}
	missed := make(map[waiter]int) // grants of others since it waits, or since its own last one
	waits := make(map[waiter]int)  // goroutines of it that wait
	for _, e := range moments(ops) {
		o := e.op
		who := waiter{o.Client, o.Name}
		if e.call {
			if waits[who]++; waits[who] == 1 {
				missed[who] = 0
			}
			continue
		}
		if waits[who]--; o.Result != history.OK {
			continue
		}
		if w.disturbed(e.at) {
			clear(missed)
			continue
		}
		missed[who] = 0
		for other := range waits {
			if other.name != o.Name || other == who || waits[other] == 0 {
				continue
			}
			if missed[other]++; missed[other] == enough {
				found = append(found, history.Violation{Check: "starved", Name: o.Name, Ops: []history.Op{*o},
					Text: fmt.Sprintf("client %d waits while others are granted it %d times", other.client, enough)})
			}
		}
	}
	return found
}

// disturbed reports whether a fault, of any client, can be felt at a moment.
func (w *World) disturbed(at int64) bool {
	from := at - int64(w.recovery())
	for _, faults := range w.local {
		if history.Overlap(faults, from, at) {
			return true
		}
	}
	return history.Overlap(w.windows, from, at)
}

// moment is when somebody begins to wait for a lock, or ends that.
type moment struct {
	at   int64
	op   *history.Op
	call bool
}

func moments(ops []history.Op) (all []moment) {
	for i := range ops {
		if o := &ops[i]; o.Kind == history.Lock && o.Return != history.Forever {
			all = append(all, moment{o.Call, o, true}, moment{o.Return, o, false})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// slowLog is the log of a client: a record takes its time, or for the rest of the client's life,
// and now and then it panics. None of that may be felt by anybody.
type slowLog struct {
	world *World
	life  context.Context // of the client; Close does not wait for the log's time

	mu  sync.Mutex // guards rng
	rng source
}

func (l *slowLog) Enabled(context.Context, slog.Level) bool { return l.world.Log > 0 }
func (l *slowLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *slowLog) WithGroup(string) slog.Handler            { return l }

func (l *slowLog) Handle(context.Context, slog.Record) error {
	l.mu.Lock()
	d, panics := l.world.round(l.rng.random(l.world.Log)), l.world.LogPanics && l.rng.IntN(4) == 0
	l.mu.Unlock()
	l.world.sleep(l.life, d)
	if panics {
		panic("log")
	}
	return nil
}
