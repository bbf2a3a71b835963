//go:build unix

// Command observing measures what an observer that counts costs: pairs of Lock and Unlock of two
// clients, one with an observer and one without, in turns of a few milliseconds.
//
//	redis-server --port 7777 --save "" &
//	go run ./bench/observing -server 127.0.0.1:7777
//
// The work is that of the benchmark's scenarios single (one goroutine) and local (64 goroutines, one
// name, one client). Processor time of this process for each pair is compared, in the turns least
// disturbed, the tenth part with the least time, and turn by turn: the machine may be busy with
// other work meanwhile. The rate is compared too, which needs a machine that is not.
//
// Not promised: that the figures of another machine are the same. An observer of the user's costs
// more than one that counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/internal/told"
	"github.com/holdfast-go/holdfast/rlock"
)

// settings are what the flags say.
type settings struct {
	server     string
	turns      int           // of each of the two
	turn       time.Duration // how long one lasts
	goroutines []int         // a measurement each
}

func main() {
	s := settings{goroutines: []int{1, 64}}
	flag.StringVar(&s.server, "server", "", "`host:port` of a Redis server")
	flag.IntVar(&s.turns, "turns", 300, "how many turns each client has")
	flag.DurationVar(&s.turn, "turn", 50*time.Millisecond, "how long a turn lasts")
	flag.Parse()
	if s.server == "" || s.turns < 1 || s.turn <= 0 {
		fmt.Fprintln(os.Stderr, "observing: -server is missing, or -turns or -turn is not positive")
		os.Exit(64)
	}
	if err := run(context.Background(), s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "observing:", err)
		os.Exit(1)
	}
}

// silent is the logger of the clients.
var silent = slog.New(slog.DiscardHandler)

func run(ctx context.Context, s settings, out io.Writer) error {
	fmt.Fprintf(out, "%d turns of %v each\n\n", s.turns, s.turn)
	fmt.Fprintln(out, "| goroutines | processor time of a pair, without | with | ratio | ratio turn by turn: quarter, median, three quarters | pairs/s without | with | ratio |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, n := range s.goroutines {
		m, err := compare(ctx, s, n)
		if err != nil {
			return err
		}
		m.print(out, n)
	}
	return nil
}

// compared are the turns of both clients, in pairs.
type compared struct{ without, with []turn }

// turn is what was measured in one.
type turn struct {
	each time.Duration // processor time of this process for a pair
	rate float64       // pairs per second
}

func compare(ctx context.Context, s settings, goroutines int) (c compared, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.server})
	defer rdb.Close()
	var heard told.Counters
	nobody, err := holdfast.New(rdb, &holdfast.Options{Logger: silent})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nobody.Close(ctx)) }()
	observed, err := holdfast.New(rdb, &holdfast.Options{Observer: heard.Observer(), Logger: silent})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, observed.Close(ctx)) }()
	name := fmt.Sprintf("observing:%d:%d", os.Getpid(), goroutines)
	plain, watched := rlock.New(nobody, name+":without"), rlock.New(observed, name+":with")
	for i := range s.turns + 1 {
		order := []*rlock.Mutex{plain, watched}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, m := range order {
			one, err := take(ctx, m, goroutines, s.turn)
			switch {
			case err != nil:
				return c, err
			case i == 0: // to warm up
			case m == plain:
				c.without = append(c.without, one)
			default:
				c.with = append(c.with, one)
			}
		}
	}
	if heard.Grants.Load() == 0 || heard.Ends.Load() != heard.Grants.Load() {
		return c, fmt.Errorf("the observer heard of %d grants and %d ends", heard.Grants.Load(), heard.Ends.Load())
	}
	return c, nil
}

// take has goroutines lock and unlock for as long as a turn lasts.
func take(ctx context.Context, m *rlock.Mutex, goroutines int, d time.Duration) (t turn, err error) {
	began, used := time.Now(), ownProcessor()
	limit, cancel := context.WithCancel(ctx) // as in the benchmark: a context that can end
	defer cancel()
	var pairs atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			n := int64(0)
			for time.Since(began) < d {
				h, err := m.Lock(limit)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				n++
			}
			pairs.Add(n)
		})
	}
	group.Wait()
	took := time.Since(began)
	used = ownProcessor() - used
	if e := failed.Load(); e != nil {
		return t, *e
	}
	n := max(pairs.Load(), 1)
	return turn{used / time.Duration(n), float64(n) / took.Seconds()}, nil
}

func (c compared) print(out io.Writer, goroutines int) {
	each := func(turns []turn) (all []float64) {
		for _, t := range turns {
			all = append(all, float64(t.each))
		}
		return all
	}
	rate := func(turns []turn) (all []float64) {
		for _, t := range turns {
			all = append(all, -t.rate) // the least is the best
		}
		return all
	}
	var ratios []float64
	for i := range c.with {
		ratios = append(ratios, float64(c.with[i].each)/float64(c.without[i].each))
	}
	const best = 0.1
	without, with := part(each(c.without), best), part(each(c.with), best)
	slow, fast := -part(rate(c.with), best), -part(rate(c.without), best)
	fmt.Fprintf(out, "| %d | %.2f µs | %.2f µs | %.3f | %.3f, %.3f, %.3f | %.0f | %.0f | %.3f |\n", goroutines,
		without/1000, with/1000, with/without, part(ratios, 0.25), part(ratios, 0.5), part(ratios, 0.75), fast, slow, slow/fast)
}

// part is the value below which that part of the values is.
func part(values []float64, p float64) float64 {
	slices.Sort(values)
	return values[int(p*float64(len(values)-1))]
}

// ownProcessor is the processor time that this program has used.
func ownProcessor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
