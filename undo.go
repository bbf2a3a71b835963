package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
)

// undoPauses are the pauses before the releases of one undo. Redis may execute a straggler, a command that was sent on a
// connection which we gave up, after a release sent later: one release is not enough. The second one is sent after the
// server answered the first, and so read all that had reached it by then; the later ones are for what was still
// under way in the network.
var undoPauses = []time.Duration{0, 0, 100 * time.Millisecond, time.Second}

// undo gives back in the background what the server may have granted. The owner's id is not used again: the releases, which
// are still to be sent for a while, must not find a later grant under it.
func (g *grant) undo() {
	g.markStray()
	g.base.client.tasks.Go(func() { g.base.undoNow(g.id) })
}

// undoNow is undo for a caller that is in the background already. It is bounded by the retry budget per release; where
// that is not enough the lease ends by itself.
func (b *Base) undoNow(id string) {
	c := b.client
	if control.Undo.Off() {
		return
	}
	release := (&grant{base: b, id: id}).release
	for _, pause := range undoPauses {
		if pause > 0 && !c.pause(pause) {
			return // closing: those two were for the unlikely
		}
		if o := c.detached(context.Background(), release); o.err != nil {
			c.opts.Logger.Warn("could not give back a lock that may have been granted; its lease will end it",
				"kind", b.key.Kind, "name", b.key.Name, "owner", id, "error", o.err)
			return
		}
		if control.UndoAgain.Off() {
			return
		}
	}
}

// pause waits, but not for a client that is closing; it reports whether the time passed.
func (c *Client) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}
