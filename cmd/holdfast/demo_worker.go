package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
)

// workerCommand is the hidden subcommand that the demo starts itself with. Demo and worker speak
// net/rpc over the worker's standard input and output.
const workerCommand = "demo-worker"

// Request is what the demo asks of a worker.
type Request struct {
	Op    string        // start, lock, unlock, look, loss, write, visit or await; see Serve
	Lock  string        // one of the names in demo_run.go
	Once  bool          // do not wait
	N     int           // of "lock": how many permits; of "visit": how often
	Value string        // of "write", and of a leader: what others learn of it
	Lease time.Duration // of "start", and of a lock whose holder the demo will kill

	// of "start"
	Redis       []string // one server; several are the masters of a redlock
	Name, Store string
	Emulated    bool // the masters cannot tell when they were started
}

// Reply is a worker's answer. Its times are of the machine's clock, because the demo compares those
// of several processes.
type Reply struct {
	Began, Ended time.Time // when the worker served the request
	Owner        string
	Token        uint64
	Count        int
	Trusted      time.Time // until when the worker relies on its hold, unless Redis confirms it again
	Inside       int64     // of "visit": how many held the lock at once, at most
	Seen         uint64    // the greater token because of which Redis refused a write
	Refusal      string    // "": none; other errors are errors of the call
}

// What a reply says of a refusal.
const (
	notAcquired = "not acquired"
	lockLost    = "lock lost"
	staleToken  = "stale token"
)

// worker is the process that serves the requests.
type worker struct {
	rdbs    []redis.UniversalClient
	clients []*holdfast.Client // one for each of rdbs
	locks   locks
	lockers map[string]holdfast.Locker
	store   string
	ctx     context.Context // ends with the input
	owner   context.Context // the owner of all that "lock" acquires, so that it can re-enter

	mu    sync.Mutex                  // guards what follows
	holds map[string][]*holdfast.Hold // by lock, the innermost last
	last  context.Context             // of the last hold; it goes on after the loss, as in a process that was paused
}

func newWorker() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand,
		Short:  "A worker process of the demo",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			// The demo handles Ctrl-C: it ends its workers, and this one when its input ends.
			signal.Notify(make(chan os.Signal, 1), forwarded()...)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := &worker{ctx: ctx, owner: holdfast.WithOwner(ctx), holds: make(map[string][]*holdfast.Hold)}
			srv := rpc.NewServer()
			if err := srv.RegisterName("worker", w); err != nil {
				return err
			}
			srv.ServeConn(duplex{input{cancel}, os.Stdout}) // returns after the last request has ended
			return w.close()
		},
	}
}

// duplex is a connection of two pipes.
type duplex struct {
	io.Reader
	io.WriteCloser
}

// input is the standard input. Its end ends the requests that still wait.
type input struct{ ended context.CancelFunc }

// Read reads what the demo sends.
func (i input) Read(p []byte) (int, error) {
	n, err := os.Stdin.Read(p)
	if err != nil {
		i.ended()
	}
	return n, err
}

// close releases all locks.
func (w *worker) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	for i, c := range w.clients { // of a redlock the first client has the holds
		err = errors.Join(err, c.Close(ctx), w.rdbs[i].Close())
	}
	return err
}

// Serve serves a request. The demo waits for the reply to "start" before it sends another one.
func (w *worker) Serve(q Request, r *Reply) (err error) {
	r.Began = time.Now()
	switch q.Op {
	case "start":
		err = w.start(q)
	case "lock":
		err = w.lock(q, r)
	case "unlock", "look", "loss":
		err = w.use(q, r)
	case "write":
		err = w.write(q, r)
	case "visit":
		err = w.visit(q, r)
	case "await":
		err = w.locks.latch.Wait(w.ctx, q.options()...)
	default:
		err = fmt.Errorf("unknown request %q", q.Op)
	}
	r.Ended = time.Now()
	var stale *fence.StaleError
	switch {
	case errors.Is(err, holdfast.ErrNotAcquired):
		r.Refusal = notAcquired
	case errors.Is(err, holdfast.ErrLost):
		r.Refusal = lockLost
	case errors.As(err, &stale):
		r.Refusal, r.Seen = staleToken, stale.Last
	default:
		return err
	}
	return nil
}

// start connects to one server for all kinds of lock, or to the masters of a redlock.
func (w *worker) start(q Request) error {
	for _, address := range q.Redis {
		rdb, err := connect(address)
		if err != nil {
			return err
		}
		client, err := holdfast.New(rdb, &holdfast.Options{Lease: q.Lease, Logger: silent, Label: holdfast.NoLabel}) // a worker that is killed could not delete its label
		if err != nil {
			return errors.Join(err, rdb.Close())
		}
		w.rdbs, w.clients = append(w.rdbs, rdb), append(w.clients, client)
	}
	if len(q.Redis) > 1 {
		// Long enough that a master on a busy machine does not seem dead.
		opts := []holdfast.Option{redlock.MasterTimeout(quorumLease() / 6)}
		if q.Emulated {
			opts = append(opts, redlock.TrustRestarts())
		}
		w.lockers = map[string]holdfast.Locker{quorum: redlock.New(w.clients, q.Name, opts...)}
		return nil
	}
	l := newLocks(w.clients[0], q.Name)
	w.locks, w.store = l, q.Store
	w.lockers = map[string]holdfast.Locker{plain: l.plain, fair: l.fair, reading: l.rw.RLocker(), writing: l.rw,
		permits: l.permits, both: multilock.New(l.x, l.y), bothReversed: multilock.New(l.y, l.x)}
	return nil
}

func (q Request) options() (opts []holdfast.Option) {
	if q.Lease > 0 {
		opts = append(opts, holdfast.Lease(q.Lease))
	}
	if q.Once {
		opts = append(opts, holdfast.Wait(0))
	}
	return opts
}

func (w *worker) acquire(ctx context.Context, q Request) (*holdfast.Hold, error) {
	switch {
	case q.Lock == leadership:
		return w.locks.election.Campaign(ctx, q.Value, q.options()...)
	case q.Lock == permits && q.N > 0:
		return w.locks.permits.Acquire(ctx, q.N, q.options()...)
	}
	return w.lockers[q.Lock].Lock(ctx, q.options()...)
}

// lock acquires a lock and keeps it until "unlock".
func (w *worker) lock(q Request, r *Reply) error {
	h, err := w.acquire(w.owner, q)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds[q.Lock], w.last = append(w.holds[q.Lock], h), context.WithoutCancel(h.Context())
	r.Owner, r.Token, r.Count = h.Owner(), h.Token(), h.Count()
	return nil
}

// use unlocks the innermost hold of a lock, or reports on it: now, or after its end.
func (w *worker) use(q Request, r *Reply) error {
	w.mu.Lock()
	holds := w.holds[q.Lock]
	last := len(holds) - 1
	if last >= 0 && q.Op == "unlock" {
		w.holds[q.Lock] = holds[:last]
	}
	w.mu.Unlock()
	if last < 0 {
		return fmt.Errorf("%s %s: there is no hold", q.Op, q.Lock)
	}
	h := holds[last]
	switch q.Op {
	case "unlock":
		return h.Unlock(w.ctx)
	case "loss":
		<-h.Context().Done()
	}
	r.Token, r.Trusted = h.Token(), h.Deadline()
	return context.Cause(h.Context())
}

// write writes to the store that the lock protects, also after the loss of the lock. The guard
// takes the token from the context. The data ends by itself, in case the demo cannot delete it.
func (w *worker) write(q Request, r *Reply) error {
	w.mu.Lock()
	ctx := w.last
	w.mu.Unlock()
	r.Token, _ = fence.Token(ctx)
	_, err := fence.NewRedis(w.rdbs[0]).Do(ctx, w.store, "SET", q.Value, "PX", leftoverTTL.Milliseconds())
	return errors.Join(err, w.rdbs[0].PExpire(ctx, keys.Fence(w.store), leftoverTTL).Err())
}

// visit acquires and releases a lock again and again, each time as a new owner. It counts the
// visitors in Redis, because they are in several processes.
func (w *worker) visit(q Request, r *Reply) error {
	key := insideKey(w.store)
	for range q.N {
		h, err := w.acquire(w.ctx, Request{Lock: q.Lock, Once: q.Once})
		if err != nil {
			return err
		}
		rdb := w.rdbs[0]
		inside, err := rdb.Incr(w.ctx, key).Result()
		err = errors.Join(err, rdb.PExpire(w.ctx, key, leftoverTTL).Err(), rdb.Decr(w.ctx, key).Err())
		if err = errors.Join(err, h.Unlock(w.ctx)); err != nil {
			return err
		}
		r.Owner, r.Token, r.Count, r.Inside = h.Owner(), h.Token(), r.Count+1, max(r.Inside, inside)
	}
	return nil
}

// replyWithin bounds the wait for each reply. By design the longest wait is that for the lease of a
// killed holder.
func replyWithin() time.Duration { return pace() * 5 * time.Second }

// workerProcess is a worker as the demo sees it.
type workerProcess struct {
	name   string // A, B and so on
	proc   *process
	rpc    *rpc.Client
	killed bool
}

// startWorker starts a worker and waits until it is ready.
func startWorker(ctx context.Context, name string, start Request) (*workerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, workerCommand)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w := &workerProcess{name: name}
	if w.proc, err = launch(cmd, syscall.SIGKILL); err != nil { // the signal comes if the demo ends first
		return nil, err
	}
	w.rpc = rpc.NewClient(duplex{out, in})
	if _, err = w.send(start).wait(ctx); err != nil {
		w.kill()
		return nil, err
	}
	return w, nil
}

// kill ends the worker as a crash does.
func (w *workerProcess) kill() {
	w.killed = true
	w.proc.kill()
	_ = w.rpc.Close() // an error says that it is closed
}

// dismiss lets the worker release its locks and end. A worker that does not is killed. It returns
// whether the worker ended well.
func (w *workerProcess) dismiss(ctx context.Context) bool {
	_ = w.rpc.Close() // an error says that it is closed
	ctx, cancel := context.WithTimeout(ctx, replyWithin())
	defer cancel()
	select {
	case <-w.proc.exited:
	case <-ctx.Done():
	}
	w.kill()
	return w.proc.code() == 0
}

// pid is the number of its process.
func (w *workerProcess) pid() int { return w.proc.cmd.Process.Pid }

// pending is a request whose reply the demo fetches later.
type pending struct {
	to   *workerProcess
	call *rpc.Call
}

// send sends a request. The wait for the reply returns its error.
func (w *workerProcess) send(q Request) pending {
	return pending{w, w.rpc.Go("worker.Serve", q, new(Reply), make(chan *rpc.Call, 1))}
}

// arrived says whether the reply is there.
func (p pending) arrived() bool { return len(p.call.Done) > 0 }

// wait waits for the reply.
func (p pending) wait(ctx context.Context) (Reply, error) {
	late := fmt.Errorf("no reply from worker %s within %v", p.to.name, replyWithin())
	ctx, cancel := context.WithTimeoutCause(ctx, replyWithin(), late)
	defer cancel()
	select {
	case <-p.call.Done:
		if p.call.Error != nil { // the worker's own, or the connection's because the worker has ended
			return Reply{}, fmt.Errorf("worker %s: %w", p.to.name, p.call.Error)
		}
		return *p.call.Reply.(*Reply), nil
	case <-ctx.Done():
		return Reply{}, context.Cause(ctx)
	}
}
