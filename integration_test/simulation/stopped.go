package simulation

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/suspend"
)

// stopped is a process that was stopped while it waited for a fair lock: it listens, and no goroutine takes what it is handed.
type stopped struct {
	name   string
	claims int // that it was handed, and let lapse
}

// halt has processes be stopped while they wait for fair locks, until the storm ends. Each may cost the others one claim.
func (w *World) halt(storm context.Context) { w.strike(storm, 'z', (*stranger).stop) }

// strike has something happen to fair queues, again and again until the storm ends.
func (w *World) strike(storm context.Context, source uint64, happens func(s *stranger, name string) error) {
	if w.Dead == 0 || !w.fairQueue() {
		return
	}
	s := &stranger{World: w, rng: newSource(w.Seed, source)}
	for w.sleep(storm, s.rng.random(w.Lease)) {
		if err := happens(s, s.name(s.rng.Rand)); err != nil {
			s.problem("simulation", err.Error())
		}
	}
}

// stop has a process be stopped that has a few dozen places, until they do not count any more.
func (s *stranger) stop(name string) error {
	id := s.client()
	conn, err := s.server.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	s.traffic.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	channel := keys.For(name).Mailbox(id)
	if _, err := fmt.Fprintf(conn, "*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n", len(channel), channel); err != nil {
		return err
	}
	s.mu.Lock()
	if s.halted == nil {
		s.halted = make(map[string]*stopped)
	}
	s.halted[id] = &stopped{name: name}
	s.mu.Unlock()
	if err := s.enqueue(name, s.serverTime().Add(place), places(id, 10+s.rng.IntN(30))); err != nil {
		return err
	}
	s.sleep(context.Background(), 2*place)
	return nil
}

// handed notes that a script hands a lock to an owner, and keeps it for it for the time of a claim if it is stopped.
func (w *World) handed(name, owner string) {
	id, _, _ := strings.Cut(owner, ":")
	at := w.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.halted[id]
	if p == nil || p.name != name {
		return
	}
	p.claims++
	until := at + int64(w.claim()+w.claim()/100)
	w.windows = append(w.windows, history.Window{From: at, To: until})
	w.histories = append(w.histories, []history.Op{{
		Client: strangers, Name: name, Kind: history.Foreign, Seen: "held by " + owner, Call: at, Return: at,
		Deadline: until, Result: history.OK,
	}})
}

// lapses finds stopped processes that cost more than one claim.
func (w *World) lapses() (found []history.Violation) {
	for id, p := range w.halted {
		if p.claims > 1 {
			found = append(found, history.Violation{Check: "claims", Name: p.name,
				Text: fmt.Sprintf("%s, which is stopped, was handed the lock %d times, for %s each", id, p.claims,
					w.claim())})
		}
	}
	return found
}

// nap puts the machine to sleep now and then on which all clients run, until the storm ends. Their clock stands still, and so
// does everything that is under way; the server's clock goes on, here in a jump.
func (w *World) nap(storm context.Context) {
	rng := newSource(w.Seed, 'n')
	for w.Naps > 0 && w.sleep(storm, rng.random(w.Naps)) {
		d := w.round(rng.random(w.Lease))
		at := w.Now()
		w.faults[Nap].Add(1)
		suspend.Pretend(d)
		w.slept.Add(int64(d))
		w.mu.Lock()
		w.naps = append(w.naps, history.Window{From: at - int64(d), To: at + int64(noticed)})
		// who slept until a lease ends sleeps for as long as ever
		w.windows = append(w.windows, history.Window{From: at, To: at + int64(d)})
		w.mu.Unlock()
	}
}

// noticed is after what time those are told of the end of their holds who only wait for it.
const noticed = time.Second + time.Millisecond

// napped moves deadlines noted before a nap that lost the hold to be unlocked, and the deaths of those that had not noticed it.
func (w *World) napped(ops []history.Op) {
	for i := range ops {
		for _, nap := range w.naps {
			o, at := &ops[i], nap.To-int64(noticed)
			if o.Kind == history.Unlock && o.Result == history.Lost && o.Deadline != 0 && o.Call <= at && at <= o.Return {
				o.Deadline -= at - nap.From
			}
			if o.Kind == history.Crash && at <= o.Call && o.Call <= nap.To { // it was not told any more what it had lost
				o.Call = at
			}
		}
	}
}

// pauses are the naps of all clients.
func (w *World) pauses() map[int][]history.Window {
	all := make(map[int][]history.Window)
	for client := range w.clients {
		all[client] = w.naps
	}
	return all
}

// mourn has fleets of processes die while they wait for a fair lock, a thousand places and more at a time, until the storm
// ends. What they leave in the queue must cost the server no more than taking it out once.
func (w *World) mourn(storm context.Context) { w.strike(storm, 'd', (*stranger).die) }

// die leaves places of the dead at the end of a queue: of one process or many, dead for a moment, or past their places' end.
func (s *stranger) die(name string) error {
	processes := []int{s.Dead, 40, 1}[s.rng.IntN(3)]
	var owners []string
	for range processes {
		owners = append(owners, places(s.client(), s.Dead/processes)...)
	}
	s.work.add(len(owners))
	return s.enqueue(name, s.serverTime().Add(place-s.rng.random(place)), owners)
}

// places are owners of a client.
func places(client string, n int) (owners []string) {
	for number := range n {
		owners = append(owners, client+":h"+strconv.Itoa(number))
	}
	return owners
}

// enqueue puts owners at the end of a queue. Keys have the time to live that the script gives them.
func (w *World) enqueue(name string, until time.Time, owners []string) error {
	k := keys.For(name)
	for _, owner := range owners { // first: who is in the queue has a deadline
		if _, err := w.server.ZAdd(k.Deadlines, float64(until.UnixMilli()), owner); err != nil {
			return err
		}
	}
	w.server.SetTTL(k.Deadlines, place+time.Hour)
	_, err := w.server.RPush(k.Queue, owners...)
	w.server.SetTTL(k.Queue, place+time.Hour)
	return err
}

// work counts what scripts do at the server, in commands.
type work struct {
	mu sync.Mutex // guards the rest
	// contexts of the last runs of scripts: a run has one for its calls and one for those that may fail
	runs  [4]any
	calls [4]int // in each of them
	next  int    // which of them makes room for another
	most  int    // of one run
	over  int    // beyond what a run may do, in all
	dead  int    // places that the dead have left
}

// each is what one run of a script may do, whatever the queue is like: it looks at 128 places at a time, in a few ways.
const each = 512

// did notes a command of a script. nested is the context of the emulated server for the run.
func (k *work) did(nested any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := 0
	for i < len(k.runs) && k.runs[i] != nested {
		i++
	}
	if i == len(k.runs) {
		i, k.next = k.next, (k.next+1)%len(k.runs)
		k.runs[i], k.calls[i] = nested, 0
	}
	k.calls[i]++
	k.most = max(k.most, k.calls[i])
	if k.calls[i] > each {
		k.over++
	}
}

func (k *work) add(dead int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead += dead
}

// check demands that scripts' extra commands were for the dead, once each: to read a deadline, and ask who listens for it.
func (k *work) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over > 2*k.dead {
		return fmt.Errorf("scripts ran %d commands beyond %d each, for %d places of the dead; one ran %d", k.over, each,
			k.dead, k.most)
	}
	return nil
}

// isNested reports whether a command is a script's. The emulated server keeps that to itself.
func isNested(ctx any) bool {
	return ctx != nil && reflect.ValueOf(ctx).Elem().FieldByName("nested").Bool()
}

// enough is how many grants others may have while a client waits undisturbed: several times as many as until its turn.
const enough = 40

// starved finds clients that others are granted a lock before again and again.
func (w *World) starved(ops []history.Op) (found []history.Violation) {
	type waiter struct {
		client int
		name   string
	}
	missed := make(map[waiter]int) // grants of others since it waits, or since its own last one
	waits := make(map[waiter]int)  // goroutines of it that wait
	for _, e := range moments(ops) {
		o := e.op
		who := waiter{o.Client, o.Name}
		if e.call {
			if waits[who]++; waits[who] == 1 {
				missed[who] = 0
			}
			continue
		}
		if waits[who]--; o.Result != history.OK {
			continue
		}
		if w.disturbed(e.at) {
			clear(missed)
			continue
		}
		missed[who] = 0
		for other := range waits {
			if other.name != o.Name || other == who || waits[other] == 0 {
				continue
			}
			if missed[other]++; missed[other] == enough {
				found = append(found, history.Violation{Check: "starved", Name: o.Name, Ops: []history.Op{*o},
					Text: fmt.Sprintf("client %d waits while others are granted it %d times", other.client, enough)})
			}
		}
	}
	return found
}

// disturbed reports whether a fault, of any client, can be felt at a moment.
func (w *World) disturbed(at int64) bool {
	felt := func(faults []history.Window) bool { return history.Overlap(faults, at-int64(w.recovery()), at) }
	return felt(w.windows) || slices.ContainsFunc(slices.Collect(maps.Values(w.local)), felt)
}

// moment is when somebody begins to wait for a lock, or ends that.
type moment struct {
	at   int64
	op   *history.Op
	call bool
}

func moments(ops []history.Op) (all []moment) {
	for i := range ops {
		if o := &ops[i]; o.Kind == history.Lock && o.Return != history.Forever {
			all = append(all, moment{o.Call, o, true}, moment{o.Return, o, false})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// slowLog is a client's log: a record takes its time or the client's life, and some panic. None of that may be felt.
type slowLog struct {
	world *World
	life  context.Context // of the client; Close does not wait for the log's time

	mu  sync.Mutex // guards rng
	rng source
}

func (l *slowLog) Enabled(context.Context, slog.Level) bool { return l.world.Log > 0 }
func (l *slowLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *slowLog) WithGroup(string) slog.Handler            { return l }

func (l *slowLog) Handle(context.Context, slog.Record) error {
	l.mu.Lock()
	d, panics := l.world.round(l.rng.random(l.world.Log)), l.world.LogPanics && l.rng.IntN(4) == 0
	l.mu.Unlock()
	l.world.sleep(l.life, d)
	if panics {
		panic("log")
	}
	return nil
}
