package redlock

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/watchdog"
)

// quorum is the masters that grant one lock together: whoever has the votes of a majority holds it.
//
// One client is the home of the lock's holds: its queue, owners and watchdog serve them, and its
// Close ends them. Of the others only the connections are used. See [homeOf].
type quorum struct {
	base   *engine.Lock
	voter  kind.Voter
	voters []*voter
	all    []int         // the masters, by their places in voters. Never written
	need   int           // how many are a majority
	last   atomic.Uint64 // the greatest token that this process has seen of the lock
}

// voter is one master, as this lock sees it.
type voter struct {
	*master.Master
	client   *engine.Client
	place    string // how errors call it
	sequence sequence
}

// sequence keeps what is sent to one master about one lock in order. A release that is to undo a
// vote comes after it, and the next vote comes after the release; unless that takes long, for
// another connection may be better.
type sequence struct {
	mu   sync.Mutex
	last chan struct{} // closed when what was sent last has its answer; nil at first
}

// enter returns what to wait for before sending, and what to close when the answer is there.
func (l *sequence) enter() (before <-chan struct{}, done chan struct{}) {
	done = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.last = l.last, done
	return before, done
}

// newQuorum makes the masters of a lock, and the lock in its base. Errors in the arguments are
// returned by the first operation.
func newQuorum(clients []*engine.Client, v kind.Voter, opts []engine.Option) *quorum {
	var home *engine.Client
	if len(clients) > 0 {
		home = clients[0]
	}
	b := engine.NewBare(home, v, opts)
	q := &quorum{base: b, voter: v, need: len(clients)/2 + 1}
	if err := checkMasters(clients); err != nil {
		b.Err = err
	}
	if b.Err != nil {
		return q
	}
	s := homeOf(clients)
	b.Client, b.Key.Servers = s.home, s.servers
	for i, c := range clients {
		q.all = append(q.all, i)
		place := strconv.Itoa(i + 1)
		if rdb, ok := c.Redis().(*redis.Client); ok {
			place += " (" + rdb.Options().Addr + ")"
		}
		q.voters = append(q.voters, &voter{Master: asMaster(c), client: c, place: place})
	}
	b.Use(q)
	return q
}

// Traits is [engine.Backend.Traits].
func (q *quorum) Traits() engine.Traits { return engine.Traits{Several: true, HandsOff: true} }

// Check is [engine.Backend.Check].
func (q *quorum) Check(cfg *engine.Settings) error {
	if trust := watchdog.Trust(cfg.Lease); patienceOf(cfg) >= trust {
		return errs.Invalid("MasterTimeout is %v, and a lease of %v is trusted for %v; use a shorter timeout or a longer lease",
			patienceOf(cfg), cfg.Lease, trust)
	}
	if cfg.Replicas.N > 0 {
		return errs.Invalid("WithReplicas is for locks that one server grants; a quorum is one of masters without replicas, leave it out")
	}
	return nil
}

// Renewer is [engine.Backend.Renewer].
func (q *quorum) Renewer() engine.Renewer { return votes{q.base.Client} }

// NewBid is [engine.Backend.NewBid].
func (q *quorum) NewBid(string) engine.Bid { return &campaign{q: q} }

// Explain is [engine.Backend.Explain].
func (q *quorum) Explain(err error) error { return remote.Explain(err, q.voter.Name(), false) }

// seat is where the locks of some clients belong.
type seat struct {
	home    *engine.Client // whose the holds are
	servers string         // what sets these locks apart from those of other clients
}

// homes are the seats that a client keeps.
type homes struct {
	// by the ids of a list that it is the first of: a seat. A lock is made for each call, by many
	// at once
	lists sync.Map

	mu sync.Mutex // guards of
	of map[string]*engine.Client
}

func homesOf(c *engine.Client) *homes {
	return engine.Attached(c, func(*engine.Client) *homes { return new(homes) })
}

// homeOf is the seat of the locks of these clients, the same in whatever order they are: the home
// is the first one of the list that a lock was made with first, until that client is closed. The
// client with the least id keeps which one that is. (Rejected: that client itself, for who closes
// clients would not know which one it is.)
func homeOf(clients []*engine.Client) seat {
	list := ""
	for _, c := range clients {
		list += " " + c.ID()
	}
	lists := &homesOf(clients[0]).lists
	if known, ok := lists.Load(list); ok && known.(seat).home.Context().Err() == nil {
		return known.(seat)
	}
	sorted := slices.SortedFunc(slices.Values(clients),
		func(a, b *engine.Client) int { return strings.Compare(a.ID(), b.ID()) })
	s := seat{}
	for _, c := range sorted {
		s.servers += " " + c.ID()
	}
	s.home = homesOf(sorted[0]).keep(s.servers, clients[0])
	lists.Store(list, s)
	return s
}

// keep returns the home of these servers, which is the given client if there is none.
func (h *homes) keep(servers string, first *engine.Client) *engine.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if home := h.of[servers]; home != nil && home.Context().Err() == nil {
		return home
	}
	if h.of == nil {
		h.of = make(map[string]*engine.Client)
	}
	for other, c := range h.of {
		if c.Context().Err() != nil {
			delete(h.of, other)
		}
	}
	h.of[servers] = first
	return first
}

func checkMasters(clients []*engine.Client) error {
	if len(clients) == 0 {
		return errs.Invalid("clients is empty; give one client for each independent master, three or five of them")
	}
	for i, c := range clients {
		switch {
		case c.Check() != nil:
			return errs.Invalid("clients[%d] is nil or a zero Client; make one with holdfast.New for each master", i)
		case c.Server().Cluster != nil:
			return errs.Invalid("clients[%d] is one of a Cluster, in which a name has one master; give one client for each independent master", i)
		}
		for j, other := range clients[:i] {
			if other == c {
				return errs.Invalid("clients[%d] and clients[%d] are the same; give one client for each independent master", j, i)
			}
		}
	}
	return nil
}

// asMaster is what quorums know of a client's server. The first call adds a hook to the go-redis
// client.
func asMaster(c *engine.Client) *master.Master {
	return engine.Attached(c, func(c *engine.Client) *master.Master { return master.New(c.Redis()) })
}

// patienceOf is how long a master is waited for.
func patienceOf(c *engine.Settings) time.Duration {
	if c.MasterTimeout > 0 {
		return c.MasterTimeout
	}
	return min(DefaultMasterTimeout, c.Lease/4)
}

// propose is a token greater than all that this process has seen of the lock, and not below what
// the masters' clocks show, so that tokens go on growing if the masters forget the last ones. While
// too few clocks are known, see [ballot.meet], it is too small, and the winner raises it.
func (q *quorum) propose() uint64 { return max(q.shown(time.Now()), q.last.Load()+1) }

// shown is the greatest time that a majority of the masters shows at a moment, by what is known of
// their clocks, in microseconds; 0 if too few are known. It is the latest that they may show: then
// it is not below a token that was granted before, by any client, unless that one was further ahead
// of the masters than it took it to be granted. Mostly it was not, for what is unsure of a clock is
// less than the shortest round trip before.
//
// So a minority whose clocks are wrong does not matter while all are known, and those of other
// machines never do. (Rejected: the wall clock here. A token of a machine whose clock is ahead
// would be above those of all others that come after the masters have forgotten it. Also rejected:
// the greatest time of all, for then one master that is ahead does the same when it fails.)
func (q *quorum) shown(t time.Time) uint64 {
	times := make([]int64, len(q.voters))
	for i, v := range q.voters {
		times[i] = v.client.Server().Clock.At(t)
	}
	slices.Sort(times)
	return uint64(times[len(times)-q.need]) //nolint:gosec // at least 0
}

// saw notes a token.
func (q *quorum) saw(token uint64) {
	for {
		last := q.last.Load()
		if token <= last || q.last.CompareAndSwap(last, token) {
			return
		}
	}
}

// duplicates is an error if two of the clients reach the same server, as far as is known.
func (q *quorum) duplicates() error {
	for i, v := range q.voters {
		for j, other := range q.voters[:i] {
			if a, b := v.Known(), other.Known(); a != nil && b != nil && a.ID == b.ID {
				return errs.Invalid("clients[%d] and clients[%d] reach the same server (run_id %s); give one client for each independent "+
					"master", j, i, a.ID)
			}
		}
	}
	return nil
}

// first is when the oldest of the masters was started, as far as is known.
func (q *quorum) first() (first time.Time) {
	for _, v := range q.voters {
		if run := v.Known(); run != nil && (first.IsZero() || run.Since.Before(first)) {
			first = run.Since
		}
	}
	return first
}
