package simulation

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/suspend"
)

// nap puts the machine to sleep now and then on which all clients run, until the storm ends. Their
// clock stands still, and so does everything that is under way; the server's clock goes on, here in
// a jump.
func (w *World) nap(storm context.Context) {
	rng := newSource(w.Seed, 'n')
	for w.Naps > 0 && w.sleep(storm, rng.random(w.Naps)) {
		d := w.round(rng.random(w.Lease))
		at := w.Now()
		w.faults[Nap].Add(1)
		suspend.Pretend(d)
		w.slept.Add(int64(d))
		w.mu.Lock()
		w.naps = append(w.naps, history.Window{From: at - int64(d), To: at + int64(noticed)})
		// who slept until a lease ends sleeps for as long as ever
		w.windows = append(w.windows, history.Window{From: at, To: at + int64(d)})
		w.mu.Unlock()
	}
}

// noticed is after what time those are told of the end of their holds who only wait for it.
const noticed = time.Second + time.Millisecond

// napped moves deadlines that were noted before a nap, when a hold was to be unlocked that was lost
// by that, and the deaths of those who had not noticed a nap yet.
func (w *World) napped(ops []history.Op) {
	for i := range ops {
		for _, nap := range w.naps {
			o, at := &ops[i], nap.To-int64(noticed)
			if o.Kind == history.Unlock && o.Result == history.Lost && o.Deadline != 0 && o.Call <= at &&
				at <= o.Return {
				o.Deadline -= at - nap.From
			}
			if o.Kind == history.Crash && at <= o.Call && o.Call <= nap.To { // it was not told any more what it had lost
				o.Call = at
			}
		}
	}
}

// pauses are the naps of all clients.
func (w *World) pauses() map[int][]history.Window {
	all := make(map[int][]history.Window)
	for client := range w.clients {
		all[client] = w.naps
	}
	return all
}
