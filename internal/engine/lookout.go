package engine

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// lookout looks at those who wait for long: whether they wait for what their own client holds, and
// whether their waits are in a circle. There is one, in a goroutine of the client's tasks, while anybody
// waits. So a client in which nobody waits has none, and one whose waits are short sends nothing.
//
// What it finds is for people. It changes no wait and no hold.
type lookout struct {
	client *Client
	every  time.Duration // between two looks
	long   time.Duration // how long a wait is that is looked at

	// All is of the lookout's goroutine.

	past    []mark               // of the looks so far, oldest first, as far back as a long wait began
	since   map[uint64]time.Time // by the number of a wait: when it began, at the latest
	blocked blocked
	circles circles
}

// mark is how many waits had begun when.
type mark struct {
	at   time.Time
	come uint64
}

const (
	// mostLooked is how many waits are looked at, the oldest ones: so many of callers that hold other locks, and so
	// many of all others. Each kind has its own number because a crowd that only waits must not hide a circle.
	mostLooked = 256
	// mostSeen is how many waits are gone through for that.
	mostSeen = 1 << 14
	// looksEach is how many looks there are in a long wait, at least.
	looksEach = 4
)

// longWait is a wait that has lasted for long.
type longWait struct {
	old
	g      *grant
	waited time.Duration // at least
	under  []*grant      // what its caller has, as far as that is known
}

// await puts a grant among those who wait. It is called where the wait begins, which may be several
// times. skip is how many frames there are up to Lock.lock.
func (g *grant) await(skip int) {
	b := g.base
	c := b.Client
	b.show()
	if c.waits.enter(&g.asked.stand, g, skip+1+above(c)) && c.opts.LongWait > 0 {
		c.tasks.Go(newLookout(c).run)
	}
}

// arrived notes, for some, where in the program the grant was asked for that a request has now.
func (g *grant) arrived(r *request) {
	g.base.show()
	if g.asked == r && r.how == notify.Asked {
		g.base.Client.waits.noteHolder(&r.stand, g.granted, 1+above(g.base.Client))
	}
}

// above is how many frames there are from Lock.lock up to the kind's method.
func above(c *Client) int {
	if c.observer != nil {
		return 4 // lock, lockObserved, lock, Lock
	}
	return 2 // lock, Lock
}

func newLookout(c *Client) *lookout {
	every := min(c.opts.LongWait/looksEach, deadlock.MostEvery) // or who looks at circles would have to wait for longer
	return &lookout{client: c, long: c.opts.LongWait, every: every, since: make(map[uint64]time.Time)}
}

// run looks until nobody waits.
func (l *lookout) run() {
	defer func() {
		if p := recover(); p != nil { // a context of the user's, or a hook of go-redis
			l.log().Error("who looks at long waits panicked, and is gone", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	defer l.circles.withdraw(l)
	timer := time.NewTimer(l.every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-l.client.ctx.Done():
			return
		}
		if !l.look(time.Now()) {
			return
		}
		timer.Reset(l.every)
	}
}

// look is one look. It reports whether anybody waits.
func (l *lookout) look(now time.Time) bool {
	list, come, alone := l.client.waits.older(l.upTo(now), mostSeen)
	if alone {
		return false
	}
	l.past = append(l.past, mark{now, come})
	long := l.longOnes(list, now)
	l.blocked.look(l, long, now)
	l.circles.look(l, long)
	l.learnLabels()
	return true
}

// upTo is the number of the last wait that has lasted for long.
func (l *lookout) upTo(now time.Time) (number uint64) {
	for len(l.past) > 0 && now.Sub(l.past[0].at) >= l.long {
		if len(l.past) == 1 || now.Sub(l.past[1].at) < l.long {
			return l.past[0].come
		}
		l.past = l.past[1:]
	}
	return 0
}

func (l *lookout) longOnes(list []old, now time.Time) (long []longWait) {
	since := make(map[uint64]time.Time)
	some := make(map[bool]int) // so far: of callers that hold something, and of the others
	for _, o := range list {
		g := o.of.(*grant)
		under := g.under()
		if some[len(under) > 0]++; some[len(under) > 0] > mostLooked {
			continue
		}
		began, known := l.since[o.number]
		if !known {
			began = l.past[0].at
		}
		since[o.number] = began
		long = append(long, longWait{o, g, now.Sub(began), under})
	}
	l.since = since
	return long
}

func (l *lookout) log() *slog.Logger { return l.client.opts.Logger }

// ask bounds a command of the lookout's. Close ends it.
func (l *lookout) ask() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(l.client.ctx, l.client.session.Budget(), remote.ErrBudget)
}

// under is what the caller has that wants the grant, at the same client: the holds under whose contexts
// it was called, whoever their owners are, and all else that its owner has.
func (g *grant) under() (list []*grant) {
	add := func(u *grant) {
		if u != g && u.base.Client == g.base.Client && !slices.Contains(list, u) && u.isLive() && len(list) < deadlock.MostHolds {
			list = append(list, u)
		}
	}
	for h := holdOf(g.asked.ctx); h != nil; h = holdOf(h.parent) {
		for _, u := range h.grants() {
			add(u)
		}
	}
	for _, u := range g.owner.all() {
		add(u)
	}
	return list
}

// grants are those that a hold is part of: several if it is a joined one.
func (h *Hold) grants() (list []*grant) {
	switch on := h.on.(type) {
	case *grant:
		list = append(list, on)
	case *joined:
		for _, one := range on.holds {
			list = append(list, one.grants()...)
		}
	}
	return list
}

// excludes reports whether a wait cannot end while the grant lasts. Of permits nobody knows whose the next ones are.
func (g *grant) excludes(wait *grant) bool {
	mine, theirs := g.base.Key, wait.base.Key
	return g.base.Client == wait.base.Client && mine.Name == theirs.Name && mine.Servers == theirs.Servers &&
		!(mine.Side == kind.Reading && theirs.Side == kind.Reading) && !g.base.traits.NoReentry && !wait.base.traits.NoReentry
}

// inTheWay is who has the lock that is waited for, as was heard last: the owner, and its grant if that is of this
// client and stands in front of the local queue.
func (g *grant) inTheWay() (owner string, here *grant) {
	b := g.base
	if front, _ := b.Client.queue.Front(b.Key).(*grant); front != nil && front != g {
		front.mu.Lock()
		live, id := front.live && front.ended == nil, front.id
		front.mu.Unlock()
		if live {
			return id, front
		}
	}
	note, _ := g.noted()
	return note.Said().Owner, nil
}

// learnLabels asks who the clients are that others of this one wait for, if this one has a label: for
// the errors of waits that end in vain.
func (l *lookout) learnLabels() {
	c := l.client
	if c.opts.Label == "" || len(l.past) < 2 {
		return
	}
	asked := make(map[string]*redis.StringCmd)
	ctx, cancel := l.ask()
	defer cancel()
	pipe := c.rdb.Pipeline()
	list, _, _ := c.waits.older(l.past[len(l.past)-2].come, mostLooked)
	for _, o := range list {
		owner, _ := o.of.(*grant).inTheWay()
		client := remote.ClientIn(owner)
		if client == "" || client == c.id || asked[client] != nil || c.waits.knows(client) || len(asked) >= mostAsked {
			continue
		}
		asked[client] = pipe.Get(ctx, keys.Label(client))
	}
	if len(asked) == 0 {
		return
	}
	pipeline.Exec(ctx, pipe) // each command keeps its own error
	for client, cmd := range asked {
		label, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			continue
		}
		if !keys.IsLabel(label) {
			label = ""
		}
		c.waits.learn(client, label)
	}
}
