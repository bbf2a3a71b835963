package watchdog

import (
	"context"
	"testing"
	"time"
)

// BenchmarkWatchForget is what a lock that is taken and released pays, time.Now for the send time
// included: alone, beside many that are held for as long, and at worst, where its moments are
// before those of all others.
func BenchmarkWatchForget(b *testing.B) {
	for _, c := range []struct {
		name   string
		held   int
		length time.Duration
	}{{"alone", 0, time.Hour}, {"100k held", 100_000, time.Hour}, {"100k held, first", 100_000, time.Minute}} {
		b.Run(c.name, func(b *testing.B) {
			w := New(Config{Renew: func(context.Context, []Renewal) {}})
			others := make([]holder, c.held)
			for i := range others {
				w.Watch(&others[i].lease, &others[i], time.Now(), time.Hour, true)
			}
			var h holder
			b.ReportAllocs()
			for b.Loop() {
				w.Watch(&h.lease, &h, time.Now(), c.length, true)
				w.Forget(&h.lease)
			}
			b.StopTimer()
			w.Stop()
			w.Join()
		})
	}
}

// BenchmarkRenew is what the watchdog itself spends on renewing a batch of 500 once.
func BenchmarkRenew(b *testing.B) {
	w := New(Config{Renew: confirm})
	w.running = true // without its clock
	holders := make([]holder, 500)
	for i := range holders {
		w.Watch(&holders[i].lease, &holders[i], time.Now(), time.Hour, true)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.mu.Lock()
		batches, _ := w.batchesLocked(time.Since(w.epoch) + time.Hour)
		w.mu.Unlock()
		w.renew(batches[0])
	}
	w.Stop()
}
