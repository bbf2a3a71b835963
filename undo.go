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

// undoNow gives back what the server may have granted to an owner id that nobody uses any more, nor will: a release that is
// still to be sent must not find a later grant. It is for the background, and bounded by the retry budget per release; where
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
