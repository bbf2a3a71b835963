// Command worker takes locks, as the tests of package versions tell it. It is built of this tree and, from
// the same text, of an earlier one. So it uses only what both have.
//
//	worker ADDRESS KIND NAME LEASE hold          takes the lock, and says so. For a line of input it gives it
//	                                             back, and for another one it begins again. If it loses the
//	                                             lock it says until when it trusted it, by the clock, in us.
//	worker ADDRESS KIND NAME LEASE storm ROUNDS  takes it so many times, and looks whether it is alone.
//	worker ADDRESS latch NAME LEASE ask          does what each line of input says: "set 3", "count", "wait".
//
// ADDRESS is that of a server. A redlock takes several, with commas between them.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// patience is for how long Redis need not answer.
const patience = time.Minute

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 5 {
		return errors.New("five arguments; see the comment of the program")
	}
	lease, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	var masters []*redis.Client
	var clients []*holdfast.Client
	defer func() { // the first one has the holds
		for i, c := range clients {
			_ = c.Close(ctx)
			_ = masters[i].Close()
		}
	}()
	for addr := range strings.SplitSeq(args[0], ",") {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		client, err := holdfast.New(rdb, &holdfast.Options{Lease: lease, RetryBudget: patience, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		masters, clients = append(masters, rdb), append(clients, client)
	}
	if args[1] == "latch" {
		return count(ctx, latch.New(clients[0], args[2]))
	}
	lock := locker(clients, args[1], args[2])
	if args[4] == "storm" {
		rounds, err := strconv.Atoi(args[5])
		if err != nil {
			return err
		}
		return storm(ctx, masters[0], lock, args[1], args[2], rounds)
	}
	for input := bufio.NewScanner(os.Stdin); ; {
		hold, err := lock(ctx, 0)
		if errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrLost) {
			continue // a busy machine, or a server that is paused by the test
		}
		if err != nil {
			return err
		}
		fmt.Println("held", hold.Token(), hold.Owner())
		context.AfterFunc(hold.Context(), func() {
			if errors.Is(context.Cause(hold.Context()), holdfast.ErrLost) {
				fmt.Println("lost", hold.Deadline().UnixMicro())
			}
		})
		more := input.Scan()
		if err := hold.Unlock(ctx); err != nil || !more {
			return err
		}
		fmt.Println("free")
		if !input.Scan() {
			return nil
		}
	}
}

// taking takes a lock for a round: of a read-write lock another one each time.
type taking func(ctx context.Context, round int) (*holdfast.Hold, error)

func locker(clients []*holdfast.Client, kind, name string) taking {
	c := clients[0]
	lock := func(l holdfast.Locker) taking {
		return func(ctx context.Context, _ int) (*holdfast.Hold, error) { return l.Lock(ctx) }
	}
	switch kind {
	case "fairlock":
		return lock(fairlock.New(c, name))
	case "keep":
		return lock(rlock.New(c, name, rlock.Keep(time.Second)))
	case "multilock":
		return lock(multilock.New(rlock.New(c, name), fairlock.New(c, name+":fair")))
	case "redlock":
		return lock(redlock.New(clients, name))
	case "semaphore":
		return lock(semaphore.New(c, name, 1))
	case "election":
		e := election.New(c, name)
		return func(ctx context.Context, _ int) (*holdfast.Hold, error) { return e.Campaign(ctx, "worker") }
	case "rwlock":
		l := rwlock.New(c, name)
		return func(ctx context.Context, round int) (*holdfast.Hold, error) {
			if reads(kind, round) {
				return l.RLocker().Lock(ctx)
			}
			return l.Lock(ctx)
		}
	default:
		return lock(rlock.New(c, name))
	}
}

func reads(kind string, round int) bool { return kind == "rwlock" && round%2 == 1 }

// storm: who writes is alone, and nobody writes while others read. What is counted is in Redis, under names that no lock has.
func storm(ctx context.Context, rdb *redis.Client, lock taking, kind, name string, rounds int) error {
	const writing, reading = "inside:writing", "inside:reading"
	for round := range rounds {
		hold, err := lock(ctx, round)
		if err != nil {
			return err
		}
		mine, others, most := writing, reading, int64(1)
		if reads(kind, round) {
			mine, others, most = reading, writing, 1000
		}
		in, err := rdb.Incr(ctx, mine).Result()
		if err != nil {
			return err
		}
		n, err := rdb.Get(ctx, others).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if in > most || n > 0 {
			return fmt.Errorf("not alone under %s of kind %s: %d inside, %d of the others", name, kind, in, n)
		}
		if err := rdb.Decr(ctx, mine).Err(); err != nil {
			return err
		}
		fmt.Println(hold.Token())
		if err := hold.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// count does with a latch what it is told.
func count(ctx context.Context, l *latch.Latch) error {
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		var err error
		switch word, n, _ := strings.Cut(input.Text(), " "); word {
		case "set":
			var of int
			var done bool
			if of, err = strconv.Atoi(n); err == nil {
				done, err = l.Set(ctx, of)
				fmt.Println("set", done)
			}
		case "count":
			var left int
			if left, err = l.CountDown(ctx); err == nil {
				fmt.Println("left", left)
			}
		case "wait":
			if err = l.Wait(ctx); err == nil {
				fmt.Println("open")
			}
		default:
			err = errors.New("what is " + word + "?")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
