package rlock_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// compareAndDelete is the release of the floor that the benchmarks are held against: SET NX PX to
// lock and this to unlock, without waiting, owners that re-enter, tokens or renewal.
var compareAndDelete = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func floorPair(b *testing.B, rdb *redis.Client, name, owner string) {
	ctx := context.Background()
	if ok, err := rdb.SetNX(ctx, name, owner, 30*time.Second).Result(); err != nil || !ok {
		b.Fatal(ok, err)
	}
	if n, err := compareAndDelete.Run(ctx, rdb, []string{name}, owner).Int(); err != nil || n != 1 {
		b.Fatal(n, err)
	}
}

func rlockPair(ctx context.Context, b *testing.B, m *rlock.Mutex) {
	h, err := m.Lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Unlock(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPair is an uncontended lock and unlock by one goroutine; "floor" is the same by hand.
func BenchmarkPair(b *testing.B) {
	rdb := redistest.Shared(b).Client(b)
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			floorPair(b, rdb, "bench-floor", "owner")
		}
	})
	c := newClient(b, rdb, nil)
	m := rlock.New(c, "bench-rlock")
	b.Run("rlock", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rlockPair(context.Background(), b, m)
		}
	})
	b.Run("rlock-cancellable", func(b *testing.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.ReportAllocs()
		for b.Loop() {
			rlockPair(ctx, b, m)
		}
	})
}

// BenchmarkPairEach is a name per goroutine, 64 of them.
func BenchmarkPairEach(b *testing.B) {
	rdb := redistest.Shared(b).Client(b)
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			name := "bench-floor:" + strconv.FormatInt(n.Add(1), 10)
			for pb.Next() {
				floorPair(b, rdb, name, "owner")
			}
		})
	})
	c := newClient(b, rdb, nil)
	b.Run("rlock", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			m := rlock.New(c, "bench-rlock:"+strconv.FormatInt(n.Add(1), 10))
			for pb.Next() {
				rlockPair(context.Background(), b, m)
			}
		})
	})
}

// BenchmarkContended is one name and 64 goroutines of one client.
func BenchmarkContended(b *testing.B) {
	m := rlock.New(newClient(b, redistest.Shared(b).Client(b), nil), "bench-contended")
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			rlockPair(context.Background(), b, m)
		}
	})
}

// BenchmarkErr asks a hold's context, which looks at the clock each time.
func BenchmarkErr(b *testing.B) {
	c, _ := shared(b, nil)
	h, err := rlock.New(c, uniqueName(b)).Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx := h.Context()
	for b.Loop() {
		if ctx.Err() != nil {
			b.Fatal("it ended")
		}
	}
	_ = h.Unlock(b.Context())
}
