package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/lua"
)

// complete adds what the states of the kinds do not tell: how many wait, as "ls" counts them, and who has unlocked. Who may
// not run the script for that sees less. Of several masters a majority says that the owner has unlocked, and the largest
// number of waiters counts, as each waiter listens at all of them.
func (w *watcher) complete(ctx context.Context, s *sight) {
	if w.blind {
		return
	}
	locks := w.locks(ctx)
	if len(w.rdbs) == 1 && len(locks) == 1 {
		s.waiters = -1
		s.places = max(locks[0].Waiters, 0)
	}
	left := make(map[string]int)
	for _, l := range locks {
		if n, about := l.Waiting(); n > s.waiters {
			s.waiters, s.listen = n, about
		}
		for _, h := range l.Holders {
			if h.Left {
				left[h.Owner]++
			}
		}
	}
	for owner, masters := range left {
		if masters > len(w.rdbs)/2 {
			s.unlocked = map[string]bool{owner: true}
		}
	}
}

// beside asks a server beside the look itself.
type beside struct {
	*inspect.Inspector
	asked atomic.Bool // and has not answered yet
}

// locks asks all servers at once. It leaves out those that do not answer: an outage is noticed by the next look.
func (w *watcher) locks(ctx context.Context) (locks []inspect.Lock) {
	if w.beside == nil {
		for _, rdb := range w.rdbs {
			i, _ := inspect.New(rdb, nil) // of a client that there is
			w.beside = append(w.beside, &beside{Inspector: i})
		}
	}
	type answer struct {
		inspect.Lock
		err error
	}
	answers, asked := make(chan answer, len(w.rdbs)), 0
	for _, b := range w.beside {
		if b.asked.Swap(true) {
			continue
		}
		asked++
		go func() {
			l, err := b.Lock(ctx, w.name)
			b.asked.Store(false)
			answers <- answer{l, err}
		}()
	}
	var enough <-chan time.Time
	if len(w.rdbs) > 1 { // one that is down must not hold up what the others say: go-redis waits longer than a context does
		enough = time.After(labelWithin)
	}
	for range asked {
		select {
		case a := <-answers:
			if a.err == nil {
				locks = append(locks, w.unheard(a.Lock))
			}
			w.blind = w.blind || lua.IsDenied(a.err)
		case <-enough:
			return locks
		}
	}
	return locks
}

// unheard is a lock without us, if we are counted among those who listen, and without those of whom a replica does not know.
func (w *watcher) unheard(l inspect.Lock) inspect.Lock {
	if w.replica {
		l = l.AtReplica()
	}
	if w.counted && l.Listening > 0 {
		l.Listening--
	}
	return l
}
