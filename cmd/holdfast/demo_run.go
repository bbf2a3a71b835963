package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// scene is a part of the demo. play makes the workers act, and checks what happens.
type scene struct {
	title, about string
	play         func(*demoRun)
}

// scenes are the demo, in this order. Each goes on where the one before ends.
var scenes = []scene{
	{"rlock: one holder at a time", "The lock has an owner. The owner may acquire it again.", (*demoRun).reentry},
	{"rlock: the holder keeps it, and hands it over", "The client renews the lease of the holder.", (*demoRun).renewal},
	{"rlock: the holder dies", "Nobody renews its lease. At the end of the lease the next one gets it.",
		(*demoRun).death},
	{"rlock: the holder loses it", "The client sees the loss at its next renewal, and tells its worker.",
		(*demoRun).loss},
	{"fencing tokens: a late write is refused", "Redis has seen C's token. A's is smaller.", (*demoRun).fencing},
	{"fairlock: first come, first served", "Redis keeps a queue.", (*demoRun).queue},
	{"rwlock: many readers, or one writer", "A waiting writer holds back new readers.", (*demoRun).readers},
	{"semaphore: at most 3 permits are out", "One holder may have several permits.", (*demoRun).permits},
	{"latch: many wait until the count is zero", "Any process may count down.", (*demoRun).opening},
	{"multilock: all of several locks, or none", "Opposite orders do not deadlock.", (*demoRun).several},
	{"election: one leads, and the others know which", "Each process can ask who leads.", (*demoRun).leaders},
	{"redlock: a majority of five masters grants it", "Two may fail. A third failure ends the lock.",
		(*demoRun).quorum},
	{"The end", "The workers stop by themselves, and the demo deletes its keys.", (*demoRun).end},
}

// demoRun is one run of the demo. Its methods panic with an error of type stopped if the demo
// cannot go on; tell returns that error.
type demoRun struct {
	*screen
	ctx            context.Context // ends with a signal
	began          time.Time
	passed, failed int

	rdb      redis.UniversalClient
	client   *holdfast.Client
	clientID string // with which the owners of client begin, as far as that is known
	locks    locks  // the demo looks at them, and has a part in some scenes
	start    Request
	workers  []*workerProcess // all that were started, also those that were killed
	a, b, c  *workerProcess
	last     uint64 // the greatest token of the first lock
	grants   int    // of the first lock, each with a greater token than before
	emulated bool   // the masters too
	masters  []*master
}

type stopped struct{ error }

func newDemoRun(ctx context.Context, srv *server, rdb redis.UniversalClient, client *holdfast.Client,
	scr *screen, tag string) *demoRun {
	start := Request{Op: "start", Redis: []string{srv.address.reveal()}, Lease: demoLease(),
		Name: "demo-lock:" + tag, Store: "demo-store:" + tag}
	return &demoRun{screen: scr, ctx: ctx, began: time.Now(), rdb: rdb, client: client,
		locks: newLocks(client, start.Name), start: start, emulated: srv.emulated}
}

// tell starts the workers A, B and C, and plays scenes.
func (d *demoRun) tell(scenes []scene) (err error) {
	defer d.catch(&err)
	d.a, d.b, d.c = d.worker("A", d.start), d.worker("B", d.start), d.worker("C", d.start)
	d.note("workers A, B and C are the processes %d, %d and %d", d.a.pid(), d.b.pid(), d.c.pid())
	d.note("leases of %s, renewed every %s", brief(demoLease()), brief(demoLease()/3))
	for _, s := range scenes {
		d.title("\n" + s.title)
		d.note("  %s", s.about)
		s.play(d)
	}
	return nil
}

// catch is deferred: it sets the error with which the demo stopped.
func (d *demoRun) catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case stopped:
		*err = p.error
	default:
		panic(p)
	}
}

// noError stops the demo if there is an error.
func noError(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// must returns a value, and stops the demo if there is an error.
func must[T any](v T, err error) T {
	noError(err)
	return v
}

// worker starts a worker.
func (d *demoRun) worker(name string, start Request) *workerProcess {
	w := must(startWorker(d.ctx, name, start))
	d.workers = append(d.workers, w)
	return w
}

// do sends a request and waits for the reply.
func (d *demoRun) do(w *workerProcess, q Request) Reply { return d.wait(w.send(q)) }

// wait waits for a reply.
func (d *demoRun) wait(p pending) Reply { return must(p.wait(d.ctx)) }

// until looks again and again until something is so.
func (d *demoRun) until(what string, is func() bool) {
	for limit := time.Now().Add(replyWithin()); !is(); d.pause(5 * time.Millisecond) {
		if time.Now().After(limit) {
			noError(fmt.Errorf("not within %v: %s", replyWithin(), what))
		}
	}
}

// awaitQueue waits until so many are in the queue of a lock.
func (d *demoRun) awaitQueue(m *fairlock.Mutex, n int) {
	d.until(fmt.Sprintf("%d wait", n), func() bool { return must(m.State(d.ctx)).Waiters >= n })
}

func (d *demoRun) pause(wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-d.ctx.Done():
		noError(context.Cause(d.ctx))
	}
}

// note prints a remark, on as many lines as it takes.
func (d *demoRun) note(format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), columns) {
		fmt.Fprintln(d.out, d.paint(dim, line))
	}
}

// check prints what happened, whether that is right, and the evidence.
func (d *demoRun) check(what string, ok bool, evidence string, args ...any) {
	mark := d.paint(green, "  ok  ")
	if ok {
		d.passed++
	} else {
		d.failed++
		mark = d.paint(red, "FAILED")
	}
	fmt.Fprintf(d.out, "%s  %-40s  %s\n", mark, what, fmt.Sprintf(evidence, args...))
}

// verdict prints the last line. It returns whether all is well.
func (d *demoRun) verdict() bool {
	colour, text := green, fmt.Sprintf("All %d checks passed in %.1f s.", d.passed, time.Since(d.began).Seconds())
	if d.failed > 0 {
		colour, text = red, fmt.Sprintf("%d of %d checks FAILED.", d.failed, d.failed+d.passed)
	}
	fmt.Fprintf(d.out, "\n%s\n", d.paint(colour, text))
	return d.failed == 0
}

// brief is a duration with the digits that matter.
func brief(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// outcome says what a worker was told.
func (r Reply) outcome() string {
	if r.Refusal == "" {
		return "done"
	}
	return "refused: " + r.Refusal
}

// The requests of most scenes.
func lock(name string) Request         { return Request{Op: "lock", Lock: name} }
func lockOnce(name string) Request     { return Request{Op: "lock", Lock: name, Once: true} }
func unlock(name string) Request       { return Request{Op: "unlock", Lock: name} }
func take(n int) Request               { return Request{Op: "lock", Lock: permits, N: n} }
func visit(name string, n int) Request { return Request{Op: "visit", Lock: name, N: n} }

// demoPermits is how many permits the semaphore has.
const demoPermits = 3

// How requests name the locks.
const (
	plain        = "rlock"
	fair         = "fairlock"
	reading      = "rwlock for reading"
	writing      = "rwlock for writing"
	permits      = "semaphore"
	both         = "x and y"
	bothReversed = "y and x"
	leadership   = "election"
	quorum       = "redlock"
)

// locks has a lock of each kind that one server grants. Each has a name of its own, because kinds
// cannot share one. The demo and its workers make the same locks.
type locks struct {
	plain    *rlock.Mutex
	fair     *fairlock.Mutex
	rw       *rwlock.RWMutex
	permits  *semaphore.Semaphore
	latch    *latch.Latch
	election *election.Election
	x, y     *rlock.Mutex // a multilock acquires both
}

// steadyLease is the lease of locks whose holders stay alive. It is so long that a busy machine
// loses none.
const steadyLease = 20 * time.Second

func newLocks(client *holdfast.Client, name string) locks {
	steady := holdfast.Lease(steadyLease)
	return locks{
		plain:    rlock.New(client, name),
		fair:     fairlock.New(client, name+":fair"),
		rw:       rwlock.New(client, name+":rw", steady),
		permits:  semaphore.New(client, name+":permits", demoPermits, steady),
		latch:    latch.New(client, name+":latch", holdfast.Lease(leftoverTTL)),
		election: election.New(client, name+":election", steady),
		x:        rlock.New(client, name+":x", steady),
		y:        rlock.New(client, name+":y", steady),
	}
}

// keys are all that the demo may leave in Redis, except the keys of readers, which end with their
// leases. A latch remembers each call by an owner of the client that called; there are a few.
func (d *demoRun) keys() []string {
	l, all := d.locks, []string{d.start.Store, keys.Fence(d.start.Store), insideKey(d.start.Store)}
	for n := range 20 {
		all = append(all, keys.ForLatch(l.latch.Name()).Call(fmt.Sprintf("%s:h%d", d.clientID, n)))
	}
	for _, lock := range []interface{ Name() string }{l.plain, l.fair, l.rw, l.permits, l.latch, l.election, l.x, l.y} {
		every := keys.Inspect(lock.Name())
		all = append(append(all, every[:]...), keys.For(lock.Name()).Channel, keys.ForLatch(lock.Name()).Counts)
	}
	return all
}

// insideKey is where "visit" counts the holders of a lock. All visitors of a scene visit the same
// lock.
func insideKey(store string) string { return store + ":inside" }
