package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/rlock"
)

// inhabit lets one client live after the other until ctx ends. Each dies by a crash or is closed,
// but none after storm has ended.
func (w *World) inhabit(ctx, storm context.Context, rng source) {
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(storm, w.round(rng.random(w.Life)))
		w.live(ctx, storm, life, rng.IntN(2) == 0)
		cancel()
		w.sleep(storm, rng.random(w.Lease/2))
	}
}

// live is the life of one client.
func (w *World) live(ctx, storm, life context.Context, crash bool) {
	w.mu.Lock()
	number := w.clients
	w.clients++
	n := newNetwork(w, number)
	w.alive = append(w.alive, n)
	w.mu.Unlock()

	rdb := w.connect(n)
	log := slog.New(&slowLog{world: w, life: life, rng: newSource(w.Seed, 'l', uint64(number))})
	ledger := &workload.Ledger{}
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: w.Lease, RetryBudget: w.RetryBudget, Logger: log, Observer: ledger.Observer()})
	if err != nil {
		w.problem("simulation", err.Error())
		return
	}
	rec := history.NewRecorder(w.Now)
	work, cancel := context.WithCancel(ctx)
	var actors sync.WaitGroup
	cfg := w.actor(c, ledger, number)
	for i := range w.Actors {
		rng := newSource(w.Seed, 'a', uint64(number), uint64(i)).Rand //nolint:gosec // not negative
		a := workload.NewOf(w.Kind, c, cfg, rec, number, i, rng)
		// else they all begin at one moment, in any order
		delay := time.Duration(1+number*w.Actors+i) * time.Millisecond
		actors.Go(func() {
			w.sleep(work, delay)
			a.Run(work)
		})
	}
	if w.Kind == history.Elections {
		rng := newSource(w.Seed, 'b', uint64(number)).Rand //nolint:gosec // not negative
		actors.Go(func() { workload.NewObserver(c, cfg, rec, number, w.Actors, rng).Run(work) })
	}
	w.crowd(work, &actors, c, cfg, rec, number)
	if w.Many > 0 && number%3 == 0 {
		actors.Go(func() { w.collect(work, c, ledger, rec, number) })
	}
	<-life.Done()
	switch {
	case storm.Err() != nil:
		<-ctx.Done() // the end of the run; this one has survived the faults
	case crash:
		w.faults[Crash].Add(1)
		n.crash()
		rec.Crash(number)
	default:
		w.faults[Close].Add(1)
		w.close(c, number)
	}
	cancel()
	actors.Wait()
	w.close(c, number)
	if err := ledger.Settle(w.recovery() + time.Minute); err != nil {
		w.problem("observer", fmt.Sprintf("client %d: %v", number, err))
	}
	_ = rdb.Close()
	w.remove(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.histories = append(w.histories, rec.Ops())
}

func (w *World) remove(n *network) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.alive {
		if other == n {
			w.alive = append(w.alive[:i:i], w.alive[i+1:]...)
			return
		}
	}
}

// close closes a client. It must be done in a time that the settings bound.
func (w *World) close(c *holdfast.Client, number int) {
	from := w.Now()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed[number] = append(w.closed[number], history.Window{From: from, To: history.Forever})
	}()
	ctx, cancel := context.WithTimeout(context.Background(), w.recovery()+time.Minute)
	defer cancel()
	if err := workload.Closed(c.Close(ctx)); err != nil {
		w.problem("close", err.Error())
		_ = c.Close(context.Background())
	}
}

func (w *World) connect(n *network) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr: address.String(), Dialer: n.dial, DisableIdentity: true,
		// Nobody waits for a connection: go-redis would do so with a timer that it shares between
		// bubbles.
		PoolSize:       max(10, 4*w.Actors+2) + 2*w.Many + 2*w.Crowd,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10, // most of the memory of a run, else
		ReadTimeout: w.ReadTimeout, WriteTimeout: w.ReadTimeout, DialTimeout: w.DialTimeout,
		DialerRetries:            w.DialerRetries,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rdb.AddHook(new(workload.Places))
	if w.Crowd > 0 {
		q := &questions{}
		rdb.AddHook(q.hook(w.Now))
		w.mu.Lock()
		w.questions[int(n.client)] = q //nolint:gosec // a small number
		w.mu.Unlock()
	}
	if w.Kind == history.Locks && !w.Fair {
		rdb.AddHook(w.granted.Hook())
	}
	for _, hook := range w.Hooks {
		rdb.AddHook(hook)
	}
	return rdb
}

// name is one of the locks that are in use now.
func (w *World) name(rng *rand.Rand) string { return w.nth(rng.IntN(w.Names)) }

// epochs are the sets of names that are used one after the other.
const epochs = 4

func (w *World) nth(i int) string {
	epoch := w.Now() / int64(6*w.Lease)
	return strconv.FormatInt(epoch%epochs, 10) + "." + strconv.Itoa(i)
}

// home is the one that a client wants most of the time, or another.
func (w *World) home(number int) func(*rand.Rand) string {
	return func(rng *rand.Rand) string {
		if w.Home && rng.IntN(8) > 0 {
			return w.nth(number % w.Names)
		}
		return w.name(rng)
	}
}

// actor is what the actors of a client do. Names are used for a few leases, and again some names
// later. What is seen of plain and fair locks is counted in the ledger.
func (w *World) actor(c *holdfast.Client, ledger *workload.Ledger, number int) workload.Config {
	granted := &w.granted
	if w.Fair {
		granted = nil // nothing is handed on
	}
	leases, plain := []time.Duration{0, 0, w.Lease / 2, w.Lease / 7}, 6
	if half := w.Lease / 2; w.Alike { // and extended to twice that
		leases, plain = []time.Duration{half, half, half, half, half, half, half, 0}, 24
	}
	plainly := func(name string) workload.Locker { return rlock.New(c, name) }
	fairly := func(name string) workload.Locker { return fairlock.New(c, name) }
	lock, other := plainly, fairly
	if w.Fair {
		lock, other = fairly, plainly
	}
	if w.Kind == history.Locks {
		lock, other = ledger.Count(lock), ledger.Count(other)
	}
	var sets []int
	if newSource(w.Seed, 'q').IntN(2) == 0 {
		sets = []int{max(1, w.Permits-1), w.Permits, w.Permits, w.Permits + 1}
	}
	return workload.Config{
		Permits: w.Permits, Sets: sets, Lasts: w.stay(),
		Lock: lock, Other: other,
		Name:  w.home(number),
		Think: w.Think, Hold: w.Hold, Wait: w.Wait,
		Lease: w.Lease, Leases: leases, Extends: []time.Duration{w.Lease / 7, w.Lease / 2, w.Lease}, Plain: plain,
		Staying: w.Staying, Stays: []time.Duration{w.Lease / 20, w.Lease / 4, w.Lease},
		Keeping: w.Keeping, Keeps: []time.Duration{5 * time.Millisecond, w.Lease / 20, w.Lease / 2, 3 * w.Lease},
		Patience: 10 * w.Lease, Round: w.round, Now: w.Now, Granted: granted,
	}
}
