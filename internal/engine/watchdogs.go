package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Renewer renews what many owners hold in few commands, and gives it back when the client is
// closed. It is comparable: locks whose renewers are equal share a watchdog, the others do not
// delay each other.
type Renewer interface {
	// Renew sets the verdict of each. What got no answer keeps [watchdog.Unknown].
	Renew(ctx context.Context, due []watchdog.Renewal)
	// Lane is what keeps renewals apart, see [watchdog.Config]; nil if nothing does.
	Lane() func(watchdog.Owner) any
	// ReleaseAll gives back what was held when the client was closed, and notes what could not be,
	// see [Client.NoteUnreleased].
	ReleaseAll(owners []watchdog.Owner)
}

// leased is what a client's watchdogs watch: the time for which it holds a lock at the server, see [ServerLease].
type leased interface {
	watchdog.Owner
	// of is the lock, and its owner as the server knows it.
	of() (key queue.Key, owner string)
	// holding is the grant that has the lock; nil: it is only kept.
	holding() waitwatch.Grant
}

// watchdogs are those of a client, one for each renewer.
type watchdogs struct {
	judged func(batch []watchdog.Renewal, left []time.Duration) // nil: nobody observes renewals

	of sync.Map // by renewer: a *watchdog.Watchdog. A lock is made for each call, by many at once

	mu     sync.Mutex // is held while one is added
	closed bool       // guarded by mu
}

// get returns the watchdog of a renewer, a stopped one if the client was closed before there was
// any.
func (w *watchdogs) get(r Renewer) *watchdog.Watchdog {
	if dog, ok := w.of.Load(r); ok {
		return dog.(*watchdog.Watchdog)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dog, known := w.of.LoadOrStore(r, watchdog.New(watchdog.Config{Renew: r.Renew, Lane: r.Lane(), Judged: w.judged}))
	if !known && w.closed {
		dog.(*watchdog.Watchdog).Stop()
	}
	return dog.(*watchdog.Watchdog)
}

// busy reports whether one of them has something to watch.
func (w *watchdogs) busy() (busy bool) {
	w.of.Range(func(_, dog any) bool {
		busy = dog.(*watchdog.Watchdog).Busy()
		return !busy
	})
	return busy
}

// each calls f with all that is watched, see [watchdog.Watchdog.Each].
func (w *watchdogs) each(f func(watchdog.Owner)) {
	w.of.Range(func(_, dog any) bool {
		dog.(*watchdog.Watchdog).Each(f)
		return true
	})
}

// watched is what one watchdog watched.
type watched struct {
	renewer Renewer
	dog     *watchdog.Watchdog
	owners  []watchdog.Owner
}

// stop stops all of them. Their goroutines are still to be joined.
func (w *watchdogs) stop() (all []watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.of.Range(func(r, dog any) bool {
		all = append(all, watched{r.(Renewer), dog.(*watchdog.Watchdog), dog.(*watchdog.Watchdog).Stop()})
		return true
	})
	return all
}

// held is [waitwatch.Config.Held].
func (w *watchdogs) held(names map[string]bool, visit func(name, owner string, g waitwatch.Grant)) {
	var all []leased
	w.each(func(o watchdog.Owner) { // with a mutex held
		l := o.(leased)
		if key, _ := l.of(); names[key.Name] {
			all = append(all, l)
		}
	})
	for _, l := range all {
		if g := l.holding(); g != nil {
			key, owner := l.of()
			visit(key.Name, owner, g)
		}
	}
}

// kindOf is the kind of lock by which an owner holds a name, and the side; empty if it does not. It goes through all
// that is held.
func (w *watchdogs) kindOf(name, owner string) (kind, side string) {
	w.each(func(o watchdog.Owner) {
		if key, id := o.(leased).of(); key.Name == name && id == owner {
			kind, side = key.Kind, key.Side
		}
	})
	return kind, side
}

// describe is for [notify.Notifier.Renewals].
func describe(o watchdog.Owner) (kind, name, owner string) {
	key, owner := o.(leased).of()
	return key.Kind, key.Name, owner
}

// lossQueue has grants whose holds have ended because the lock was lost, and that have yet to leave
// their owners, the local queue and the server, and to be logged. That is not done by the watchdog,
// whose other leases would wait, but by one goroutine of the client, which runs while there are
// any.
type lossQueue struct {
	spawn func(func())

	mu      sync.Mutex // guards the rest; never held over anything that waits
	waiting []loss
	running bool
}

type loss struct {
	of     loser
	reason error
}

// loser is who has lost a lock, and has yet to leave.
type loser interface{ leaveLost(reason error) }

func (ls *lossQueue) add(of loser, reason error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.waiting = append(ls.waiting, loss{of, reason})
	if !ls.running {
		ls.running = true
		ls.spawn(ls.run)
	}
}

func (ls *lossQueue) run() {
	for list := ls.take(); len(list) > 0; list = ls.take() {
		for _, l := range list {
			l.of.leaveLost(l.reason)
		}
	}
}

func (ls *lossQueue) take() (list []loss) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	list, ls.waiting = ls.waiting, nil
	ls.running = len(list) > 0
	return list
}

// unreleased counts the locks that Close could not release.
type unreleased struct {
	mu    sync.Mutex // guards the rest
	locks int
	why   error // of one of them
}

func (l *unreleased) add(locks int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locks += locks
	l.why = why
}

func (l *unreleased) error() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == 0 {
		return nil
	}
	why := l.why
	if errors.Is(why, redis.ErrClosed) && !errors.Is(why, remote.ErrCloseOrder) {
		why = errs.Both(remote.ErrCloseOrder, why)
	}
	locks := "1 lock"
	if l.locks > 1 {
		locks = fmt.Sprint(l.locks, " locks")
	}
	return fmt.Errorf("%s may be left in Redis until their leases end: %w", locks, printable.Error(why))
}
