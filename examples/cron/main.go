// Command cron runs a job once per period, although it runs on several machines: whichever comes first, and
// the next one if the job fails there. Start it on each of them; PERIOD (default 1m) is the same everywhere, MACHINE is only for the output.
//
//	PERIOD=5s MACHINE=a go run ./examples/cron
//	PERIOD=5s MACHINE=b FAIL=1 go run ./examples/cron
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// stays is for how many periods the lock of a period stays taken. A machine whose clock is behind, or which
// was busy, may come so late and still does not run the job again.
const stays = 10

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	period, err := time.ParseDuration(cmp.Or(os.Getenv("PERIOD"), "1m"))
	if err != nil {
		return err
	}
	logging.Disable() // during an outage go-redis would write to stderr; the errors say what is the matter
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")})
	defer rdb.Close()
	// If Redis is away at the time of a run, the client tries again for half of the period, at most a minute.
	client, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: min(period/2, time.Minute)})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())

	for {
		next := time.Now().Truncate(period).Add(period)
		fmt.Fprintln(os.Stderr, "next run:", next.Format(time.TimeOnly))
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return nil
		}
		if err := once(ctx, client, next, period); err != nil && ctx.Err() == nil {
			log.Printf("the run of %s: %v", next.Format(time.TimeOnly), err) // and on to the next period
		}
	}
}

// once runs the job of a period, unless another machine does or did.
func once(ctx context.Context, client *holdfast.Client, at time.Time, period time.Duration) error {
	// Each period has a lock of its own. A job that takes longer than a period runs beside the next one; with
	// one name for all periods the next one would be left out.
	name := "nightly-report:" + strconv.FormatInt(at.UnixMilli(), 10)
	// HoldAtLeast keeps the lock taken when the job has long been done, and ReleaseOnError gives it back if the job
	// failed: then a machine that still waits tries. If the job is done, they wait in vain.
	err := holdfast.Do(ctx, rlock.New(client, name), func(ctx context.Context) error {
		return report(ctx, at)
	}, holdfast.HoldAtLeast(stays*period), holdfast.ReleaseOnError(), holdfast.Wait(period/2))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return nil // another machine does it, or did
	}
	return err
}

// report is the job. Its context ends if the lock is lost, or the process is told to end. With FAIL it fails.
func report(ctx context.Context, at time.Time) error {
	machine := cmp.Or(os.Getenv("MACHINE"), "this machine")
	if os.Getenv("FAIL") != "" {
		fmt.Printf("%s: no report of %d\n", machine, at.UnixMilli())
		return errors.New("out of paper")
	}
	fmt.Printf("%s: report of %d\n", machine, at.UnixMilli())
	return ctx.Err()
}
