package simulation

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// mourn has fleets of processes die while they wait for a fair lock, a thousand places and more at
// a time, until the storm ends. What they leave in the queue must cost the server no more than
// taking it out once.
func (w *World) mourn(storm context.Context) {
	if w.Dead == 0 || !w.fairQueue() {
		return
	}
	s := &stranger{World: w, rng: newSource(w.Seed, 'd')}
	for w.sleep(storm, s.rng.random(w.Lease)) {
		if err := s.die(s.name(s.rng.Rand)); err != nil {
			s.problem("simulation", err.Error())
		}
	}
}

// die leaves the places of a fleet at the end of a queue: of one process or of many, which died a
// moment ago, or so long ago that their places do not count any more.
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
	// contexts of the last runs of scripts: a run has one for its calls and one for those that may
	// fail
	runs  [4]any
	calls [4]int // in each of them
	next  int    // which of them makes room for another
	most  int    // of one run
	over  int    // beyond what a run may do, in all
	dead  int    // places that the dead have left
}

// each is what one run of a script may do, whatever the queue is like: it looks at 128 places at a
// time, in a few ways.
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

// check demands that what scripts did beyond their share was to take out the dead, each of them
// once: to read a deadline, and to ask who listens for its process.
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
