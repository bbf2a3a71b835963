package engine

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/pubsub"
)

const (
	// yieldFor is for how long a client that gave a lock up lets each of the others try first:
	// long enough for those as near as itself.
	yieldFor = 2 * time.Millisecond
	// longestYield is for how long at most, for those that need a head start: two thirds of it may be
	// their round trip. Nobody has the lock meanwhile.
	longestYield = 100 * time.Millisecond
)

// turnTaking is how a waiter yields to other clients, because its own client gave the lock up for them. It
// belongs to the goroutine that acquires.
//
// A client that is far away has no chance within yieldFor: it hears of the release when the others hold the lock
// again. It is the only one that knows how far away it is. So when it is refused, it asks the server for a head start,
// and the next client that gives the lock up finds that there. A waiter that then waited for nothing
// ends the head start: so it costs the others one wait, whatever became of the client that needed it.
//
// (Rejected: to learn it from how often nobody took the lock. A client that listens need not want the lock, and
// while a far one comes too late, that looks the same.)
type turnTaking struct {
	others  queue.Handover // how many are still to go first
	each    time.Duration  // how long each of them may take
	unused  time.Duration  // for how long nobody took the lock, just now
	granted time.Duration  // the longest head start that it asked for itself: that one ends with its grant
}

// yieldTurn lets another client go first, if this one gave the lock up for some that have not had
// their turn yet. A client does that once for each of them: after its own release, and after those
// that it hears of from then on. So the processes of a busy machine take turns, and none is left
// out because it is slower than the others. (Rejected: to stay away until so many have released the
// lock. Some only listen, and nobody would take it.)
//
// released has a token when another client releases the lock, if somebody listens for that already.
// While a far client is waited for, the nearer ones may have several turns, and each is counted.
func (t *turnTaking) yieldTurn(wait context.Context, b *Lock, released <-chan struct{}) error {
	if t.others <= 0 {
		return b.Over(wait)
	}
	t.others--
	switch {
	case t.each == yieldFor:
		released = nil // what comes in this short time is heard afterwards
	case released == nil:
		signal := make(releases, 1)
		sub := b.Client.hub.Listen(b.wire.Channel(), signal)
		defer sub.Close()
		released = signal
	}
	timer := time.NewTimer(t.each)
	defer timer.Stop()
	for {
		select {
		case <-released:
			if t.others--; t.others < 0 { // all have had theirs
				t.others = 0
				return b.Over(wait)
			}
			timer.Reset(t.each)
			continue
		case <-timer.C:
			if t.each > yieldFor {
				t.unused = t.each
			}
		case <-wait.Done():
		case <-b.Client.ctx.Done():
		}
		return b.Over(wait)
	}
}

// releases has a token when another client has released the lock.
type releases chan struct{}

var _ pubsub.Listener = releases(nil)

// Message is [pubsub.Listener].
func (r releases) Message(string) {
	select {
	case r <- struct{}{}:
	default:
	}
}

// Look is [pubsub.Listener]. What may have been missed is not waited for for long.
func (releases) Look(bool) {}

// wantedSignal tells a holder that somebody else wants its lock.
type wantedSignal struct {
	once  sync.Once
	fired chan struct{}
}

func newWantedSignal() *wantedSignal { return &wantedSignal{fired: make(chan struct{})} }

func (w *wantedSignal) fire() { w.once.Do(func() { close(w.fired) }) }
