package engine

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/pubsub"
)

const (
	// giveWayFor is for how long a client that gave a lock up lets each of the others try first:
	// long enough for those as near as itself.
	giveWayFor = 2 * time.Millisecond
	// maxLetGo is for how long at most, for those that need a head start: two thirds of it may be
	// their round trip. Nobody has the lock meanwhile.
	maxLetGo = 100 * time.Millisecond
)

// courtesy is what a waiter owes to other clients, because its own gave the lock up for them. It is
// of the goroutine that acquires.
//
// Who is far away has no chance by giveWayFor: it hears of the release when the others are inside
// again. It is the only one who knows how far it is. So it asks for a head start when it is
// refused, at the server, where whoever gives the lock up next finds that. Who then waited in vain
// ends it: so it costs the others one wait, whatever became of the one who needed it.
//
// (Rejected: to learn it from how often nobody took the lock. Who listens need not want it, and
// while somebody far away comes too late, that looks the same.)
type courtesy struct {
	others queue.Handover // how many are still to be let go first
	stay   time.Duration  // for how long each
	vain   time.Duration  // for how long nobody took it, just now
	asked  time.Duration  // for the longest head start that it asked for itself: that one ends with its grant
}

// giveWay lets another client go first, if this one gave the lock up for some that have not had
// their turn yet. A client does that once for each of them: after its own release, and after those
// that it hears of from then on. So the processes of a busy machine take turns, and none is left
// out because it is slower than the others. (Rejected: to stay away until so many have released the
// lock. Some only listen, and nobody would take it.)
//
// heard has a token when another client releases the lock, if somebody listens for that already.
// Where one that is far away is waited for, the nearer ones may have several turns in that time,
// and each is counted.
func (c *courtesy) giveWay(wait context.Context, b *Lock, heard <-chan struct{}) error {
	if c.others <= 0 {
		return b.Over(wait)
	}
	c.others--
	switch {
	case c.stay == giveWayFor:
		heard = nil // of what comes in this short time is heard afterwards
	case heard == nil:
		ear := make(turns, 1)
		sub := b.Client.hub.Listen(b.wire.Channel(), ear)
		defer sub.Close()
		heard = ear
	}
	timer := time.NewTimer(c.stay)
	defer timer.Stop()
	for {
		select {
		case <-heard:
			if c.others--; c.others < 0 { // all have had theirs
				c.others = 0
				return b.Over(wait)
			}
			timer.Reset(c.stay)
			continue
		case <-timer.C:
			if c.stay > giveWayFor {
				c.vain = c.stay
			}
		case <-wait.Done():
		case <-b.Client.ctx.Done():
		}
		return b.Over(wait)
	}
}

// turns has a token when another client has released the lock.
type turns chan struct{}

var _ pubsub.Listener = turns(nil)

// Message is [pubsub.Listener].
func (t turns) Message(string) {
	select {
	case t <- struct{}{}:
	default:
	}
}

// Look is [pubsub.Listener]. What may have been missed is not waited for for long.
func (turns) Look(bool) {}

// wish is how a holder hears that somebody else wants its lock.
type wish struct {
	once sync.Once
	came chan struct{}
}

func newWish() *wish { return &wish{came: make(chan struct{})} }

func (w *wish) come() { w.once.Do(func() { close(w.came) }) }
