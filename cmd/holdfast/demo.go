package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/rlock"
)

// paceEnv names the environment variable that makes the demo so many times slower: its leases, and
// how late something may be. It is for tests, on machines that do much else at the same time.
const paceEnv = "HOLDFAST_DEMO_PACE"

func pace() time.Duration {
	n, _ := strconv.Atoi(os.Getenv(paceEnv))
	return time.Duration(max(n, 1))
}

// demoLease is short, so that nobody waits long for a dead holder. demoHolding is longer than two of
// them.
func demoLease() time.Duration   { return pace() * 900 * time.Millisecond }
func demoHolding() time.Duration { return pace() * 2 * time.Second }

const leftoverTTL = time.Minute // of what the demo itself writes, in case it cannot delete it

const demoLong = `Shows in some twelve seconds what the library does: re-entry, renewal, hand-over, take-over from a killed process, loss,
fencing, a queue, and then a few lines for each other kind of lock, up to one of five masters. Worker processes compete
for these locks, and some are killed. Everything shown is checked.

It needs nothing: it starts redis-server or valkey-server if one is on the PATH ($HOLDFAST_REDIS_SERVER names another
one), and else an emulation inside this process. The five masters are always its own; to be killed is, for an emulation,
to be closed. (One that came back without its data would not vote for as long as a lease.) Nothing is left behind.

Exit codes:
  0      everything was as it should be
  1      something was not: see the lines that say FAILED
  64     bad flag or argument
  125    the demo could not run, for example because the server of --redis does not answer
  128+n  ended by signal n

` + redisForms

func newDemo() *cobra.Command {
	var given []address
	var emulate bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole story on one page, and check it",
		Long:  demoLong,
		Example: `  holdfast demo
  holdfast demo --redis redis://127.0.0.1:6379    # on a server of yours; its keys are deleted afterwards`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if emulate && len(given) > 0 {
				return fail(exitUsage, "--emulation and --redis exclude each other; leave one out")
			}
			return demo(given, emulate, cmd.OutOrStdout())
		},
	}
	cmd.Flags().Var(&addressFlag{all: &given}, "redis", "run on this server, given as a `URL`, instead of a private one; five masters are private")
	cmd.Flags().BoolVar(&emulate, "emulation", false, "use the emulation even if there is a redis-server")
	return cmd
}

// demo runs the story and cleans up, also when a signal ends it.
func demo(given []address, emulate bool, stdout io.Writer) (err error) {
	ctx, stop := untilSignal()
	defer stop()
	srv := &server{stop: func() {}}
	if n := len(given); n > 0 {
		srv.address = given[n-1]
	} else {
		if srv, err = startServer(ctx, emulate); err != nil {
			return couldNot(err)
		}
	}
	defer srv.stop()
	rdb, err := srv.address.open(nil)
	if err != nil {
		return err
	}
	defer rdb.Close()
	if len(given) > 0 {
		if srv.about, err = identify(ctx, rdb); err != nil {
			return couldNot(fmt.Errorf("no answer from Redis at %s: %w; is it running?", srv.address, err))
		}
		srv.about += " at " + srv.address.String()
	}
	return onServer(ctx, srv, rdb, newScreen(stdout))
}

// onServer tells the story on a server that answers.
func onServer(ctx context.Context, srv *server, rdb redis.UniversalClient, scr *screen) error {
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return couldNot(err)
	}
	// A hash tag in the name, so that the store is in the same slot of a cluster.
	tag := "{" + rand.Text()[:8] + "}"
	s := &story{
		screen: scr, rdb: rdb, began: time.Now(), emulate: srv.emulated,
		start: order{Op: "start", Redis: srv.address.reveal(), Name: "demo-lock:" + tag, Store: "demo-store:" + tag,
			Lease: demoLease()},
	}
	s.mutex, s.queue = rlock.New(client, s.start.Name), fairlock.New(client, fairName(s.start.Name))
	s.client, s.kin = client, newFamily(client, s.start.Name)
	s.calls.prefix = keys.ForLatch(s.kin.latch.Name()).Call("")
	rdb.AddHook(&s.calls)
	defer func() {
		s.cleanUp()
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		_ = client.Close(ctx) // it holds nothing; its connections end with rdb
	}()
	scr.title("Holdfast: eight kinds of lock, seven processes")
	scr.note("on " + srv.about)
	err = s.tell(ctx)
	var sig signalled
	switch {
	case errors.As(context.Cause(ctx), &sig):
		return sig
	case err != nil:
		scr.check(false, "the demo cannot go on", "%v", err)
	}
	if !scr.verdict(time.Since(s.began)) {
		return exited(exitFailed)
	}
	return nil
}

// cleanUp ends the workers that are left and the masters, and deletes the keys.
func (s *story) cleanUp() {
	for _, m := range s.crew {
		m.kill()
	}
	stopMasters(s.masters)
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	_ = s.deleteKeys(ctx) // on the demo's own server it does not matter, and elsewhere they have a time to live
}

func (s *story) deleteKeys(ctx context.Context) error {
	return s.rdb.Del(ctx, s.keys()...).Err()
}

// keys are all that the demo may leave in Redis.
func (s *story) keys() []string {
	plain, fair := keys.For(s.start.Name), keys.For(fairName(s.start.Name))
	all := append([]string{plain.Name, plain.Token, plain.Channel, s.start.Store, keys.Fence(s.start.Store), fair.Name,
		fair.Token, fair.Queue, fair.Deadlines, insideKey(s.start.Store, permits), insideKey(s.start.Store, both)},
		s.kin.keys()...)
	return append(all, s.calls.keys()...)
}

func couldNot(err error) error {
	var f failure
	var sig signalled
	if errors.As(err, &f) || errors.As(err, &sig) {
		return err
	}
	return failure{exitHoldfast, err}
}

// untilSignal is a context that ends with the cause signalled. stop joins its goroutine.
func untilSignal() (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			cancel(signalled{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-done
	}
}
