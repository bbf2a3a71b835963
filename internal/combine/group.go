package combine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Group is a known number of callers who begin together, each in a goroutine of its own. Their
// first commands to one server travel together, whatever else is under way. A [Combiner] alone
// never waits for further commands, and would send the first two of them separately.
//
// A member that turns out to send nothing says so, by Done. The others wait only for a moment for a
// member that neither sends nor says so.
type Group struct {
	mu      sync.Mutex // guards the rest; never held while something is sent
	missing int        // members that have neither sent a command nor called Done
	started bool       // nobody waits for the other members any more
	calls   map[*Combiner][]*call
	timer   *time.Timer
}

// Member is one caller of a group.
type Member struct {
	group *Group
	here  bool // has sent a command or called Done; guarded by the group's mu
}

type memberKey struct{}

// NewGroup makes a group for so many members.
func NewGroup(members int) *Group { return &Group{missing: members} }

// Member makes one of the members, and the context under which it sends.
func (g *Group) Member(ctx context.Context) (context.Context, *Member) {
	m := &Member{group: g}
	return context.WithValue(ctx, memberKey{}, m), m
}

// Done says that the member sends nothing more. It may be called in any case.
func (m *Member) Done() {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.arriveLocked()
}

// arriveLocked notes that the others need not wait for a member. The last member starts the group.
func (m *Member) arriveLocked() {
	if m.here {
		return
	}
	m.here = true
	if m.group.missing--; m.group.missing == 0 {
		m.group.startLocked()
	}
}

// joinGroup adds a command to those of its caller's group. It returns nil if the caller has no
// group, or if the group has started. Otherwise the caller waits for its turn.
func (c *Combiner) joinGroup(ctx context.Context, cmd redis.Cmder, until time.Time) *call {
	m, _ := ctx.Value(memberKey{}).(*Member)
	if m == nil {
		return nil
	}
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.here || g.started {
		return nil
	}
	c.mu.Lock()
	own := c.newCall(ctx, cmd, until)
	c.mu.Unlock()
	if g.calls == nil {
		g.calls = make(map[*Combiner][]*call)
		g.timer = time.AfterFunc(c.patience, g.start)
	}
	g.calls[c] = append(g.calls[c], own)
	m.arriveLocked()
	return own
}

// start has the commands that are there sent.
func (g *Group) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.startLocked()
}

// startLocked tells one call at each server to send, together with the others.
func (g *Group) startLocked() {
	if g.started {
		return
	}
	g.started = true
	if g.timer != nil {
		g.timer.Stop()
	}
	for c, calls := range g.calls {
		c.sendGroup(calls)
	}
	g.calls = nil
}

// sendGroup tells the most patient of some calls to send, together with the others.
func (c *Combiner) sendGroup(calls []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls = slices.DeleteFunc(calls, func(k *call) bool { return k.left })
	for len(calls) > 0 {
		n := min(len(calls), maxBatch)
		at := mostPatient(calls[:n])
		lead := calls[at]
		lead.others = append(append(lead.others, calls[:at]...), calls[at+1:n]...)
		calls = calls[n:]
		c.begin(lead)
		lead.turn <- true
	}
}
