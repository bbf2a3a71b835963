package engine

import (
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// Uncertainty is what an entry does not know of itself: which of its commands may have run, or may
// run later.
type Uncertainty struct {
	passing atomic.Bool // a command is out that may release the lock: a renewal that does not find it says nothing
	// renewals without an answer, which may still come to the server and lengthen what this owner
	// has then
	unheard atomic.Int32
	last    atomic.Uint64 // of the tokens that are the owner's, as far as is known

	mu     sync.Mutex // guards the rest. It is taken after a grant's; never held over a network call
	stray  bool       // a command may still arrive at the server
	placed bool       // the owner may have a place in the queue of the server
	undone bool       // it is being given back in the background
	// served are those who had the lock as this owner's, in a run: their places are given back with
	// it.
	served []string
}

// MarkStray remembers that the server may have granted this, or may yet: a command for it may still
// be on its way. It is given back at its end, and its owner id is not used again, lest the
// straggler take a lock for nobody, or release one that was granted later.
func (u *Uncertainty) MarkStray() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stray = true
}

// LeaveUndo is MarkStray where the operation that is under way gives it back when it has ended.
func (u *Uncertainty) LeaveUndo() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stray, u.undone = true, true
}

// IsStray reports whether a command may still arrive at the server.
func (u *Uncertainty) IsStray() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stray
}

// SetPlaced notes whether the owner may have a place in the queue of the server, or the lock that
// it was handed without asking: then it is given back, although no command is on its way.
func (u *Uncertainty) SetPlaced(placed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.placed = placed
}

// tainted reports whether something that carries the owner id may still come to the server, be it a
// renewal, or stands there.
func (u *Uncertainty) tainted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stray || u.placed || u.unheard.Load() > 0
}

// TakeUndo reports whether it is to be given back, and then whether there may be a straggler. It
// says so once.
func (u *Uncertainty) TakeUndo() (undo, stray bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	undo = (u.stray || u.placed) && !u.undone
	u.undone = u.undone || undo
	return undo, u.stray
}

// serve notes an owner who has the lock as this one's, and has a place in the queue of the server.
func (u *Uncertainty) serve(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.served = append(u.served, id)
}

// allServed returns them.
func (u *Uncertainty) allServed() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served
}

// takeServed returns them to a caller that has given their places back, or does so.
func (u *Uncertainty) takeServed() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	served := u.served
	u.served = nil
	return served
}

// IsPassing reports whether "not held" in reply to a renewal may be the work of a command that is
// out, and no loss.
func (u *Uncertainty) IsPassing() bool { return u.passing.Load() }

// Passed runs a command that keeps the lock or releases it. Until it is known that it has kept the
// lock, renewals are not believed that do not find it.
func (u *Uncertainty) Passed(run func() remote.Outcome) remote.Outcome {
	u.passing.Store(true)
	o := run()
	if o.Err == nil && o.Reply.Status == lua.Done {
		u.passing.Store(false)
	}
	return o
}

// noteTokens notes the last token of the owner, which grows.
func (u *Uncertainty) noteTokens(last uint64) { u.last.Store(last) }

// noteUnheard notes an extension without an answer.
func (u *Uncertainty) noteUnheard() { u.unheard.Add(1) }

// Sent remembers of a command whether an attempt of it got no answer.
func (u *Uncertainty) Sent(o remote.Outcome) remote.Outcome {
	if o.Stray {
		u.MarkStray()
	}
	return o
}

// Released is sent for a release. One that failed is still to be done.
func (u *Uncertainty) Released(o remote.Outcome) remote.Outcome {
	if o.Stray || o.Err != nil {
		u.MarkStray()
	}
	return o
}
