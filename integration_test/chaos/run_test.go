//go:build linux

package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// work is what client processes do.
type work struct {
	Actors  int
	Hasty   int           // more of each process, who come all at once, and leave soon
	Names   int           // of locks, in use at a time
	Period  time.Duration // for which a name is in use; short histories are searched quickly
	Lease   time.Duration
	Fair    bool             // the kind of the locks: fairlock, else rlock; on masters of a quorum redlock
	Kinds   []history.Family // of the locks in place of that; so many actors of each process use each
	Staying int              // one lock in so many stays taken for a while; 0: none
	Keeping int              // one lock in so many is kept by its process after the unlock; 0: none
	Alone   bool             // quorum locks are not handed off within a process
	Without []string         // defences that are switched off
}

// plan is one run.
type plan struct {
	work
	seed        uint64
	storm, calm time.Duration
	processes   int
	gap         time.Duration              // mean time between the faults of one process, and of the servers
	local       []string                   // kinds of faults of processes
	global      []string                   // kinds of faults of servers
	recovery    time.Duration              // what a client may need after a fault until everything works again
	kept        float64                    // how many processes have proxies that keep connections
	linkDown    bool                       // each process never reaches one of the servers
	progress    bool                       // every process is granted something in the calm
	shape       func(rng *rand.Rand) shape // draws that of a process's clients; nil: as go-redis makes them
	tidy        bool                       // nothing is left behind that only the end of a lease takes away
}

const (
	// bound is of a wake-up, on a busy machine.
	bound = 3 * time.Second
	// place is for how long the place of a waiter that is gone counts in the queue of a fair lock.
	place = 15 * time.Second
	// claim is for how long such a lock is kept for the one whose turn it is.
	claim = 2 * time.Second
)

// run does it all, and returns what it saw and what was wrong with it.
func (p plan) run(tb testing.TB, t *target) (figures, []history.Violation) {
	start := now()
	rng := rand.New(rand.NewPCG(p.seed, 0))
	clients := 0
	var mu sync.Mutex
	next := func() int {
		mu.Lock()
		defer mu.Unlock()
		clients++
		return clients
	}
	var slots []*slot
	for range p.processes {
		j := job{work: p.work, Seed: rng.Uint64()}
		s := newSlot(tb, t, j, rand.New(rand.NewPCG(rng.Uint64(), 1)), next, p.shape)
		if s.rng.Float64() < p.kept {
			s.keepConnections()
		}
		if p.linkDown {
			s.nextLink()
		}
		slots = append(slots, s)
	}
	w := &weather{work: p.work, tb: tb, t: t, rng: rand.New(rand.NewPCG(rng.Uint64(), 2)), count: make(map[string]int)}
	ctx, cancel := context.WithTimeout(tb.Context(), p.storm)
	defer cancel()
	var group sync.WaitGroup
	if len(p.local) > 0 {
		for _, s := range slots {
			group.Go(func() { s.storm(ctx, p.local, p.gap) })
		}
	}
	if len(p.global) > 0 { // in the goroutine of the test, which may give up
		w.storm(ctx, p.global, p.gap)
	}
	<-ctx.Done()
	group.Wait()
	quiet := now()
	workload.Sleep(tb.Context(), p.calm)
	return p.assess(tb, t, slots, w, start, quiet)
}

// assess stops the processes and checks what they did.
func (p plan) assess(tb testing.TB, t *target, slots []*slot, w *weather, start, quiet int64) (f figures,
	found []history.Violation) {
	tb.Helper()
	var group sync.WaitGroup
	ends := make([][]history.Violation, len(slots))
	for i, s := range slots {
		if s.err != nil {
			tb.Fatalf("a client process could not be started: %v", s.err)
		}
		group.Go(func() { ends[i] = s.p.stop() })
	}
	group.Wait()
	c := history.Config{
		Lease: p.Lease, Bound: bound, Recovery: p.recovery, Faults: w.faults, Slack: hesitation,
		Least: 500 * time.Millisecond,
		Place: place, Refusals: w.refusals, Lapses: w.lapses, Local: make(map[int][]history.Window),
		Pauses: make(map[int][]history.Window),
	}
	if t.mode == quorum {
		c.Jumps = time.Duration(w.count["clock"]) * clockJump
	}
	if p.queued() && t.mode != quorum {
		c.Claim = claim
	}
	if len(p.Kinds) > 0 { // clocks are set ahead by less than this
		c.Permits, c.Stay = permits, p.Lease*95/100
	}
	f.done, f.kinds = make(map[string]int), maps.Clone(w.count)
	var histories [][]history.Op
	for i, s := range slots {
		found = append(found, ends[i]...)
		for _, p := range append(s.past, s.p) {
			histories = append(histories, p.story())
			c.Pauses[p.number] = p.ownPauses()
			c.Local[p.number] = slices.Concat(p.faults, c.Pauses[p.number])
			f.done["processes"]++
		}
		for kind, n := range s.count {
			f.kinds[kind] += n
		}
	}
	ops := history.Merge(histories...)
	if t.mode == quorum {
		ops = withoutSplits(ops)
	}
	if len(p.Kinds) > 0 { // when nobody holds anything any more
		p.rest(tb, t, slots, quiet)
		ops = history.Merge(ops, census(tb, t, ops))
	}
	f.count(ops)
	found = append(found, history.Check(ops, c)...)
	if p.progress {
		for _, s := range slots {
			found = append(found, stalled(ops, s.p.number, quiet)...)
		}
	}
	if len(p.Kinds) == 0 {
		p.rest(tb, t, slots, quiet)
	}
	found = append(found, p.leftBehind(tb, t, ops)...)
	if len(found) > 0 {
		diary := w.diary
		for _, s := range slots {
			diary = append(diary, s.diary...)
		}
		slices.Sort(diary)
		tb.Logf("the faults:\n%s", strings.Join(diary, "\n"))
	}
	f.seconds = time.Duration(now() - start).Seconds()
	f.found(found)
	return f, found
}

// queued reports whether servers keep the order of those who wait for some of the locks.
func (p plan) queued() bool { return p.Fair || len(p.Kinds) > 0 }

// rest waits until nothing is held for anybody any more who is gone, and has what was under way arrive.
func (p plan) rest(tb testing.TB, t *target, slots []*slot, quiet int64) {
	if p.queued() { // a release that comes late hands the lock to a waiter that was killed, for one claim
		deliver(slots)
	}
	if !p.tidy {
		rest := time.Duration(quiet-now()) + p.Lease
		// whoever was closed last may have handed the lock to a waiter that was killed, for one claim
		if t.mode != quorum {
			rest = max(rest, 2*time.Second)
		}
		workload.Sleep(tb.Context(), max(rest, 0)+time.Second)
	}
	if !p.queued() {
		deliver(slots)
	}
}

// deliver hands over what the network has kept to the end, which must not lock anything for those who are gone.
func deliver(slots []*slot) {
	for _, s := range slots {
		for _, proxy := range s.proxies {
			proxy.Deliver()
		}
	}
}

// leftBehind is what is on the servers that should not be, after all clients were closed.
func (p plan) leftBehind(tb testing.TB, t *target, ops []history.Op) (found []history.Violation) {
	add := func(name, format string, args ...any) {
		v := history.Violation{Check: "left behind", Name: name, Text: fmt.Sprintf(format, args...)}
		for _, o := range ops {
			if o.Name == name {
				v.Ops = append(v.Ops, o)
			}
		}
		found = append(found, v)
	}
	for _, n := range t.nodes {
		locks, queues, eternal := keys(tb, n)
		if p.tidy { // else those who were killed may have had places
			for _, key := range queues {
				add(key, "still there after all clients were closed")
			}
		}
		for _, name := range locks {
			add(name, "still there after all clients were closed: %v", contents(n, name))
		}
		for _, key := range eternal {
			add(key, "without a time to live")
		}
		for _, channels := range []string{"CHANNELS", "SHARDCHANNELS"} {
			if list, err := n.Try("PUBSUB", channels); err == nil && len(list.([]any)) > 0 {
				for _, c := range list.([]any) {
					if s := c.(string); !strings.HasPrefix(s, "__") { // Sentinels' own
						add(s, "still subscribed")
					}
				}
			}
		}
	}
	return found
}

// contents is what is at a key: what a hash holds, or else of what type it is.
func contents(n *redistest.Server, key string) any {
	if all, err := n.Try("HGETALL", key); err == nil {
		return all
	}
	kind, err := n.Try("TYPE", key)
	if err != nil {
		return err
	}
	return kind
}
