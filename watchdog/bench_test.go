package watchdog

import (
	"context"
	"testing"
	"time"
)

// BenchmarkWatchForget is what a lock that is taken and released pays, alone and beside many that are held.
func BenchmarkWatchForget(b *testing.B) {
	for name, held := range map[string]int{"alone": 0, "100k held": 100_000} {
		b.Run(name, func(b *testing.B) {
			w := New(Config{Renew: func(context.Context, []Renewal) {}})
			others := make([]holder, held)
			for i := range others {
				w.Watch(&others[i].lease, &others[i], time.Now(), time.Hour, true)
			}
			var h holder
			b.ReportAllocs()
			for b.Loop() {
				w.Watch(&h.lease, &h, time.Now(), 30*time.Second, true)
				w.Forget(&h.lease)
			}
			b.StopTimer()
			w.Stop()
			w.Join()
		})
	}
}
