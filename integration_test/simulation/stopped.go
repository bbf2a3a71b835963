package simulation

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/suspend"
)

// stopped is what a process has in a fair queue that was stopped while its goroutines waited there:
// connections that listen, and places that nobody takes the lock for.
type stopped struct {
	name   string
	claims int // that it was handed, and let lapse
}

// halt has processes be stopped while they wait for fair locks, until the storm ends. Each may cost
// the others one claim.
func (w *World) halt(storm context.Context) {
	if w.Dead == 0 || !w.fairQueue() {
		return
	}
	s := &stranger{World: w, rng: newSource(w.Seed, 'z')}
	for w.sleep(storm, s.rng.random(w.Lease)) {
		if err := s.stop(s.name(s.rng.Rand)); err != nil {
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

// handed notes that a script hands a lock to an owner, and keeps it for it for the time of a claim
// if it is stopped.
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

// nap puts the machine to sleep now and then on which all clients run, until the storm ends. Their
// clock stands still, and so does everything that is under way; the server's clock goes on, here in
// a jump.
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

// napped moves deadlines that were noted before a nap, when a hold was to be unlocked that was lost
// by that, and the deaths of those who had not noticed a nap yet.
func (w *World) napped(ops []history.Op) {
	for i := range ops {
		for _, nap := range w.naps {
			o, at := &ops[i], nap.To-int64(noticed)
			if o.Kind == history.Unlock && o.Result == history.Lost && o.Deadline != 0 && o.Call <= at &&
				at <= o.Return {
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
