package rlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// counting is an observer that counts all there is.
func counting() *holdfast.Observer {
	var waits, grants, refusals, ends, renewals, scripts, nanos atomic.Int64
	return &holdfast.Observer{
		Waiting: func(ctx context.Context, _ holdfast.WaitEvent) context.Context {
			waits.Add(1)
			return ctx
		},
		Granted: func(_ context.Context, e holdfast.GrantEvent) { grants.Add(1); nanos.Add(int64(e.Waited)) },
		Refused: func(context.Context, holdfast.RefusalEvent) { refusals.Add(1) },
		Ended:   func(context.Context, holdfast.EndEvent) { ends.Add(1) },
		Renewed: func(holdfast.RenewalEvent) { renewals.Add(1) },
		Sent:    func(e holdfast.ScriptEvent) { scripts.Add(1); nanos.Add(int64(e.Took)) },
	}
}

// BenchmarkObserved is a pair at the server, and one that 64 goroutines of a client hand on and keep,
// without and with an observer that counts.
func BenchmarkObserved(b *testing.B) {
	for name, o := range map[string]*holdfast.Observer{"nobody": nil, "counting": counting()} {
		c := newClient(b, redistest.Shared(b).Client(b), &holdfast.Options{Observer: o})
		b.Run("server/"+name, func(b *testing.B) {
			m := rlock.New(c, uniqueName(b))
			b.ReportAllocs()
			for b.Loop() {
				rlockPair(context.Background(), b, m)
			}
		})
		b.Run("local/"+name, func(b *testing.B) {
			m := rlock.New(c, uniqueName(b), holdfast.Keep(time.Minute))
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					rlockPair(context.Background(), b, m)
				}
			})
		})
	}
}
