package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// workerCommand is the hidden subcommand that the demo starts itself with.
const workerCommand = "demo-worker"

// order is a line that the demo writes to a worker.
type order struct {
	Op string // start, try, lock, unlock, look, write, queue; of the family: take, give, crowd, await, awake

	// of "start"
	Redis, Name, Store string
	Lease              time.Duration // of "take" too, there of those who are to die
	Masters            []string      // in place of Redis: the lock is one of a quorum
	Emulated           bool          // they cannot tell since when they run

	Value string // of "write"; of "take": what a leader says of itself

	// of the family
	Lock      string // see toRead and the others
	N, Rounds int    // permits, or goroutines and how often each of them takes the lock
	Once      bool   // do not wait
	Stranger  bool   // under an owner that holds nothing
}

// result is a line that a worker writes to the demo: the answer to an order, or "lost", "served" or
// "opened", which come by themselves. Times are those of the machine's clock, because the processes compare
// them.
type result struct {
	Op      string
	Began   time.Time // when the order was begun
	Ended   time.Time
	Trusted time.Time // of "look" and "lost": until when without another word from Redis
	Owner   string
	Token   uint64
	Count   int
	Most    int    // of "crowd": how many were inside at once
	Seen    uint64 // the token for which a write was refused
	Refusal string // not acquired, lost, stale; other errors are only in Error
	Error   string
}

// worker is the process that does what it is told with one lock.
type worker struct {
	rdbs    []redis.UniversalClient
	clients []*holdfast.Client // of the same; several if the lock is one of a quorum
	mutex   holdfast.Locker
	fair    *fairlock.Mutex
	kin     kin
	store   string
	guard   *fence.Redis
	holds   []*holdfast.Hold // the innermost last
	late    context.Context  // of the last grant; goes on when that is over, as a paused process would

	mu      sync.Mutex // guards out
	out     *json.Encoder
	watches sync.WaitGroup // goroutines that wait for the loss of a hold, in the queue of the fair lock, or for the latch
}

func newWorker() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand,
		Short:  "A worker process of the demo",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C is the demo's business: it ends its workers, and this one when its input ends.
			signal.Notify(make(chan os.Signal, 1), forwarded()...)
			w := &worker{out: json.NewEncoder(cmd.OutOrStdout())}
			err := w.serve(json.NewDecoder(os.Stdin))
			return errors.Join(err, w.close())
		},
	}
}

// serve obeys orders until there are no more.
func (w *worker) serve(in *json.Decoder) error {
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r := result{Op: o.Op, Began: time.Now()}
		err := w.obey(o, &r)
		r.Ended = time.Now()
		r.refuse(err)
		if err := w.tell(r); err != nil {
			return err
		}
	}
}

func (w *worker) obey(o order, r *result) (err error) {
	ctx := context.Background()
	switch o.Op {
	case "start":
		if len(o.Masters) > 0 {
			return w.startQuorum(o)
		}
		return w.start(o)
	case "try", "lock":
		return w.lock(o.Op == "try", r)
	case "unlock":
		last := len(w.holds) - 1
		if last < 0 {
			return errors.New("nothing to unlock")
		}
		h := w.holds[last]
		w.holds = w.holds[:last]
		return h.Unlock(ctx)
	case "look":
		return w.look(r)
	case "queue":
		w.watches.Go(w.queue)
		return nil
	case "write":
		return w.write(o.Value, r)
	case "take":
		return w.take(o, r)
	case "give":
		return w.give(o)
	case "crowd":
		return w.crowd(o, r)
	case "await":
		return w.await(o)
	case "awake":
		r.Count = int(w.kin.awake.Load())
		return nil
	}
	return fmt.Errorf("unknown order %q", o.Op)
}

func (w *worker) start(o order) error {
	if err := w.connect(o.Redis, &holdfast.Options{Lease: o.Lease}); err != nil {
		return err
	}
	client := w.clients[0]
	w.mutex, w.fair, w.store = rlock.New(client, o.Name), fairlock.New(client, fairName(o.Name)), o.Store
	w.guard = fence.NewRedis(w.rdbs[0])
	w.kin.family, w.kin.owner = newFamily(client, o.Name), holdfast.WithOwner(context.Background())
	w.kin.holds = make(map[string]*holdfast.Hold)
	return nil
}

// startQuorum takes a lock that a majority of masters grants. That they do not answer is told soon,
// because the demo shows it, but not so soon that masters of a busy machine seem to be dead.
func (w *worker) startQuorum(o order) error {
	for _, address := range o.Masters {
		if err := w.connect(address, &holdfast.Options{Lease: o.Lease, RetryBudget: quorumLease()}); err != nil {
			return err
		}
	}
	opts := []holdfast.Option{redlock.MasterTimeout(quorumLease() / 6)}
	if o.Emulated {
		opts = append(opts, redlock.TrustRestarts())
	}
	w.mutex = redlock.New(w.clients, o.Name, opts...)
	return nil
}

func (w *worker) connect(address string, opts *holdfast.Options) error {
	rdb, err := connect(address)
	if err != nil {
		return err
	}
	w.rdbs = append(w.rdbs, rdb)
	client, err := holdfast.New(rdb, opts)
	if err != nil {
		return err
	}
	w.clients = append(w.clients, client)
	return nil
}

// look tells how the innermost hold stands.
func (w *worker) look(r *result) error {
	if len(w.holds) == 0 {
		return errors.New("nothing to look at")
	}
	h := w.holds[len(w.holds)-1]
	r.Trusted = h.Deadline()
	return context.Cause(h.Context())
}

// lock locks under the context of the innermost hold, which makes it a re-entry.
func (w *worker) lock(once bool, r *result) error {
	ctx := context.Background()
	if n := len(w.holds); n > 0 {
		ctx = w.holds[n-1].Context()
	}
	lock := w.mutex.Lock
	if once {
		lock = w.mutex.TryLock
	}
	h, err := lock(ctx)
	if err != nil {
		return err
	}
	if len(w.holds) == 0 {
		w.watches.Go(func() { w.watch(h) })
	}
	w.holds, w.late = append(w.holds, h), context.WithoutCancel(h.Context())
	r.Owner, r.Token, r.Count = h.Owner(), h.Token(), h.Count()
	return nil
}

// write writes to the store that the lock protects, whether the lock is still held or not. The
// guard takes the token out of the context. What the demo writes ends by itself, in case nobody can
// delete it.
func (w *worker) write(value string, r *result) error {
	r.Token, _ = fence.Token(w.late)
	_, err := w.guard.Do(w.late, w.store, "SET", value, "PX", leftoverTTL.Milliseconds())
	return errors.Join(err, w.rdbs[0].PExpire(w.late, keys.Fence(w.store), leftoverTTL).Err())
}

// queue waits for the fair lock, gives it back at once and tells the demo.
func (w *worker) queue() {
	r := result{Op: "served", Began: time.Now()}
	h, err := w.fair.Lock(context.Background())
	if err == nil {
		r.Ended, r.Owner, r.Token = time.Now(), h.Owner(), h.Token()
		err = h.Unlock(context.Background())
	}
	r.refuse(err)
	_ = w.tell(r)
}

// fairName is the name of the fair lock beside the other one: its own, because the two kinds share
// the key of a name.
func fairName(name string) string { return name + ":fair" }

// watch tells the demo when a hold is lost.
func (w *worker) watch(h *holdfast.Hold) {
	<-h.Context().Done()
	r := result{Op: "lost", Ended: time.Now(), Trusted: h.Deadline(), Token: h.Token()}
	if cause := context.Cause(h.Context()); errors.Is(cause, holdfast.ErrLost) {
		r.refuse(cause)
		_ = w.tell(r) // the demo finds out by its absence
	}
}

func (w *worker) tell(r result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(r)
}

// close gives back what is held, which ends the watches too.
func (w *worker) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	var errs []error
	for _, c := range w.clients { // the first one has the holds
		errs = append(errs, c.Close(ctx))
	}
	w.watches.Wait()
	for _, rdb := range w.rdbs {
		errs = append(errs, rdb.Close())
	}
	return errors.Join(errs...)
}

func (r *result) refuse(err error) {
	var stale *fence.StaleError
	switch {
	case err == nil:
		return
	case errors.Is(err, holdfast.ErrNotAcquired):
		r.Refusal = "not acquired"
	case errors.Is(err, holdfast.ErrLost):
		r.Refusal = "lock lost"
	case errors.As(err, &stale):
		r.Refusal, r.Seen = "stale token", stale.Last
	}
	r.Error = err.Error()
}

// workerDeath is what the kernel does to a worker whose demo has ended.
const workerDeath = syscall.SIGKILL
