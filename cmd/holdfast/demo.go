package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

// paceEnv names an environment variable with a factor for the leases of the demo and for the delays
// that it accepts. It is for tests on busy machines.
const paceEnv = "HOLDFAST_DEMO_PACE"

func pace() time.Duration {
	n, _ := strconv.Atoi(os.Getenv(paceEnv))
	return time.Duration(max(n, 1))
}

// demoLease is short, so that a dead holder delays the demo little. demoHolding is longer than two
// leases.
func demoLease() time.Duration   { return pace() * 900 * time.Millisecond }
func demoHolding() time.Duration { return pace() * 2 * time.Second }

// leftoverTTL is the time to live of the demo's own data, in case the demo cannot delete it.
const leftoverTTL = time.Minute

const demoLong = `Shows each kind of lock at work, in about fifteen seconds. Worker processes compete for the locks, and the demo kills
some of them. It shows re-entry, renewal, hand-over, the death and the loss of a holder, fencing tokens, and each other kind,
up to a lock of five masters. The demo checks everything that it shows.

It needs nothing. It starts redis-server or valkey-server if one is on the PATH ($HOLDFAST_REDIS_SERVER names another
one). Otherwise it emulates Redis inside this process. It always starts the five masters itself and kills three of them;
an emulated one it closes. The demo deletes its keys, and ends its processes and servers.

Exit codes:
  0      all checks passed
  1      a check failed: see the lines that say FAILED
  64     bad flag or argument
  69     the server of --redis did not answer
  125    the demo could not run, for example because the server of --redis refuses the password
  128+n  ended by signal n

` + redisForms

func newDemo() *cobra.Command {
	var given []address
	var emulate bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show each kind of lock at work, and check it",
		Long:  demoLong,
		Example: `  holdfast demo

  # on a server of yours; its keys are deleted afterwards
  holdfast demo --redis redis://127.0.0.1:6379`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if emulate && len(given) > 0 {
				return fail(exitUsage, "--emulation and --redis exclude each other; leave one out")
			}
			if len(given) > 1 {
				return fail(exitUsage, "--redis has %d servers, and the demo starts five masters itself; give one", len(given))
			}
			return demo(given, emulate, cmd.OutOrStdout())
		},
	}
	cmd.Flags().Var(&addressFlag{all: &given}, "redis", "run on this server, given as a `URL`, instead of a private one; five masters are private")
	cmd.Flags().BoolVar(&emulate, "emulation", false, "use the emulation even if there is a redis-server")
	return cmd
}

// demo runs the demo and cleans up, also when a signal ends it.
func demo(given []address, emulate bool, stdout io.Writer) (err error) {
	ctx, stop := untilSignal()
	defer stop()
	srv := &server{stop: func() {}}
	if len(given) > 0 {
		srv.address = given[0]
	} else {
		why := ""
		if emulate {
			why = "as asked"
		}
		if srv, err = startServer(ctx, why); err != nil {
			return failure{exitHoldfast, err}
		}
	}
	defer srv.stop()
	rdb, err := srv.address.open(nil)
	if err != nil {
		return err
	}
	defer rdb.Close()
	if len(given) > 0 {
		c := connection{addresses: given}
		if err := c.reach(ctx, []redis.UniversalClient{rdb}); err != nil {
			return err
		}
		if srv.about, err = identify(ctx, rdb); err != nil {
			return c.explain(cause(ctx, err))
		}
		srv.about += " at " + srv.address.String()
	}
	return onServer(ctx, srv, rdb, newScreen(stdout))
}

// onServer runs the demo on a server that answers.
func onServer(ctx context.Context, srv *server, rdb redis.UniversalClient, scr *screen) error {
	client, err := holdfast.New(rdb, &holdfast.Options{Logger: silent, Label: holdfast.NoLabel})
	if err != nil {
		return failure{exitHoldfast, err}
	}
	// All names have this hash tag, so that a cluster keeps the store beside the locks.
	tag := "{" + rand.Text()[:8] + "}"
	d := newDemoRun(ctx, srv, rdb, client, scr, tag)
	defer func() {
		d.cleanUp()
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		_ = client.Close(ctx) // it holds nothing; its connections end with rdb
	}()
	d.title("Holdfast: eight kinds of lock, six processes")
	d.note("on %s", srv.about)
	err = d.tell(scenes)
	var sig signalled
	switch {
	case errors.As(context.Cause(ctx), &sig):
		return sig
	case err != nil:
		d.check("the demo cannot go on", false, "%v", err)
	}
	if !d.verdict() {
		return exited(exitFailed)
	}
	return nil
}

// cleanUp ends the remaining workers and the masters, and deletes the keys.
func (d *demoRun) cleanUp() {
	for _, w := range d.workers {
		w.kill()
	}
	for _, m := range d.masters {
		_ = m.rdb.Close() // an error helps nobody
		m.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	_ = d.rdb.Del(ctx, d.keys()...).Err() // if it fails, the keys still have a time to live
}
