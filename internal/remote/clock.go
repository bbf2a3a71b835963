package remote

import (
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/watchdog"
)

// Clock is what a client knows of its server's clock. It is for two things: to tell the server
// until when a request may be executed that takes a lock (one that the network delays for longer
// refuses itself, instead of taking the lock for nobody); and to propose tokens to masters by what
// their clocks show, as package redlock does.
//
// Nobody trusts a lock because of it. Where it is wrong (the server's clock was set, another server
// took over, the nodes of a cluster disagree) a request is refused once, and the refusal tells the
// time; or it is not refused although it is late, until the next answer tells the time. So a
// request needs no margin for clocks that run at different rates. The moment after which none is
// executed any more does: what is known of the server's clock may be hours old by then. See
// [Clock.closed].
//
// What is kept is how far the server's clock is ahead of ours, as an interval: the server read its
// clock after the request was sent and before the answer was there. Answers narrow it down, and one
// that contradicts the earlier ones replaces them. (Rejected: only the newest answer. Delays would
// add up, because a request that came late, and was not too late yet, makes the clock seem further
// ahead to the next one.)
type Clock struct {
	start   time.Time     // from which ours counts, so that nobody who sets it matters
	attempt time.Duration // that a request may be under way

	mu            sync.Mutex // guards the rest; never held over a network call
	known         time.Time  // since when the server's clock is; zero: it is not
	atLeast, most int64      // microseconds that it is ahead
	seen          time.Time  // when the last answer was there
	// atLeast by that answer alone: the interval may be narrower than clocks of different rates
	// allow
	newest int64
	late   int       // how many requests in a row were refused
	open   time.Time // until then one that was sent may be executed
}

const (
	// transit is how much longer than go-redis waits for an answer a request may be under way.
	transit = time.Second
	// usualRead bounds what is assumed of go-redis's ReadTimeout, which is 5 s by default. A
	// request that takes longer is refused, and sent again with more time: that costs who is so
	// slow another round trip, and nobody else a wait for what comes late.
	usualRead = 3 * time.Second
	// maxLate bounds by how much more time the requests of a slow way are given.
	maxLate = 5
)

// newClock is for a server of which nothing is known yet.
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

// Limit is until when a request that is sent now may be executed, in microseconds by the server's
// clock. While that is not known it is 0: the request is refused, and the refusal tells the time.
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

// At is the latest that the server's clock may show at a moment, in microseconds, by what is known
// of it; 0 if nothing is.
func (k *Clock) At(t time.Time) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known.IsZero() {
		return 0
	}
	return max(k.micros(t)+k.most, 0)
}

// Saw notes the server's time, in an answer that is there now, to a request that was sent then.
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

// Refused is saw for a request that came too late. The next ones get more time, in case the way is
// slow.
func (k *Clock) Refused(sent time.Time, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known.IsZero() && sent.After(k.known) {
		k.late++
	}
	k.sawLocked(sent, text)
}

// closed is from when on the server refuses all that was sent up to now.
func (k *Clock) closed() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}
