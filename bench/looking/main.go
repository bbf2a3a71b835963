//go:build unix

// Command looking measures what package inspect costs a server with many keys, and the process that
// asks: how long a list of all locks takes, how much memory, and how long the slowest command keeps the
// server from others.
//
//	redis-server --port 7777 --save "" &
//	go run ./bench/looking -server 127.0.0.1:7777       # FLUSHES that server
//
// It fills the server with a million strings and hashes of somebody's, and 10 000 locks: plain ones,
// fair ones with waiters, read-write locks and semaphores. Not promised: that the figures of another
// machine are the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

func main() {
	server := flag.String("server", "", "host:port of a Redis server, which is FLUSHED")
	others := flag.Int("keys", 1_000_000, "how many keys of others")
	locks := flag.Int("locks", 10_000, "how many locks")
	flag.Parse()
	if *server == "" {
		fmt.Fprintln(os.Stderr, "looking: -server is missing; name one that may be flushed")
		os.Exit(64)
	}
	if err := run(context.Background(), *server, *others, *locks); err != nil {
		fmt.Fprintln(os.Stderr, "looking:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string, others, locks int) error {
	rdb := redis.NewClient(&redis.Options{Addr: server, ReadTimeout: time.Minute})
	defer rdb.Close()
	if err := fill(ctx, rdb, others, locks); err != nil {
		return err
	}
	size := rdb.DBSize(ctx).Val()
	fmt.Printf("%s keys, %d locks among them with what belongs to them; %s, GOMAXPROCS %d; %d runs of each\n\n", grouped(size), locks,
		version(ctx, rdb), runtime.GOMAXPROCS(0), runs)
	fmt.Println("| query | locks | time: least, median | memory | slowest command | commands above 5 ms | processor time of the server, of this program |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, q := range []struct {
		name  string
		query inspect.Query
	}{
		{"all", inspect.Query{}}, {"a pattern", inspect.Query{Match: "lock:77*"}}, {"with Redisson's", inspect.Query{Redisson: true}},
	} {
		m, err := measure(ctx, rdb, q.query)
		if err != nil {
			return err
		}
		if q.name == "all" && m.found != locks {
			return fmt.Errorf("found %d locks of %d", m.found, locks)
		}
		slices.Sort(m.times)
		fmt.Printf("| %s | %d | %v, %v | %.1f MiB | %.2f ms, %s | %d of %d | %v, %v |\n", q.name, m.found, m.times[0].Round(10*time.Millisecond),
			m.times[runs/2].Round(10*time.Millisecond), float64(m.peak)/(1<<20), float64(m.slowest.Microseconds())/1000, m.which, m.above, m.commands,
			m.server.Round(10*time.Millisecond), m.own.Round(10*time.Millisecond))
	}
	return nil
}

const runs = 5

// sent are the commands that are sent, and have the same arguments each time. The log has those in
// scripts too.
var sent = []string{"scan", "eval_ro", "evalsha_ro", "hlen", "hkeys"}

// measured is what a query cost.
type measured struct {
	found           int
	times           []time.Duration
	peak            uint64        // bytes that the runtime had from the system
	slowest         time.Duration // of the commands, of which each counts with the least time of its runs: a busy machine takes turns
	which           string
	above, commands int           // commands that took longer than 5 ms each time, and all
	server, own     time.Duration // processor time, on average
}

// measure runs a query some times, with the server's own account of each command.
func measure(ctx context.Context, rdb *redis.Client, q inspect.Query) (m measured, err error) {
	least := make(map[string]time.Duration)
	i, err := inspect.New(rdb, nil)
	if err != nil {
		return m, err
	}
	for run := range 2 * runs {
		logged := 0 // microseconds: everything
		if run < runs {
			logged = -1 // nothing: keeping a log of everything costs the server as much as the commands
		}
		for _, command := range [][]any{
			{"config", "set", "slowlog-log-slower-than", logged}, {"config", "set", "slowlog-max-len", 2_000_000}, {"slowlog", "reset"},
		} {
			if err := rdb.Do(ctx, command...).Err(); err != nil {
				return m, err
			}
		}
		debug.FreeOSMemory()
		peak, stop := watchMemory()
		server, own := processor(ctx, rdb), ownProcessor()
		begin := time.Now()
		m.found = 0
		for _, err := range i.Locks(ctx, q) {
			if err != nil {
				return m, err
			}
			m.found++
		}
		took := time.Since(begin)
		stop()
		if run < runs {
			m.times = append(m.times, took)
			m.server, m.own = m.server+(processor(ctx, rdb)-server)/runs, m.own+(ownProcessor()-own)/runs
		}
		if run == 0 { // later ones have in memory what this program has noted
			m.peak = *peak
		}
		for _, s := range rdb.SlowLogGet(ctx, -1).Val() {
			if !slices.Contains(sent, strings.ToLower(s.Args[0])) {
				continue
			}
			key := strings.Join(s.Args, " ")
			if known, ok := least[key]; !ok || s.Duration < known {
				least[key] = s.Duration
			}
		}
	}
	for key, took := range least {
		name := strings.ToLower(strings.Fields(key)[0])
		m.commands++
		if took > 5*time.Millisecond {
			m.above++
		}
		if took > m.slowest {
			m.slowest, m.which = took, strings.ToUpper(name)
		}
	}
	return m, nil
}

// ownProcessor is the processor time that this program has used.
func ownProcessor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchMemory samples what the runtime has from the system.
func watchMemory() (peak *uint64, stop func()) {
	peak = new(uint64)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.Sys-m.HeapReleased)
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return peak, func() { close(done); <-ended }
}

// processor is the processor time that the server has used.
func processor(ctx context.Context, rdb *redis.Client) (total time.Duration) {
	for line := range strings.Lines(rdb.Info(ctx, "cpu").Val()) {
		for _, field := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), field); ok {
				seconds, _ := strconv.ParseFloat(v, 64)
				total += time.Duration(seconds * float64(time.Second))
			}
		}
	}
	return total
}

func version(ctx context.Context, rdb *redis.Client) string {
	for line := range strings.Lines(rdb.Info(ctx, "server").Val()) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return "server " + v
		}
	}
	return "server unknown"
}

func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + " " + text[at:]
	}
	return text
}
