package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// undoPauses are the pauses before the releases of one undo. Redis may execute a straggler, a command that was sent on a
// connection which we gave up, after a release sent later: one release is not enough. The second one is sent after the
// server answered the first, and so read all that had reached it by then; the later ones are for what was still
// under way in the network.
var undoPauses = []time.Duration{0, 0, 100 * time.Millisecond, time.Second}

// longestPause is between two releases that the server did not answer: the pauses double up to it.
const longestPause = 30 * time.Second

// undo is [server.undo]. The owner id is not used any more because a release that is still to be sent must not find a later grant.
func (c *Client) undo(b *Base, names kind.Names, lease time.Duration, stray bool) {
	if control.Undo.Off() {
		return
	}
	limit := time.Now().Add(lease)
	for _, pause := range undoPauses {
		if !b.client.pause(pause) || !c.giveBack(b, names, limit) || !stray || control.UndoAgain.Off() {
			return
		}
	}
}

// giveBack gets one release to the server. While that cannot be reached it goes on trying until the lease would have ended
// by itself or the client is closed; it reports whether there was an answer.
func (c *Client) giveBack(b *Base, names kind.Names, limit time.Time) bool {
	release := b.release(names)
	for pause := lastBackoff; ; pause = min(2*pause, longestPause) {
		o := c.repeatFor(context.Background(), b.client, release, nil)
		if o.err == nil {
			return true
		}
		log := b.client.opts.Logger.With("kind", b.key.Kind, "name", b.key.Name, "owner", names[0], "error", o.err)
		if time.Now().After(limit) || control.UndoAgain.Off() || !b.client.pause(pause) {
			log.Warn("could not give back a lock that may have been granted; its lease ends it")
			return false
		}
		log.Info("cannot give back a lock that may have been granted; trying again", "pause", pause)
	}
}

// pause waits, but not for a client that is closing; it reports whether the time passed.
func (c *Client) pause(d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}
