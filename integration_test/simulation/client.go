package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// inhabit lets one client live after the other until ctx ends: each crashes or is closed, none once storm has ended.
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
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: w.Lease, RetryBudget: w.RetryBudget, Logger: log, Observer: ledger.Observer(),
		Label: holdfast.NoLabel}) // the default one differs in each run, and the same seed is to do the same
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
	w.alive = slices.DeleteFunc(slices.Clone(w.alive), func(other *network) bool { return other == n })
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
	read := w.ReadTimeout
	if w.Endless {
		read = -1
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: address.String(), Dialer: n.dial, DisableIdentity: true,
		// Nobody waits for a connection: go-redis would do so with a timer that it shares between bubbles.
		PoolSize:       max(10, 4*w.Actors+2) + 2*w.Many + 2*w.Crowd,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10, // most of the memory of a run, else
		ReadTimeout: read, WriteTimeout: w.ReadTimeout, DialTimeout: w.DialTimeout, ContextTimeoutEnabled: w.Contexts,
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

// actor configures a client's actors. Names are used for a few leases, and again later; the ledger counts plain and fair locks.
func (w *World) actor(c *holdfast.Client, ledger *workload.Ledger, number int) workload.Config {
	granted := &w.granted
	if w.Fair {
		granted = nil // nothing is handed off
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

// others are the kinds that have worlds beside those of plain and fair locks.
var others = []history.Family{history.ReadWrite, history.Permits, history.Latches, history.Elections}

// kindEnv names the only kind that is drawn; without it, any.
const kindEnv = "HOLDFAST_KIND"

// kindOf is the kind of a world: three in four have plain or fair locks, and each of the others has one of any sixteen that
// follow each other. Worlds of plain locks are the longer ones, so nearly all of the time is theirs.
func kindOf(seed uint64) history.Family {
	if only := history.Family(os.Getenv(kindEnv)); slices.Contains(others, only) {
		return only
	}
	if seed%4 == 3 {
		return others[seed/4%4]
	}
	return history.Locks
}

// other draws what only worlds of the other kinds have, and takes out what they do not.
func (s *Settings) other(seed uint64) {
	rng := newSource(seed, 'p')
	s.Strangers, s.Many, s.Staying, s.Home, s.Alike = 0, 0, 0, false, false
	s.Names, s.Actors = 1+rng.IntN(2), 2+rng.IntN(3)
	switch s.Kind {
	case history.ReadWrite:
		s.Think = min(s.Think, s.Lease) // else nobody meets anybody
	case history.Permits:
		s.Permits = 1 + rng.IntN(5)
		s.Think = min(s.Think, s.Lease)
	case history.Latches:
		s.Think, s.Actors = min(s.Think, s.Lease/2), 3+rng.IntN(3)
	}
	s.Dead = 0
}

// queued reports whether the server keeps the order of those who wait.
func (w *World) queued() bool {
	return w.Fair || w.Kind == history.Permits || w.Kind == history.Elections
}

// fairQueue reports whether it is that of a fair lock.
func (w *World) fairQueue() bool { return w.Fair || w.Kind == history.Elections }

// stay is how long a latch lasts without a word; 0 for other kinds.
func (w *World) stay() time.Duration {
	if w.Kind != history.Latches {
		return 0
	}
	return 3 * w.Lease
}

// lasts is how long a latch lasts by the clients' clocks, at least.
func (w *World) lasts() time.Duration {
	if w.Kind != history.Latches {
		return 0
	}
	return max(w.stay()*99/100-time.Duration(w.slept.Load()), 1)
}

// census asks at the end how many permits are free.
func (w *World) census() {
	if w.Kind != history.Permits {
		return
	}
	rdb := w.direct()
	defer rdb.Close()
	c, err := holdfast.New(rdb, &holdfast.Options{Label: holdfast.NoLabel})
	if err != nil {
		w.problem("simulation", err.Error())
		return
	}
	rec := history.NewRecorder(w.Now)
	for epoch := range epochs {
		for i := range w.Names {
			m := semaphore.New(c, strconv.Itoa(epoch)+"."+strconv.Itoa(i), w.Permits)
			workload.Census(context.Background(), rec, m, history.Op{Client: strangers, Last: true})
		}
	}
	_ = c.Close(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.histories = append(w.histories, rec.Ops())
}

// stays reports whether a key may stand when all leases have ended: last tokens, which end later, and permits' numbers.
func (w *World) stays(key string) bool {
	if strings.HasPrefix(key, "redisson_lock_token:") {
		return true
	}
	epoch, _, named := strings.Cut(key, ".")
	_, err := strconv.Atoi(epoch)
	return w.Kind == history.Permits && (named && err == nil || strings.HasSuffix(key, ":timeout") ||
		strings.HasPrefix(key, "holdfast_latch:"))
}

// collectors is where the numbers of the goroutines of an owner of many locks begin.
const collectors = 1000

// collect has a client's owner hold many uncontended locks now and then, until ctx ends. Every other time all are lost at once.
func (w *World) collect(ctx context.Context, c *holdfast.Client, ledger *workload.Ledger, rec *history.Recorder, number int) {
	rng := newSource(w.Seed, 'm', uint64(number)) //nolint:gosec // not negative
	names := make([]string, w.Many)
	for i := range names {
		names[i] = fmt.Sprintf("many.%d.%d", number, i)
	}
	for round := 0; w.sleep(ctx, rng.random(4*w.Lease)); round++ {
		source := func(i int) *rand.Rand {
			return newSource(w.Seed, 'm', uint64(number), uint64(round), uint64(i)).Rand //nolint:gosec // not negative
		}
		lost := rng.IntN(2) == 0
		workload.Collect(ctx, w.actor(c, ledger, number), rec, number, collectors, names, source, func(ctx context.Context) {
			w.sleep(ctx, rng.random(w.Lease/2))
			if lost && ctx.Err() == nil {
				w.lose(names)
				w.sleep(ctx, w.Lease)
			}
		})
	}
}

// lose has the server lose locks.
func (w *World) lose(names []string) {
	at := w.Now()
	ops := make([]history.Op, len(names))
	for i, name := range names {
		w.server.Del(name)
		ops[i] = history.Op{Client: strangers, Name: name, Kind: history.Wipe, Call: at, Return: at, Result: history.OK}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.histories = append(w.histories, ops)
}

// told finds lost holds that outlasted their next renewal although their client's way to the server was undisturbed.
func (w *World) told(ops []history.Op) (found []history.Violation) {
	limit := int64(w.Lease/3 + time.Second + 2*w.ReadTimeout + 100*w.slowest())
	type grant struct {
		name  string
		token uint64
	}
	wiped := make(map[string][]history.Op)
	over := make(map[grant]history.Op) // the first that was known of it
	for _, o := range ops {
		g := grant{o.Name, o.Token}
		switch {
		case o.Kind == history.Wipe:
			wiped[o.Name] = append(wiped[o.Name], o)
		case o.Kind == history.End, o.Kind == history.Unlock && o.Last:
			if first, known := over[g]; !known || o.Call < first.Call {
				over[g] = o
			}
		}
	}
	for _, o := range ops {
		end, ended := over[grant{o.Name, o.Token}]
		if o.Kind != history.Lock && o.Kind != history.Try || o.Result != history.OK || o.Plain || !ended {
			continue
		}
		for _, wipe := range wiped[o.Name] {
			if o.Return < wipe.Call && end.Call > wipe.Call+limit && !w.disturbedBetween(o.Client, wipe.Call, end.Call) {
				found = append(found, history.Violation{Check: "told", Name: o.Name, Ops: []history.Op{o, wipe, end},
					Text: fmt.Sprintf("the lock was lost, and %s later nobody knew",
						time.Duration(end.Call-wipe.Call))})
			}
		}
	}
	return found
}

// disturbedBetween reports whether a client may have felt a fault in a time.
func (w *World) disturbedBetween(client int, from, to int64) bool {
	from -= int64(w.recovery())
	return history.Overlap(slices.Concat(w.windows, w.local[client]), from, to)
}
