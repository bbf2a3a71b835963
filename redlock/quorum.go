package redlock

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/watchdog"
)

// quorum is the masters that grant one lock together: the owner that has the votes of a majority
// holds the lock.
//
// One client is the home of the lock's holds: its queue, owners and watchdog serve them, and its
// Close ends them. The other clients only provide connections. See [homeOf].
type quorum struct {
	base   *engine.Lock
	voter  kind.Voter
	voters []*voter
	all    []int         // the masters, by their places in voters. Never written
	need   int           // the number of masters that is a majority
	last   atomic.Uint64 // the greatest token that this process has seen of the lock
}

// voter is one master of the lock.
type voter struct {
	*master.Master
	client   *engine.Client
	place    string // its name in errors
	sequence sequence
}

// sequence keeps the commands about one lock to one master in order. A release comes after the vote
// that it undoes, and the next vote comes after the release. If a command takes long, the next one
// does not wait for it, because another connection may be better.
type sequence struct {
	mu   sync.Mutex
	last chan struct{} // closed when the last command has its answer; nil at first
}

// enter returns the channel to wait for before sending, and the channel to close when the answer
// has arrived.
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
	others := make([]*engine.Client, 0, len(clients)-1)
	for i, c := range clients {
		q.all = append(q.all, i)
		if c != b.Client {
			others = append(others, c)
		}
		place := strconv.Itoa(i + 1)
		if rdb, ok := c.Redis().(*redis.Client); ok {
			place += " (" + rdb.Options().Addr + ")"
		}
		q.voters = append(q.voters, &voter{Master: asMaster(c), client: c, place: place})
	}
	b.Use(q)
	b.Beside(others)
	return q
}

// Traits is [engine.Backend.Traits].
func (q *quorum) Traits() engine.Traits { return engine.Traits{Several: true, HandsOff: true} }

// Where lists the masters' addresses, sorted, whatever the order of the clients.
func (q *quorum) Where() string {
	places := make([]string, len(q.voters))
	for i, v := range q.voters {
		places[i] = v.client.Where()
	}
	slices.Sort(places)
	return strings.Join(places, ",")
}

// Check is [engine.Backend.Check].
func (q *quorum) Check(cfg *engine.Settings) error {
	if trust := watchdog.Trust(cfg.Lease); patienceOf(cfg) >= trust {
		return errs.Invalid("MasterTimeout is %v, and a lease of %v is trusted for %v; use a shorter timeout or a longer lease",
			patienceOf(cfg), cfg.Lease, trust)
	}
	return nil
}

// Renewer is [engine.Backend.Renewer].
func (q *quorum) Renewer() engine.Renewer { return votes{q.base.Client} }

// NewAcquirer is [engine.Backend.NewAcquirer].
func (q *quorum) NewAcquirer(string) engine.Acquirer { return &quorumAcquirer{q: q} }

// Silent is [engine.Backend.Silent]: fewer masters than a majority answer.
func (q *quorum) Silent(p remote.Patience) bool {
	speaking := 0
	for i := range q.voters {
		if !q.isSilent(i, p) {
			speaking++
		}
	}
	return speaking < q.need
}

// isSilent reports whether a master is silent. Each vote waits for several goroutines, so the delays of a process that has
// no time for them count several times.
func (q *quorum) isSilent(i int, p remote.Patience) bool {
	return q.voters[i].Silent(p.Known+3*q.base.Client.Server().Late(), p.New)
}

// isDown reports whether fewer masters than a majority were reached when they were asked last, however long
// ago that was.
func (q *quorum) isDown() bool {
	return q.Silent(remote.Patience{Known: math.MaxInt64 / 8, New: math.MaxInt64 / 8})
}

// NoAnswer is [engine.Backend.NoAnswer].
func (q *quorum) NoAnswer() error { return errs.WithCause(remote.ErrSilent, q.Unreached()) }

// Unreached is [engine.Backend.Unreached].
func (q *quorum) Unreached() error {
	for _, v := range q.voters {
		if failure := v.Failure(); failure != nil {
			return fmt.Errorf("%s: %w", v.place, failure)
		}
	}
	return nil
}

// Explain is [engine.Backend.Explain].
func (q *quorum) Explain(err error) error {
	name := q.voter.Name()
	return remote.Explain(err, name, remote.ALock, keys.For(name).Token)
}

// lockHome is where the locks of a list of clients belong.
type lockHome struct {
	home    *engine.Client // the client that the holds belong to
	servers string         // distinguishes these locks from those of other clients
}

// homes has the lock homes that a client remembers.
type homes struct {
	// the homes, by the ids of the clients in a list whose first client this is. A concurrent map,
	// because a lock may be made for each call, by many goroutines at once
	lists sync.Map

	mu sync.Mutex // guards of
	of map[string]*engine.Client
}

func homesOf(c *engine.Client) *homes {
	return engine.Attached(c, func(*engine.Client) *homes { return new(homes) })
}

// homeOf returns the home of the locks of these clients, the same whatever their order. The home is
// the first client of the first list that a lock was made with, until that client is closed. The
// client with the least id remembers which client is the home. (Rejected: the client with the least
// id is the home. Users who close clients would not know which client that is.)
func homeOf(clients []*engine.Client) lockHome {
	list := ""
	for _, c := range clients {
		list += " " + c.ID()
	}
	lists := &homesOf(clients[0]).lists
	if known, ok := lists.Load(list); ok && known.(lockHome).home.Context().Err() == nil {
		return known.(lockHome)
	}
	sorted := slices.SortedFunc(slices.Values(clients),
		func(a, b *engine.Client) int { return strings.Compare(a.ID(), b.ID()) })
	s := lockHome{}
	for _, c := range sorted {
		s.servers += " " + c.ID()
	}
	s.home = homesOf(sorted[0]).keep(s.servers, clients[0])
	lists.Store(list, s)
	return s
}

// keep returns the home of these servers. If there is none, the given client becomes the home.
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
		if prefix, first := c.Prefix(), clients[0].Prefix(); prefix != first {
			return errs.Invalid("Options.Prefix of clients[%d] is %q, and that of clients[0] is %q; give all masters of a lock the same",
				i, prefix, first)
		}
		for j, other := range clients[:i] {
			if other == c {
				return errs.Invalid("clients[%d] and clients[%d] are the same; give one client for each independent master", j, i)
			}
		}
	}
	return nil
}

// asMaster returns what quorums know about a client's server. The first call adds a hook to the
// go-redis client.
func asMaster(c *engine.Client) *master.Master {
	return engine.Attached(c, func(c *engine.Client) *master.Master { return master.New(c.Redis()) })
}

// patienceOf is how long the lock waits for a master.
func patienceOf(c *engine.Settings) time.Duration {
	if c.MasterTimeout > 0 {
		return c.MasterTimeout
	}
	return min(DefaultMasterTimeout, c.Lease/4)
}

// propose returns a token that is greater than all tokens of the lock that this process has seen,
// and not below the masters' clocks. So tokens go on growing even if the masters forget the last
// ones. While too few clocks are known, see [ballot.learnClocks], the token is too small, and the winner
// raises it.
func (q *quorum) propose() uint64 { return max(q.majorityTime(time.Now()), q.last.Load()+1) }

// majorityTime is the greatest time that a majority of the masters shows at a moment, in microseconds; 0
// if too few clocks are known. A clock is known only within bounds, and majorityTime uses the latest
// time that it may show. So the result is not below a token that any client was granted before, unless
// that token was further ahead of the masters' clocks than its grant took. Mostly it was not,
// because the uncertainty of a clock is less than the shortest earlier round trip.
//
// So wrong clocks of a minority do no harm while all clocks are known, and the clocks of other
// machines never matter. (Rejected: this machine's wall clock. If it is ahead, its token would be
// above all tokens that other machines get after the masters have forgotten it. Also rejected: the
// greatest time of all masters, because one master that is ahead does the same when it fails.)
func (q *quorum) majorityTime(t time.Time) uint64 {
	times := make([]int64, len(q.voters))
	for i, v := range q.voters {
		times[i] = v.client.Server().Clock.At(t)
	}
	slices.Sort(times)
	return uint64(times[len(times)-q.need]) //nolint:gosec // at least 0
}

// noteToken notes a token that this process has seen.
func (q *quorum) noteToken(token uint64) {
	for {
		last := q.last.Load()
		if token <= last || q.last.CompareAndSwap(last, token) {
			return
		}
	}
}

// duplicates returns an error if two of the clients are known to reach the same server.
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
