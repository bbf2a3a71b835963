package remote

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Clock is what a client knows of its server's clock. It has two uses. A request that takes a lock
// says until when the server may execute it. So a request that the network delays for longer
// refuses itself, and does not take the lock after its caller has left. And package redlock
// proposes tokens to masters by what their clocks show.
//
// No lock is trusted because of a Clock. It is wrong when the server's clock was set, when another
// server took over, or when the nodes of a cluster disagree. Then either a request is refused once,
// and the refusal has the right time; or a late request is not refused, until the next answer has
// the right time. So a request needs no margin for clocks that run at different rates. But the
// moment after which no request is executed any more needs one, because the last answer may be
// hours old by then. See [Clock.closed].
//
// A Clock keeps an interval for how far the server's clock is ahead of ours: the server read its
// clock after the request was sent and before the answer came. Answers make the interval narrower.
// An answer that contradicts earlier ones replaces them. (Rejected: to keep the newest answer only.
// Delays would add up: a request that came late, but in time, makes the clock seem further ahead to
// the next request.)
type Clock struct {
	start   time.Time     // our times count from here, so setting our clock does not matter
	attempt time.Duration // how long a request may be under way

	mu            sync.Mutex // guards the rest; never held over a network call
	known         time.Time  // since when the server's clock is known; zero: it is not
	atLeast, most int64      // microseconds that the server's clock is ahead
	seen          time.Time  // when the last answer came
	// atLeast by the last answer alone: the interval may be narrower than clocks of different rates
	// allow
	newest int64
	late   int       // how many requests in a row were refused
	open   time.Time // until then the server may execute a request that was sent
}

const (
	// transit is how long a request may be under way beyond the time that go-redis waits for its
	// answer.
	transit = time.Second
	// usualRead is the most that is assumed of go-redis's ReadTimeout, which is 5 s by default. A
	// slower request is refused, and sent again with more time. That costs a slow client one more
	// round trip, and saves all others the longer wait for stragglers.
	usualRead = 3 * time.Second
	// maxLate limits how often the time of requests is doubled where the network is slow.
	maxLate = 5
)

// newClock makes the Clock of a server that has not answered yet.
func newClock(rdb redis.UniversalClient) Clock {
	read := time.Duration(0)
	switch r := rdb.(type) {
	case *redis.Client:
		read = r.Options().ReadTimeout
	case *redis.ClusterClient:
		read = r.Options().ReadTimeout
	}
	if read <= 0 || read > usualRead {
		read = usualRead
	}
	return Clock{start: time.Now(), attempt: transit + read}
}

func (k *Clock) micros(t time.Time) int64 { return t.Sub(k.start).Microseconds() }

// Limit returns until when the server may execute a request that is sent now, in microseconds of
// the server's clock. It is 0 while that clock is not known. Then the server refuses the request,
// and the refusal has the time.
func (k *Clock) Limit() int64 {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known.IsZero() {
		return 0
	}
	attempt := k.attempt << min(k.late, maxLate)
	until := now.Add(attempt)
	unsure := time.Duration(k.most-k.newest) * time.Microsecond
	if open := until.Add(unsure + until.Sub(k.seen)/watchdog.Drift); open.After(k.open) {
		k.open = open
	}
	return max(k.micros(until)+k.most, 0)
}

// isKnown reports whether anything is known of the server's clock.
func (k *Clock) isKnown() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.known.IsZero()
}

// At returns the latest time that the server's clock may show at t, in microseconds. It is 0 if
// nothing is known of that clock.
func (k *Clock) At(t time.Time) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known.IsZero() {
		return 0
	}
	return max(k.micros(t)+k.most, 0)
}

// Saw notes the server's time from an answer that has just come. The request was sent at sent.
func (k *Clock) Saw(sent time.Time, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sawLocked(sent, text)
	k.late = 0
}

func (k *Clock) sawLocked(sent time.Time, text string) {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}
	now := time.Now()
	atLeast, most := micros-k.micros(now), micros-k.micros(sent)
	k.seen, k.newest = now, atLeast
	if k.known.IsZero() || atLeast > k.most || most < k.atLeast {
		k.known, k.atLeast, k.most = now, atLeast, most
		return
	}
	k.atLeast, k.most = max(k.atLeast, atLeast), min(k.most, most)
}

// Refused is [Clock.Saw] for a request that came too late. Later requests get more time, in case
// the network is slow.
func (k *Clock) Refused(sent time.Time, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known.IsZero() && sent.After(k.known) {
		k.late++
	}
	k.sawLocked(sent, text)
}

// closed returns the time from which on the server refuses all requests that were sent up to now.
func (k *Clock) closed() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// LearnClock asks a server for its clock, unless the clock is known. It returns why that failed.
// (Rejected for quorums: to send a first request that the server refuses as late, so that the
// refusal has the time. A vote must propose a token by that time.)
func (s *Server) LearnClock(ctx context.Context) (err error) {
	if s.Clock.isKnown() {
		return nil
	}
	defer panics.Into(&err)
	sent, cmd := time.Now(), timeCmd{redis.NewTimeCmd(ctx, "time")}
	_ = s.redis.Process(ctx, cmd) // the command keeps its error
	shown, err := cmd.Result()
	if err == nil {
		s.Clock.Saw(sent, strconv.FormatInt(shown.UnixMicro(), 10))
	}
	return err
}

// timeCmd is a TIME command that go-redis does not repeat. A repeated command takes longer than
// anybody waits for the answer, and shows the time less exactly.
type timeCmd struct{ *redis.TimeCmd }

// NoRetry is called by go-redis.
func (timeCmd) NoRetry() bool { return true }

// SetTimeout and TakeTimeout have it bounded as scripts are, see timeouts.
func (timeCmd) SetTimeout(time.Duration) {}

// TakeTimeout is that of a command without a timeout of its own.
func (timeCmd) TakeTimeout() time.Duration { return 0 }
