package redlock_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// clientsOf makes a process's clients.
func clientsOf(b *testing.B, masters []*redistest.Server, opts ...func(*redis.Options)) (list []*holdfast.Client) {
	for _, m := range masters {
		c, err := holdfast.New(m.Client(b, opts...), nil)
		if err != nil {
			b.Fatal(err)
		}
		redistest.CloseAtEnd(b, c)
		list = append(list, c)
	}
	return list
}

func pairs(b *testing.B, m holdfast.Locker, n int) {
	for range n {
		h, err := m.Lock(context.Background())
		if err != nil {
			b.Error(err)
			return
		}
		if err := h.Unlock(context.Background()); err != nil {
			b.Error(err)
			return
		}
	}
}

// BenchmarkPair is an uncontended lock and unlock: of one master, and of a quorum of several.
func BenchmarkPair(b *testing.B) {
	masters := redistest.StartMasters(b, 5)
	clients := clientsOf(b, masters)
	b.Run("rlock", func(b *testing.B) { pairs(b, rlock.New(clients[0], "r"), b.N) })
	for _, n := range []int{1, 3, 5} {
		b.Run("redlock-"+strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			pairs(b, redlock.New(clients[:n], "q", redlock.TrustRestarts()), b.N)
		})
	}
}

// BenchmarkMinorityIsOut is a pair with two of five masters gone: the median, and the longest lock
// and unlock, of which the first ones notice it.
func BenchmarkMinorityIsOut(b *testing.B) {
	for name, out := range map[string]func(*redistest.Server){
		"none":    func(*redistest.Server) {},
		"killed":  (*redistest.Server).Kill,
		"stopped": (*redistest.Server).Pause,
	} {
		b.Run(name, func(b *testing.B) {
			masters := redistest.StartMasters(b, 5)
			m := redlock.New(clientsOf(b, masters), "q")
			pairs(b, m, 100)
			out(masters[1])
			out(masters[3])
			var locks, unlocks []time.Duration
			b.ResetTimer()
			for range b.N {
				start := time.Now()
				h, err := m.Lock(context.Background())
				locked := time.Now()
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Unlock(context.Background()); err != nil {
					b.Fatal(err)
				}
				locks, unlocks = append(locks, locked.Sub(start)), append(unlocks, time.Since(locked))
			}
			for what, list := range map[string][]time.Duration{"lock": locks, "unlock": unlocks} {
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)/2].Microseconds()), what+"-p50-us")
				b.ReportMetric(float64(list[len(list)-1].Microseconds())/1000, what+"-max-ms")
			}
		})
	}
}

// BenchmarkContended is one name, 64 goroutines of 8 processes' clients.
func BenchmarkContended(b *testing.B) {
	masters := redistest.StartMasters(b, 5)
	var g sync.WaitGroup
	for range 8 {
		m := redlock.New(clientsOf(b, masters), "q", redlock.TrustRestarts())
		for range 8 {
			g.Go(func() { pairs(b, m, b.N/64+1) })
		}
	}
	g.Wait()
}
