package engine

import (
	"sync/atomic"
	"time"
)

// way is how long a round trip to the server takes. The zero value is ready.
type way struct{ nanos atomic.Int64 }

// took notes the time of one round trip. Most round trips that take longer than usual do so because
// a process had to wait for a processor.
func (w *way) took(d time.Duration) {
	old, now := w.nanos.Load(), int64(d)
	if old > 0 && now > old {
		now = old + (now-old)/8
	}
	w.nanos.Store(now) // of two at once one may be forgotten
}

func (w *way) usual() time.Duration { return time.Duration(w.nanos.Load()) }

// start is long ago, for times that are only compared. To read the wall clock, too, would take twice as
// long, and an observer needs three times for each hold.
var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }
