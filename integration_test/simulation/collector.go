package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
)

// collectors is where the numbers of the goroutines of an owner of many locks begin.
const collectors = 1000

// collect has one owner of a client hold many locks now and then, which nobody else wants, until
// ctx ends. Every other time the server loses all of them at one moment.
func (w *World) collect(ctx context.Context, c *holdfast.Client, ledger *workload.Ledger, rec *history.Recorder, number int) {
	rng := newSource(w.Seed, 'm', uint64(number)) //nolint:gosec // not negative
	names := make([]string, w.Many)
	for i := range names {
		names[i] = fmt.Sprintf("many.%d.%d", number, i)
	}
	for round := 0; w.sleep(ctx, rng.random(4*w.Lease)); round++ {
		source := func(i int) *rand.Rand {
			return newSource(w.Seed, 'm', uint64(number), uint64(round), uint64(i)).Rand //nolint:gosec // not negative
		}
		lost := rng.IntN(2) == 0
		workload.Collect(ctx, w.actor(c, ledger, number), rec, number, collectors, names, source, func(ctx context.Context) {
			w.sleep(ctx, rng.random(w.Lease/2))
			if lost && ctx.Err() == nil {
				w.lose(names)
				w.sleep(ctx, w.Lease)
			}
		})
	}
}

// lose has the server lose locks.
func (w *World) lose(names []string) {
	at := w.Now()
	ops := make([]history.Op, len(names))
	for i, name := range names {
		w.server.Del(name)
		ops[i] = history.Op{Client: strangers, Name: name, Kind: history.Wipe, Call: at, Return: at, Result: history.OK}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.histories = append(w.histories, ops)
}

// told finds holds of lost locks that went on for longer than until their next renewal, though
// nothing was wrong with their client's way to the server.
func (w *World) told(ops []history.Op) (found []history.Violation) {
	limit := int64(w.Lease/3 + time.Second + 2*w.ReadTimeout + 100*w.slowest())
	type grant struct {
		name  string
		token uint64
	}
	wiped := make(map[string][]history.Op)
	over := make(map[grant]history.Op) // the first that was known of it
	for _, o := range ops {
		g := grant{o.Name, o.Token}
		switch {
		case o.Kind == history.Wipe:
			wiped[o.Name] = append(wiped[o.Name], o)
		case o.Kind == history.End, o.Kind == history.Unlock && o.Last:
			if first, known := over[g]; !known || o.Call < first.Call {
				over[g] = o
			}
		}
	}
	for _, o := range ops {
		end, ended := over[grant{o.Name, o.Token}]
		if o.Kind != history.Lock && o.Kind != history.Try || o.Result != history.OK || o.Plain || !ended {
			continue
		}
		for _, wipe := range wiped[o.Name] {
			if o.Return < wipe.Call && end.Call > wipe.Call+limit &&
				!w.disturbedBetween(o.Client, wipe.Call, end.Call) {
				found = append(found, history.Violation{Check: "told", Name: o.Name, Ops: []history.Op{o, wipe, end},
					Text: fmt.Sprintf("the lock was lost, and %s later nobody knew",
						time.Duration(end.Call-wipe.Call))})
			}
		}
	}
	return found
}

// disturbedBetween reports whether a client may have felt a fault in a time.
func (w *World) disturbedBetween(client int, from, to int64) bool {
	from -= int64(w.recovery())
	return history.Overlap(slices.Concat(w.windows, w.local[client]), from, to)
}
