package remote

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
)

const (
	// promptly is how long a prompt answer takes at most. For so long a caller can be kept whose
	// context ends, so it is far below what anybody would notice.
	promptly = 10 * time.Millisecond
	// fresh is for how long a prompt answer says that the next one will be prompt too. Who asks
	// once in a while does not notice what a goroutine costs, and has to be able to leave.
	fresh = time.Second
	// doubtful is for how long a command without an answer says that there will be others. Where
	// one connection after the other turns out to be dead, those that work answer promptly.
	doubtful = 10 * time.Second
)

// pulse is what is known of how promptly a server answers. It does not promise that the next answer
// is prompt: a server that stalls is noticed when the first command under way is overdue, and those
// that were sent until then wait for as long as go-redis does.
//
// Commands are in a list, and not counted, because one that is overdue has to be seen among others
// that are not: each connection may break by itself.
type pulse struct {
	mu       sync.Mutex // guards the rest; never held over a network call
	oldest   *beat      // of the commands under way, in the order in which they were sent
	newest   *beat
	unused   *beat
	answered time.Time // when the last prompt answer was there; zero if the last one was late
	silent   time.Time // when the last command ended without an answer
	failed   time.Time // the same, but for those whose caller left; or when a connection was refused
	last     time.Time // when the last answer was there, prompt or not
	opened   time.Time // when the last connection was
	// From when to when questions were under way since then whose callers left; zero: there were none.
	asked, left time.Time
	// unreached is why the last connection was not opened; nil since one was, or since an answer.
	unreached error
}

// beat is one command under way.
type beat struct {
	sent        time.Time
	older, next *beat
}

// begin notes that a command is being sent.
func (p *pulse) begin() *beat {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.unused
	if b == nil {
		b = &beat{}
	} else {
		p.unused = b.next
	}
	b.sent, b.older, b.next = now, p.newest, nil
	if p.newest == nil {
		p.oldest = b
	} else {
		p.newest.next = b
	}
	p.newest = b
	return b
}

// end notes that a command has ended: with an answer, which a refusal of the server is too, or with an
// error. That its caller left before it was sent says nothing.
func (p *pulse) end(b *beat, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case combine.IsNotSent(err):
	case err != nil && !errs.IsReply(err):
		p.answered, p.silent = time.Time{}, now
		if !IsContext(err) {
			p.failed = now
		}
	case now.Sub(b.sent) < promptly:
		p.answered, p.last, p.asked, p.unreached = now, now, time.Time{}, nil
	default:
		p.answered, p.last, p.asked, p.unreached = time.Time{}, now, time.Time{}, nil
	}
	p.removeLocked(b)
}

// leave is end for a command whose caller did not wait for its answer as long as go-redis would, because
// its time was over. It says nothing of connections.
func (p *pulse) leave(b *beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered = (time.Time{}); p.asked.IsZero() || b.sent.Before(p.asked) {
		p.asked = b.sent
	}
	p.left = time.Now()
	p.removeLocked(b)
}

// dialled notes how the opening of a connection has ended that began at a time. over is why nobody waited for it
// any longer: that is no failure of the server. Neither is a refusal from before the server was reached,
// which a busy process may note late.
func (p *pulse) dialled(begun time.Time, err, over error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.unreached, p.opened = nil, now
	case begun.Before(p.opened), begun.Before(p.last):
	default:
		if p.unreached = err; over == nil && !IsContext(err) {
			p.failed = now
		}
	}
}

func (p *pulse) whyUnreached() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unreached
}

func (p *pulse) removeLocked(b *beat) {
	if b.older == nil {
		p.oldest = b.next
	} else {
		b.older.next = b.next
	}
	if b.next == nil {
		p.newest = b.older
	} else {
		b.next.older = b.older
	}
	b.next, p.unused = p.unused, b
}

// prompt reports whether the server has just answered promptly, and no command is overdue.
func (p *pulse) prompt() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.answered.IsZero() && now.Sub(p.answered) < fresh &&
		(p.silent.IsZero() || now.Sub(p.silent) >= doubtful) &&
		(p.oldest == nil || now.Sub(p.oldest.sent) < promptly)
}

// answeredLately reports whether there was an answer in the last second, prompt or not.
func (p *pulse) answeredLately() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.last.IsZero() && time.Since(p.last) < fresh
}

// isSilent is [Server.Silent]. Where many wait for an answer each may be late, but there are answers. And
// where a process has no time, its callers may leave before one of them has asked.
func (p *pulse) isSilent(patience time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, left := p.asked, p.left
	if p.oldest != nil {
		if left = time.Now(); asked.IsZero() {
			asked = p.oldest.sent
		}
	}
	return p.last.IsZero() || p.failed.After(p.last) ||
		time.Since(p.last) >= patience && !asked.IsZero() && left.Sub(asked) >= patience/2
}

// pulses are those of the masters of a cluster. A server that is alone has one, by the name nil.
type pulses struct {
	mu sync.Mutex // guards the rest
	of map[*redis.Client]*pulse
}

// maxPulses is how many masters are remembered, because masters come and go.
const maxPulses = 1024

func (ps *pulses) get(master *redis.Client) *pulse {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.of[master]
	if p == nil {
		if ps.of == nil || len(ps.of) >= maxPulses {
			ps.of = make(map[*redis.Client]*pulse)
		}
		p = &pulse{}
		ps.of[master] = p
	}
	return p
}
