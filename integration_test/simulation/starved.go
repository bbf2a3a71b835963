package simulation

import (
	"cmp"
	"fmt"
	"slices"

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
