package holdfast

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/master"
)

// quorum is the masters that grant one lock together: whoever has the votes of a majority holds it.
//
// The first client is the home of the lock's holds: its queue, owners and watchdog serve them, and its Close ends them. Of the others
// only the connections are used.
type quorum struct {
	base   *Base
	voter  kind.Voter
	voters []*voter
	all    []int         // the masters, by their places in voters. Never written
	need   int           // how many are a majority
	last   atomic.Uint64 // the greatest token that this process has seen of the lock
	// free are the runs of the masters that all granted the lock together: at that moment nobody else held it, and what they granted since
	// then they know. nil until that has been.
	free atomic.Pointer[[]string]
}

// voter is one master, as this lock sees it.
type voter struct {
	*master.Master
	client *Client
	place  string // how errors call it
	lane   lane
}

// lane keeps what is sent to one master about one lock in order. A release that is to undo a vote comes after it, and the next vote
// comes after the release; unless that takes long, for another connection may be better.
type lane struct {
	mu   sync.Mutex
	last chan struct{} // closed when what was sent last has its answer; nil at first
}

// enter returns what to wait for before sending, and what to close when the answer is there.
func (l *lane) enter() (before <-chan struct{}, done chan struct{}) {
	done = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.last = l.last, done
	return before, done
}

// DefaultMasterTimeout is how long a quorum lock waits for each master at most, see [MasterTimeout].
const DefaultMasterTimeout = 250 * time.Millisecond

// NewQuorumBase is [NewBase] for kinds whose locks are granted by several masters together.
func NewQuorumBase(clients []*Client, v kind.Voter, opts ...Option) *Base {
	var home *Client
	if len(clients) > 0 {
		home = clients[0]
	}
	b := newBase(home, v, opts)
	if b.err == nil {
		b.err = checkMasters(clients)
	}
	if b.err != nil {
		return b
	}
	b.dog = home.votes
	b.quorum = &quorum{base: b, voter: v, need: len(clients)/2 + 1}
	for i, c := range clients {
		b.quorum.all = append(b.quorum.all, i)
		place := strconv.Itoa(i + 1)
		if rdb, ok := c.rdb.(*redis.Client); ok {
			place += " (" + rdb.Options().Addr + ")"
		}
		b.key.Servers += " " + c.id
		b.quorum.voters = append(b.quorum.voters, &voter{Master: c.asMaster(), client: c, place: place})
	}
	return b
}

func checkMasters(clients []*Client) error {
	for i, c := range clients {
		switch {
		case c == nil:
			return invalid("clients[%d] is nil; make one with holdfast.New for each master", i)
		case c.cluster != nil:
			return invalid("clients[%d] is one of a Cluster, in which a name has one master; give one client for each independent master", i)
		}
		for j, other := range clients[:i] {
			if other == c {
				return invalid("clients[%d] and clients[%d] are the same; give one client for each independent master", j, i)
			}
		}
	}
	return nil
}

// asMaster is what quorums know of the client's server. The first call adds a hook to the go-redis client.
func (c *Client) asMaster() *master.Master {
	c.masterOnce.Do(func() { c.master = master.New(c.rdb) })
	return c.master
}

// patience is how long a master is waited for.
func (c *config) patience() time.Duration {
	if c.masterTimeout > 0 {
		return c.masterTimeout
	}
	return min(DefaultMasterTimeout, c.lease/4)
}

// propose is a token greater than all that this process has seen of the lock, and than the clock shows, so that tokens go on growing if the
// masters forget the last ones.
func (q *quorum) propose() uint64 {
	return max(uint64(time.Now().UnixMicro()), q.last.Load()+1) //nolint:gosec // after 1970
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

// lead is the master that is asked first where others want the lock too: the same one for all of them, whatever order their clients are in.
// So they meet at one master, and do not split the votes. None is if none is known.
func (q *quorum) lead(patience time.Duration) (lead int, ok bool) {
	id := ""
	for i, v := range q.voters {
		run := v.Known()
		if run == nil || v.Silence() > patience || v.client.ctx.Err() != nil {
			continue
		}
		if id == "" || run.ID < id {
			lead, id = i, run.ID
		}
	}
	return lead, id != ""
}

// twins is an error if two of the clients reach the same server, as far as is known.
func (q *quorum) twins() error {
	for i, v := range q.voters {
		for j, other := range q.voters[:i] {
			if a, b := v.Known(), other.Known(); a != nil && b != nil && a.ID == b.ID {
				return invalid("clients[%d] and clients[%d] reach the same server (run_id %s); give one client for each independent "+
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
