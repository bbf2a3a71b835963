//go:build unix

package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// columns are what a [measured] prints.
const columns = "scripts/s | time of a script | commands/s | server's share of a core | sent/s | connections | heap and stacks each | goroutines | clients' share of a core"

// measured is what a case cost while it was watched.
type measured struct {
	memory        float64 // bytes of the server for each, without those of connections
	keys          float64 // for each
	hash, token   int64   // bytes, by MEMORY USAGE
	subscriptions int64

	scripts, commands float64 // per second; commands are also those that scripts call
	script            time.Duration
	server, own       float64 // shares of a core
	output            float64 // bytes per second
	connections       int
	heap              float64 // bytes for each
	goroutines        int
}

func (m measured) String() string {
	return fmt.Sprintf("%.1f | %v | %.0f | %.2f %% | %.1f kB | %d | %.0f B | %d | %.2f %%", m.scripts, m.script.Round(time.Microsecond),
		m.commands, 100*m.server, m.output/1000, m.connections, m.heap, m.goroutines, 100*m.own)
}

// counters are of the server and of this process, so far.
type counters struct {
	at                         time.Time
	memory, commands, output   float64
	scripts, scriptTime        float64 // microseconds
	server, own                time.Duration
	keys, connections, routine int
	heap                       float64
}

// look reads them. The heap is looked at after a collection, which is not counted as processor time
// of what is watched if it is done outside the window.
func look(ctx context.Context, rdb *redis.Client, collect bool) (c counters, err error) {
	if collect {
		c.heap = memory()
	}
	info, err := rdb.InfoMap(ctx, "memory", "stats", "clients", "cpu", "commandstats").Result()
	if err != nil {
		return c, err
	}
	all := make(map[string]string)
	for _, section := range info {
		for name, value := range section {
			all[name] = value
		}
	}
	number := func(name string) float64 {
		n, e := strconv.ParseFloat(all[name], 64)
		if e != nil && err == nil {
			err = fmt.Errorf("INFO has no number %s: %w", name, e)
		}
		return n
	}
	// What connections take is left out: how many there are depends on how hastily the names were taken.
	c.memory = number("used_memory") - number("mem_clients_normal")
	c.commands, c.output = number("total_commands_processed"), number("total_net_output_bytes")
	c.connections = int(number("connected_clients")) - 1 // this one
	c.server = time.Duration((number("used_cpu_user") + number("used_cpu_sys")) * float64(time.Second))
	for _, name := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro"} {
		for value := range strings.SplitSeq(all["cmdstat_"+name], ",") {
			key, text, _ := strings.Cut(value, "=")
			n, _ := strconv.ParseFloat(text, 64) // absent: none was run
			switch key {
			case "calls":
				c.scripts += n
			case "usec":
				c.scriptTime += n
			}
		}
	}
	if err != nil {
		return c, err
	}
	keys, err := rdb.DBSize(ctx).Result()
	c.at, c.own, c.keys, c.routine = time.Now(), ownProcessor(), int(keys), runtime.NumGoroutine()
	return c, err
}

// watch measures what happens in a window. empty is what there was before; n is how many holds or
// waiters have come since.
func watch(ctx context.Context, rdb *redis.Client, empty counters, n int, window time.Duration) (m measured, err error) {
	before, err := look(ctx, rdb, true)
	if err != nil {
		return m, err
	}
	before.own = ownProcessor()
	if err := pause(ctx, window); err != nil {
		return m, err
	}
	after, err := look(ctx, rdb, false)
	if err != nil {
		return m, err
	}
	each, took := float64(n), after.at.Sub(before.at)
	per := func(amount float64) float64 { return amount / took.Seconds() }
	m = measured{
		memory: (before.memory - empty.memory) / each, keys: float64(before.keys-empty.keys) / each,
		scripts: per(after.scripts - before.scripts), commands: per(after.commands - before.commands),
		server: per((after.server - before.server).Seconds()), own: per((after.own - before.own).Seconds()),
		output: per(after.output - before.output), connections: after.connections,
		heap: (before.heap - empty.heap) / each, goroutines: after.routine,
	}
	if calls := after.scripts - before.scripts; calls > 0 {
		m.script = time.Duration((after.scriptTime - before.scriptTime) / calls * float64(time.Microsecond))
	}
	return m, nil
}

// memory is what the heap and the stacks take, after a collection.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what a finaliser of the first one freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// ownProcessor is the processor time that this program has used.
func ownProcessor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// field is what stands behind "name:" in an answer to INFO; empty if nothing does.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
