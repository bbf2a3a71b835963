package engine

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/watchdog"
)

// renewer renews what many owners hold in few commands, and gives it back when the client is closed. It is comparable: locks
// whose renewers are equal share a watchdog, the others do not delay each other.
type renewer interface {
	// renew sets the verdict of each. What got no answer keeps [watchdog.Unknown].
	renew(ctx context.Context, due []watchdog.Renewal)
	// lane is what keeps renewals apart, see [watchdog.Config]; nil if nothing does.
	lane() func(watchdog.Owner) any
	// releaseAll gives back what was held when the client was closed, and notes what could not be, see [Client.leave].
	releaseAll(owners []watchdog.Owner)
}

// watchdogs are those of a client, one for each renewer.
type watchdogs struct {
	of sync.Map // by renewer: a *watchdog.Watchdog. A lock is made for each call, by many at once

	mu     sync.Mutex // is held while one is added
	closed bool       // guarded by mu
}

// get returns the watchdog of a renewer, a stopped one if the client was closed before there was any.
func (w *watchdogs) get(r renewer) *watchdog.Watchdog {
	if dog, ok := w.of.Load(r); ok {
		return dog.(*watchdog.Watchdog)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dog, known := w.of.LoadOrStore(r, watchdog.New(watchdog.Config{Renew: r.renew, Lane: r.lane()}))
	if !known && w.closed {
		dog.(*watchdog.Watchdog).Stop()
	}
	return dog.(*watchdog.Watchdog)
}

// watched is what one watchdog watched.
type watched struct {
	renewer renewer
	dog     *watchdog.Watchdog
	owners  []watchdog.Owner
}

// stop stops all of them. Their goroutines are still to be joined.
func (w *watchdogs) stop() (all []watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.of.Range(func(r, dog any) bool {
		all = append(all, watched{r.(renewer), dog.(*watchdog.Watchdog), dog.(*watchdog.Watchdog).Stop()})
		return true
	})
	return all
}
