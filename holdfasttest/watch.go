package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
)

const (
	// circleAfter is after how long calls that wait for each other fail the test. endless is after how long, in a
	// bubble, a call without a limit does. It is long, because it takes no time, and a timer of the test may
	// still end the wait.
	circleAfter = 10 * time.Second
	endless     = time.Hour
)

// watch knows the calls of a server's clients: the waiters and the holders. It is the observer of all
// clients.
type watch struct {
	server *Server

	mu       sync.Mutex // guards the rest, and all calls
	calls    map[*call]struct{}
	over     bool          // the test has ended
	ended    []string      // what was held, or waited for, then
	occupied []*occupation // those that nobody has released, or lost
	said     chan struct{} // it fails the test because of calls that wait for each other; closed: it has. nil: it does not
}

// call is one Lock or TryLock, until it is refused, or its hold has ended.
type call struct {
	kind, name string
	goroutine  int
	site       string
	since      time.Time
	endless    bool // nothing but the lock ends the wait
	granted    bool
	late       bool // it still waited at the end of the test
	owner      string
	token      uint64
	timer      *time.Timer // of the moment at which it is looked whether it waits in vain; nil: there is none
}

// occupation is a name that somebody else has.
type occupation struct {
	name  string
	ends  time.Time // by the server's clock
	plain string    // the owner of the plain lock that it is, if any
}

type callKey struct{}

func newWatch(s *Server) *watch {
	return &watch{server: s, calls: make(map[*call]struct{})}
}

func (w *watch) observer() *event.Observer {
	return &event.Observer{Waiting: w.waiting, Granted: w.granted, Refused: w.refused, Ended: w.gone}
}

func (w *watch) waiting(ctx context.Context, e event.Wait) context.Context {
	id, _ := goroutine()
	c := &call{kind: e.Kind, name: e.Name, goroutine: id, site: callSite(), since: time.Now(), endless: !e.Once && !e.Bounded}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[c] = struct{}{}
	if c.endless && !w.over {
		w.armLocked(c)
	}
	return context.WithValue(ctx, callKey{}, c)
}

// armLocked sets the moments at which it is looked whether the call can end.
func (w *watch) armLocked(c *call) {
	d, judge := circleAfter, w.circleLocked
	if w.server.bubble {
		d = endless
		if c.kind != "election" {
			judge = w.forEverLocked
		}
	}
	switch stuck := w.server.cfg.stuck; {
	case stuck < 0:
		return
	case stuck > 0:
		d = stuck
	}
	c.timer = time.AfterFunc(d, func() { w.fail(c, judge) })
}

// on is for an event of a call.
func (w *watch) on(ctx context.Context, do func(c *call)) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.disarm()
	do(c)
}

func (w *watch) granted(ctx context.Context, e event.Grant) {
	w.on(ctx, func(c *call) { c.granted, c.owner, c.token, c.since = true, e.Owner, e.Token, time.Now() })
}

func (w *watch) refused(ctx context.Context, _ event.Refusal) {
	w.on(ctx, func(c *call) { delete(w.calls, c) })
}

func (w *watch) gone(ctx context.Context, e event.End) {
	w.on(ctx, func(c *call) {
		delete(w.calls, c)
		if w.over && !c.late && errors.Is(e.Reason, holdfast.ErrClosed) {
			w.ended = append(w.ended, fmt.Sprintf("%s is still held at the end of the test, by %s (token %d), %s", c.lock(), e.Owner,
				e.Token, c.from()))
		}
	})
}

// end notes that what ends from now on did not end by itself. It returns when nothing more is said: a test that
// has ended can no longer fail.
func (w *watch) end() {
	w.mu.Lock()
	said := w.said
	w.endLocked()
	w.mu.Unlock()
	if said != nil {
		<-said
	}
}

func (w *watch) endLocked() {
	w.over = w.said == nil // else the clients are closed already
	for c := range w.calls {
		c.disarm()
		if c.late = !c.granted; w.over && c.late && c.endless {
			w.ended = append(w.ended, fmt.Sprintf("%s still waits at the end of the test", c.wanting()))
		}
	}
}

// left is what was held or waited for when the test ended. The clients have been closed since, and
// so have told of all.
func (w *watch) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

func (c *call) disarm() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *call) lock() string    { return fmt.Sprintf("%s %q", c.kind, c.name) }
func (c *call) from() string    { return fmt.Sprintf("locked at %s (goroutine %d)", c.site, c.goroutine) }
func (c *call) wanting() string { return fmt.Sprintf("a call for %s, %s,", c.lock(), c.from()) }

// fail fails the test if a call has waited in vain, and closes all clients.
func (w *watch) fail(c *call, judge func(*call) string) {
	w.mu.Lock()
	text := ""
	if _, there := w.calls[c]; there && !c.granted && !w.over && w.said == nil {
		if text = judge(c); text != "" {
			w.said = make(chan struct{})
		}
	}
	w.mu.Unlock()
	if text == "" {
		return
	}
	w.server.tb.Errorf("holdfasttest: %s\nall clients are closed, so that the calls return", text)
	close(w.said)
	w.server.wires.speak()
	w.server.close()
}

// circleLocked describes the circle of waits from a call back to itself; empty if there is none. A call
// waits for all holders of the name; in a circle each of them waits too, in the end for the same goroutine.
func (w *watch) circleLocked(c *call) string {
	var chain []string
	if !w.stuckLocked(c, map[int]bool{c.goroutine: true}, &chain) {
		return ""
	}
	return "calls wait for each other:\n" + strings.Join(chain, "\n")
}

// stuckLocked reports whether all holders that a call waits for wait too, for goroutines on the path to
// it.
func (w *watch) stuckLocked(c *call, path map[int]bool, chain *[]string) bool {
	holders := w.holdersLocked(c.name)
	for _, h := range holders {
		*chain = append(*chain, fmt.Sprintf("%s has waited for %s for the hold %s, %s%s", c.wanting(), time.Since(c.since).Round(time.Millisecond),
			h.owner, h.from(), itself(c, h)))
		if path[h.goroutine] {
			continue
		}
		next := w.waitLocked(h.goroutine)
		if next == nil {
			return false
		}
		path[h.goroutine] = true
		if !w.stuckLocked(next, path, chain) {
			return false
		}
	}
	return len(holders) > 0
}

func itself(c, h *call) string {
	if c.goroutine != h.goroutine {
		return ""
	}
	return ": by the same goroutine. To re-enter, lock under the context of that hold"
}

func (w *watch) holdersLocked(name string) (all []*call) {
	for c := range w.calls {
		if c.granted && c.name == name {
			all = append(all, c)
		}
	}
	return all
}

// waitLocked is the endless wait of a goroutine, nil if it is in none.
func (w *watch) waitLocked(goroutine int) *call {
	for c := range w.calls {
		if !c.granted && c.endless && c.goroutine == goroutine {
			return c
		}
	}
	return nil
}

// forEverLocked says who waits, and for whom as far as that is known.
func (w *watch) forEverLocked(c *call) string {
	if text := w.circleLocked(c); text != "" {
		return text
	}
	text := fmt.Sprintf("%s has waited for %s of the bubble's time", c.wanting(), time.Since(c.since).Round(time.Second))
	for _, h := range w.holdersLocked(c.name) {
		text += fmt.Sprintf("\nfor the hold %s, %s", h.owner, h.from())
	}
	now := w.server.wires.clock()
	if slices.ContainsFunc(w.occupied, func(o *occupation) bool { return o.name == c.name && o.ends.After(now) }) {
		text += "\nfor who occupies the name, and has not released it"
	}
	return text
}

// waiters is how many calls wait for a name.
func (w *watch) waiters(name string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.calls {
		if !c.granted && c.name == name {
			n++
		}
	}
	return n
}

// occupy notes that a name is occupied from now on, for the lease at the longest. What it returns notes
// that it is not any more.
func (w *watch) occupy(name string, lease time.Duration, plain string) (release func()) {
	o := &occupation{name, w.server.wires.clock().Add(lease), plain}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.occupied = append(w.occupied, o)
	return func() { w.vacate(func(other *occupation) bool { return other == o }) }
}

// plainly is who occupies a name with a plain lock, if anybody does.
func (w *watch) plainly(name string) (owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.occupied {
		if o.name == name && o.plain != "" {
			owner = o.plain
		}
	}
	return owner
}

// lose notes that nobody occupies a name any more.
func (w *watch) lose(name string) { w.vacate(func(o *occupation) bool { return o.name == name }) }

func (w *watch) vacate(which func(*occupation) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.occupied = slices.DeleteFunc(w.occupied, which)
}
