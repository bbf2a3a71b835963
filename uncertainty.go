package holdfast

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/lua"
)

// uncertainty is what an entry does not know of itself: which of its commands may have run, or may run later.
type uncertainty struct {
	passing atomic.Bool // a command is out that may release the lock: a renewal that does not find it says nothing
}

// isPassing tells whether "not held" in reply to a renewal may be the work of a command that is out, and no loss.
func (u *uncertainty) isPassing() bool { return u.passing.Load() && !control.Believes.Off() }

// passed runs a command that keeps the lock or releases it. Until it is known that it has kept the lock, renewals are not
// believed that do not find it.
func (u *uncertainty) passed(run func() outcome) outcome {
	u.passing.Store(true)
	o := run()
	if o.err == nil && o.reply.Status == lua.Done {
		u.passing.Store(false)
	}
	return o
}
