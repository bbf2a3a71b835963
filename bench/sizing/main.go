//go:build unix

// Command sizing measures what holds and waiters that last cost a server, and the process that has
// them: memory, scripts, processor time, connections.
//
//	redis-server --port 7777 --save "" &
//	go run ./bench/sizing -server 127.0.0.1:7777       # FLUSHES that server
//
// It takes many names with one, ten and a hundred clients, and watches the watchdogs renew them; then
// it lets goroutines wait for names that another client holds. What is said of the server is counted
// by the server itself, and shares of a core are processor time, so other work on the machine changes
// the figures little. All clients are in this one process.
//
// Not promised: that the figures of another machine are the same. What taking and releasing costs is
// the benchmark's affair; here nothing is taken and released while it measures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// settings are what the flags say.
type settings struct {
	server  string
	holds   int
	waiters int
	lease   time.Duration
	window  time.Duration // for how long each case is watched
	clients []int         // of holds, a case each
	crowds  []crowd       // of waiters, the same
}

// crowd is how waiters are spread: over names that are held, and over clients.
type crowd struct {
	fair           bool
	names, clients int
}

func main() {
	s := settings{
		clients: []int{1, 10, 100},
		crowds:  []crowd{{false, 1, 10}, {false, 100, 10}, {false, 100, 100}, {true, 1, 10}, {true, 100, 10}, {true, 100, 100}},
	}
	flag.StringVar(&s.server, "server", "", "`host:port` of a Redis server, which is FLUSHED")
	flag.IntVar(&s.holds, "holds", 100_000, "how many names are held; 0: leave this out")
	flag.IntVar(&s.waiters, "waiters", 10_000, "how many goroutines wait; 0: leave this out")
	flag.Func("clients", "of holds, a case for each (default 1,10,100)", func(list string) error {
		s.clients = nil
		for one := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(one)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number of clients", one)
			}
			s.clients = append(s.clients, n)
		}
		return nil
	})
	flag.DurationVar(&s.lease, "lease", holdfast.DefaultLease, "of all holds")
	flag.DurationVar(&s.window, "window", 0, "for how long each case is watched (default: a lease, in which each hold is renewed three times)")
	flag.Parse()
	if s.window == 0 {
		s.window = s.lease
	}
	if s.server == "" || s.holds < 0 || s.waiters < 0 || s.lease <= 0 || s.window <= 0 {
		fmt.Fprintln(os.Stderr, "sizing: -server is missing (name one that may be flushed), or another flag is negative or no time")
		os.Exit(64)
	}
	if err := run(context.Background(), s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sizing:", err)
		os.Exit(1)
	}
}

// run measures each case and writes the tables.
func run(ctx context.Context, s settings, out io.Writer) error {
	admin := redis.NewClient(&redis.Options{Addr: s.server, ReadTimeout: time.Minute})
	defer admin.Close()
	info, err := admin.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Redis %s, lease %v, each case watched for %v\n\n", field(info, "redis_version"), s.lease, s.window)
	if s.holds > 0 {
		if err := runHolds(ctx, s, admin, out); err != nil {
			return err
		}
	}
	if s.waiters > 0 {
		return runWaiters(ctx, s, admin, out)
	}
	return nil
}

func runHolds(ctx context.Context, s settings, admin *redis.Client, out io.Writer) error {
	fmt.Fprintf(out, "| %d holds, of clients | keys each | server's memory each | of it hash, token | %s |\n", s.holds, columns)
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, n := range s.clients {
		m, err := holding(ctx, s, admin, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %d | %.1f | %.0f B | %d, %d B | %s |\n", n, m.keys, m.memory, m.hash, m.token, m)
	}
	return nil
}

func runWaiters(ctx context.Context, s settings, admin *redis.Client, out io.Writer) error {
	fmt.Fprintf(out, "\n| %d waiters | names, clients | subscriptions | server's memory each | %s |\n", s.waiters, columns)
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, c := range s.crowds {
		m, err := waiting(ctx, s, admin, c)
		if err != nil {
			return err
		}
		kind := "`rlock`"
		if c.fair {
			kind = "`fairlock`"
		}
		fmt.Fprintf(out, "| %s | %d, %d | %d | %.0f B | %s |\n", kind, c.names, c.clients, m.subscriptions, m.memory, m)
	}
	return nil
}

// team is clients in this process, each with connections of its own, as if it were a service.
type team struct {
	clients []*holdfast.Client
	rdbs    []*redis.Client
}

func newTeam(s settings, n int) (t *team, err error) {
	t = &team{}
	for range n {
		rdb := redis.NewClient(&redis.Options{Addr: s.server})
		c, err := holdfast.New(rdb, &holdfast.Options{Lease: s.lease, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, errors.Join(err, rdb.Close(), t.close())
		}
		t.clients, t.rdbs = append(t.clients, c), append(t.rdbs, rdb)
	}
	return t, nil
}

// close gives back what the clients hold.
func (t *team) close() (err error) {
	for i, c := range t.clients {
		err = errors.Join(err, c.Close(context.Background()), t.rdbs[i].Close())
	}
	return err
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
