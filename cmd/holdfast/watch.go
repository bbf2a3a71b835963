package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/remote"
)

const watchLong = `Prints a line for each grant and each release of the lock NAME as they happen, until a signal
ends it.

The key itself tells the kind of the lock. With several --redis it is the redlock of these masters. Each line has the
time of this machine, the owner, its fencing token, how often it has entered (for a semaphore: how many permits it
has), what is left of its lease, the label of its client if it has one, and how many wait: in the queue, or for kinds without one, how many clients listen. A
replica does not know how many listen; the command says so. --json has a kind. A fair lock has the kind rlock there;
"ls" calls it fairlock while somebody waits, and otherwise lock.
  held, free  the state at the beginning
  granted     an owner has the lock now
  released    an owner does not have it any more: it was unlocked, forced, or its lease has ended
  entered     the owner has entered again, or left once
  handed on   the same owner has a new token: its client hands the lock on among its goroutines
  missed      it was granted, and is free again; not for a redlock, where a token may come from an attempt that failed
  unlocked    the owner has unlocked, and the lock stays taken for the rest of HoldAtLeast
  counted     a latch: COUNT is what is left
The line of an election ends with what the leader says of itself.

The command looks at the lock when a release is announced, a few times soon after that, when a lease ends, and at least
every --every, but never more than fifty times a second. Nothing announces a grant. So the command can miss a grant
that is given back between two looks, hand-offs among the goroutines of one process, a re-entry that ends at once, and
readers that read beside others for a moment. The token grows with every grant. So it shows that the command missed
something, but not how much.

The command changes nothing. But in a Cluster of Redis 7 or later it listens as a waiter does. So a lock that
goroutines hand on among themselves goes back to the server every 10 ms meanwhile.

Exit codes:
  0      a signal ended it
  64     bad flag or argument
  69     Redis did not answer at the beginning; later, the command waits for it
  125    Redis lets nobody in, or something other than a lock has the name

` + redisForms

// watchConfig is what the flags of "watch" amount to.
type watchConfig struct {
	connection
	name  string
	every span
	json  bool
}

func newWatch() *cobra.Command {
	c := watchConfig{every: span{time.Second, 100 * time.Millisecond, "1s or 500ms"}}
	cmd := &cobra.Command{
		Use:   "watch NAME",
		Short: "Print grants and releases of a lock as they happen",
		Long:  watchLong,
		Example: `  holdfast watch nightly-report
  holdfast watch --json orders:42 |
    jq -r 'select(.event == "granted") | .owner'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail(exitUsage, `"holdfast watch" takes the name of one lock, and got %d; as in "holdfast watch nightly-report"`, len(args))
			}
			if err := keys.Check(args[0]); err != nil {
				return failure{exitUsage, err}
			}
			return noAddress(args[0])
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			return watch(c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.Var(&c.every, "every", "how often to look at least")
	f.BoolVar(&c.json, "json", false, "a JSON document in each line")
	c.connection.addTo(cmd)
	return cmd
}

// watcher is one "holdfast watch".
type watcher struct {
	watchConfig
	rdbs    []redis.UniversalClient
	clients []*holdfast.Client
	beside  []*beside // what asks each server for what the states of the kinds do not tell
	blind   bool      // this user may not ask that
	stderr  io.Writer
	print   func(event) error
	counted bool // we are one of those who listen, for who counts them
	replica bool // the server is one, and does not know who listens
	silent  bool // Redis did not answer when it was asked last
	kind    string
	labels  map[string]string // by client
}

func watch(c watchConfig, stdout, stderr io.Writer) error {
	ctx, stop := untilSignal()
	defer stop()
	w := &watcher{watchConfig: c, stderr: stderr, print: lines(stdout)}
	if c.json {
		w.print = func(e event) error { return printable.JSON(stdout, e, "") }
	}
	var err error
	if w.rdbs, err = c.all(); err != nil {
		return err
	}
	defer closeAll(w.rdbs)
	defer closeAtSignal(ctx, w.rdbs)()
	for _, rdb := range w.rdbs {
		client, err := holdfast.New(rdb, &holdfast.Options{RetryBudget: time.Second, Logger: silent}) // it asks again by itself
		if err != nil {
			return failure{exitHoldfast, err}
		}
		defer func() { _ = client.Close(context.WithoutCancel(ctx)) }() // it holds nothing
		w.clients = append(w.clients, client)
	}
	if err = c.reach(ctx, w.rdbs); err == nil {
		if w.replica = len(w.rdbs) == 1 && inspect.IsReplica(ctx, w.rdbs[0]); w.replica {
			warn(stderr, onReplica)
		}
		err = w.run(ctx)
	}
	var sig signalled
	if errors.As(context.Cause(ctx), &sig) {
		return nil // it is how this command ends
	}
	return c.explain(err)
}

const (
	// soonest is the pause between two looks: however fast a lock changes hands, the server is asked
	// fifty times a second.
	soonest = 20 * time.Millisecond
	// eager is how many looks follow a change or a message, each after twice the pause of the one
	// before: who takes a lock that was released does so soon, and without a word.
	eager = 6
)

// run looks and prints until the context ends.
func (w *watcher) run(ctx context.Context) error {
	if _, err := w.look(ctx); err != nil && !w.outage(err) {
		return err // before anything else can fail for the same reason
	}
	wake := make(chan struct{}, 1) // one is enough: the next look sees all that happened before it
	stop := w.listen(ctx, wake)
	defer stop()
	var before *sight
	soon := eager // the looks since something happened
	for {
		now, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !w.outage(err):
			return err
		case err == nil:
			w.outage(nil)
			changes := between(before, now)
			for _, e := range changes {
				e.Name, e.Bytes, e.Label = w.name, bytesOf(w.name), w.labelOf(ctx, e.Owner)
				if err := w.print(e); err != nil {
					return failure{exitHoldfast, err}
				}
			}
			if before != nil && len(changes) > 0 {
				soon = 0
			}
			before = now
		}
		woken, err := w.rest(ctx, wake, w.pause(before, soon))
		if err != nil {
			return err
		}
		if soon++; woken {
			soon = 0
		}
	}
}

// mostLabels is how many labels are remembered.
const mostLabels = 1000

// labelOf is the label of an owner's client. It is empty if there is none, or none that this user may read. It is read once
// for each client: a client that has none yet, because it writes it a moment after its first grant, is asked again.
func (w *watcher) labelOf(ctx context.Context, owner string) string {
	client := remote.ClientIn(owner)
	if text := w.labels[client]; client == "" || text != "" {
		return text
	}
	ctx, cancel := context.WithTimeout(ctx, labelWithin)
	defer cancel()
	text := w.rdbs[0].Get(ctx, keys.Label(client)).Val() // an outage is noticed by the next look
	if w.labels == nil || len(w.labels) >= mostLabels {
		w.labels = make(map[string]string)
	}
	w.labels[client] = text
	return text
}

// pause is how long the next look can wait.
func (w *watcher) pause(s *sight, soon int) time.Duration {
	d := w.every.Duration
	if soon < eager {
		d = min(d, soonest<<soon)
	}
	if s != nil {
		for _, h := range s.holders {
			if h.Remaining > 0 {
				d = min(d, h.Remaining+time.Millisecond)
			}
		}
	}
	return max(d, soonest)
}

// rest waits for a message, but for soonest at least and for d at most.
func (w *watcher) rest(ctx context.Context, wake <-chan struct{}, d time.Duration) (woken bool, err error) {
	timer := time.NewTimer(soonest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	timer.Reset(d - soonest)
	select {
	case <-wake:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// outage tells of the beginning and the end of one, once. It reports whether err is one.
func (w *watcher) outage(err error) bool {
	var reply redis.Error
	var lock *holdfast.Error
	var known failure
	if err == nil {
		if w.silent {
			warn(w.stderr, "Redis answers again; what happened meanwhile was missed")
		}
		w.silent = false
		return false
	}
	if errors.As(err, &known) || !errors.Is(err, holdfast.ErrUnavailable) && (errors.As(err, &reply) || errors.As(err,
		&lock)) {
		return false
	}
	if !w.silent {
		warn(w.stderr, "no answer from Redis at %s: %v; waiting for it", &w.connection, err)
	}
	w.silent = true
	return true
}
