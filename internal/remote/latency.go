package remote

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
)

const (
	// promptly is the most that a prompt answer takes. A caller whose context ends can be kept for
	// that time, so it is far below what anybody would notice.
	promptly = 10 * time.Millisecond
	// fresh is how long a prompt answer says that the next one will be prompt too. A caller who asks
	// once in a while does not notice the cost of a goroutine, and must be able to leave.
	fresh = time.Second
	// doubtful is how long a command without an answer says that others may get none either. Where one
	// connection after the other turns out to be dead, those that work answer promptly.
	doubtful = 10 * time.Second
)

// latency is what is known of how promptly a server answers. It does not promise that the next
// answer is prompt. A server that stalls is noticed when the first command under way is overdue.
// The commands that were sent until then wait for as long as go-redis does.
//
// The commands under way are in a list. A count is not enough, because one overdue command must be
// seen among others that are not overdue: each connection may break by itself.
type latency struct {
	mu       sync.Mutex // guards the rest; never held over a network call
	oldest   *inflight  // the commands under way, in the order in which they were sent
	newest   *inflight
	unused   *inflight
	answered time.Time // when the last prompt answer came; zero if the last answer was late
	silent   time.Time // when the last command ended without an answer
	failed   time.Time // the same, without commands whose caller left; or when a connection was refused
	last     time.Time // when the last answer came, prompt or not
	opened   time.Time // when the last connection was opened
	// Since the last answer, commands were under way from asked to left whose callers left, or which were
	// refused as any other. Zero: there were none.
	asked, left time.Time
	// unreached is why the last connection was not opened. It is nil since one was opened, or since an
	// answer.
	unreached error
	// refused is the last refusal to serve this client at all. It is nil since the server has served it.
	refused error
}

// inflight is one command under way.
type inflight struct {
	sent        time.Time
	older, next *inflight
}

// begin notes that a command is being sent.
func (l *latency) begin() *inflight {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.unused
	if c == nil {
		c = &inflight{}
	} else {
		l.unused = c.next
	}
	c.sent, c.older, c.next = now, l.newest, nil
	if l.newest == nil {
		l.oldest = c
	} else {
		l.newest.next = c
	}
	l.newest = c
	return c
}

// end notes that a command has ended: with an answer, which a refusal of this command is too, or with
// an error. If its caller left, it had waited for an answer, for a connection or for its turn. A server that
// serves nobody, or not this client, says nothing of locks. So that is noted as if the caller had left.
func (l *latency) end(c *inflight, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && isUnsent(err):
		l.leftLocked(c, now)
	case err != nil && IsContext(err):
		l.answered, l.silent = time.Time{}, now
		l.leftLocked(c, now)
	case err != nil && !errs.IsReply(err):
		l.answered, l.silent, l.failed = time.Time{}, now, now
	case ServesNot(err):
		l.answered, l.refused = time.Time{}, err
		l.leftLocked(c, now)
	default:
		if l.answered = now; now.Sub(c.sent) >= promptly {
			l.answered = time.Time{}
		}
		l.last, l.asked, l.unreached, l.refused = now, time.Time{}, nil, nil
	}
	l.removeLocked(c)
}

// timeOut is end for a command whose caller's time was over, so that the caller did not wait as
// long as go-redis would. It says nothing of connections.
func (l *latency) timeOut(c *inflight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = time.Time{}
	l.leftLocked(c, time.Now())
	l.removeLocked(c)
}

// leftLocked notes that a command had no answer until now, which may be because its caller has left it.
func (l *latency) leftLocked(c *inflight, now time.Time) {
	if l.asked.IsZero() || c.sent.Before(l.asked) {
		l.asked = c.sent
	}
	l.left = now
}

// dialled notes how an attempt to open a connection has ended, which began at begun. over is why
// the caller stopped waiting for it. An attempt that was called off is not a failure of the server.
// Neither is a refusal from before the server was reached, which a busy process may note late.
func (l *latency) dialled(begun time.Time, err, over error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.unreached, l.opened = nil, now
	case begun.Before(l.opened), begun.Before(l.last):
	default:
		if l.unreached = err; over == nil && !IsContext(err) {
			l.failed = now
		}
	}
}

func (l *latency) whyUnreached() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unreached
}

func (l *latency) whyRefused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

func (l *latency) neverReached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened.IsZero() && l.last.IsZero()
}

func (l *latency) removeLocked(c *inflight) {
	if c.older == nil {
		l.oldest = c.next
	} else {
		c.older.next = c.next
	}
	if c.next == nil {
		l.newest = c.older
	} else {
		c.next.older = c.older
	}
	c.next, l.unused = l.unused, c
}

// isPrompt reports whether the server has just answered promptly, and no command is overdue.
func (l *latency) isPrompt() bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.answered.IsZero() && now.Sub(l.answered) < fresh &&
		(l.silent.IsZero() || now.Sub(l.silent) >= doubtful) &&
		(l.oldest == nil || now.Sub(l.oldest.sent) < promptly)
}

// answeredLately reports whether there was an answer in the last second, prompt or not.
func (l *latency) answeredLately() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.last.IsZero() && time.Since(l.last) < fresh
}

// isSilent is [Server.Silent]. Two cases do not count as silence. Where many callers wait, each
// answer may be late, but there are answers. Where the process gets no processor time, its callers
// may leave before one of them has asked.
func (l *latency) isSilent(p Patience) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, left, patience := l.asked, l.left, p.Known
	if l.last.IsZero() {
		if patience = p.New; patience == 0 {
			return true
		}
	}
	if l.oldest != nil {
		if left = time.Now(); asked.IsZero() {
			asked = l.oldest.sent
		}
	}
	return l.failed.After(l.last) || time.Since(l.last) >= patience && !asked.IsZero() &&
		left.Sub(asked) >= patience/2
}

// latencies are those of the masters of a cluster. A cluster whose master is not known has one too,
// under the key nil.
type latencies struct {
	mu      sync.Mutex // guards the rest; it is taken before those of the latencies
	of      map[*redis.Client]*latency
	reached bool // one was reached that is forgotten, or one before New
}

// maxLatencies is how many masters are remembered, because masters come and go.
const maxLatencies = 1024

func (ls *latencies) get(master *redis.Client) *latency {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of[master]
	if l == nil {
		if ls.of == nil || len(ls.of) >= maxLatencies {
			ls.reached = len(ls.of) > 0
			ls.of = make(map[*redis.Client]*latency)
		}
		l = &latency{}
		ls.of[master] = l
	}
	return l
}

// dialHook notes why connections to a server, or to one node of a cluster, are not opened. go-redis
// dials several times, with pauses, before a command fails. Many callers have left by then, and
// perhaps one dial was made for all of them. So a refused dial counts as a failed command does,
// until there is an answer: another connection may get one.
type dialHook struct{ latencies []*latency }

// DialHook notes how a dial has ended. If go-redis itself has ended it, because no caller waits any
// more, that says nothing of the server.
func (d dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		begun := time.Now()
		conn, err := next(ctx, network, addr)
		over := ctx.Err()
		if err == nil || !errors.Is(over, context.Canceled) {
			for _, l := range d.latencies {
				l.dialled(begun, err, over)
			}
		}
		return conn, err
	}
}

// ProcessHook changes nothing.
func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// watchDials adds the hook. Each node of a cluster also counts for names whose master go-redis does
// not know, for example because go-redis has reached no node. Of a client that was used before, some connections are
// not seen: those that are open, and all of nodes that a cluster's client knows.
func (s *Server) watchDials() {
	switch r := s.redis.(type) {
	case *redis.Client:
		if r.PoolStats().TotalConns > 0 {
			s.latency.opened = time.Now()
		}
		r.AddHook(dialHook{[]*latency{&s.latency}})
	case *redis.ClusterClient:
		r.OnNewNode(func(node *redis.Client) {
			node.AddHook(dialHook{[]*latency{s.nodes.get(node), s.nodes.get(nil)}})
		})
		master, _ := r.MasterForKey(ended, "") // PoolStats would ask a server
		s.nodes.reached = master != nil
	}
}

const (
	// brief is a wait that may end before a healthy server has answered.
	brief = 100 * time.Millisecond
	// forBrief is how long a server must be silent before callers who waited briefly are told of an
	// outage.
	forBrief = time.Second
	// remembered is how long a caller who left late counts.
	remembered = time.Second
)

// Silent reports whether the server that has a name is silent. It is in three cases: it has never answered, see
// [Patience]; since its last answer a command has failed or a connection was refused; or it has answered nothing for as
// long as the patience, and was asked for half of that time. To say that it serves nobody is no answer.
func (s *Server) Silent(name string, p Patience) bool {
	return s.latencyOf(s.MasterOf(name)).isSilent(p)
}

// Unreached returns why the last connection to the server that has a name was not opened. It is nil
// if one was opened since then, or if there was an answer.
func (s *Server) Unreached(name string) error { return s.latencyOf(s.MasterOf(name)).whyUnreached() }

// NeverReached reports whether no connection to the server, or to any node of a cluster, has been opened yet, and there was
// no answer. Then an operation that failed has not happened. A connection may be opened without the hook, as by a clone of
// the user's client. What is sent by it changes nothing before the first answer: it must not be executed later than at a time
// by the server's clock, which is not known, or it follows another answer.
func (s *Server) NeverReached() bool {
	if s.Cluster == nil {
		return s.latency.neverReached()
	}
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	for _, l := range s.nodes.of {
		if !l.neverReached() {
			return false
		}
	}
	return !s.nodes.reached
}

// Patience is for how long a server must have been silent before a caller who leaves is told of an outage.
type Patience struct {
	Known time.Duration // if it has answered this client before
	New   time.Duration // if it has not; 0: that is enough
}

// Patience returns the patience of a caller who leaves now: the whole of the call, unless the call is a brief one. If callers of
// this client leave late, the process gets no processor time, and answers come late for the same reason. That is not silence
// of the server, so the delay of the callers is added. A server that has never answered is silent for every caller, unless
// some are late: ten thousand who come at once to a new client may all have left before one of them has a connection. It
// must then have been asked for so long too, and the delay counts several times, as a first answer waits for many goroutines.
func (s *Server) Patience(wait context.Context, begun time.Time) Patience {
	now := time.Now()
	waited, late := now.Sub(begun), time.Duration(0)
	if end, ok := wait.Deadline(); ok && now.After(end) {
		waited, late = end.Sub(begun), now.Sub(end)
	}
	late = s.lateness.most(now, late)
	if waited+time.Millisecond < brief { // a deadline is a moment older than the call
		waited = forBrief
	}
	p := Patience{Known: waited + late}
	if late > 2*promptly {
		p.New = waited + 4*late
	}
	return p
}

// Late is by how much callers of this client have left late in the last second, at most.
func (s *Server) Late() time.Duration { return s.lateness.most(time.Now(), 0) }

// lateness is by how much callers have left late in the last second.
type lateness struct {
	mu sync.Mutex // guards the rest
	at time.Time
	by time.Duration // the most
}

// most notes by how much a caller is late. It returns by how much the latest caller was.
func (l *lateness) most(now time.Time, late time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if late >= l.by || now.Sub(l.at) >= remembered {
		l.at, l.by = now, late
	}
	return l.by
}
