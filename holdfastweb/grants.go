package holdfastweb

import (
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/grantrate"
)

// tracks are the looks at the tokens of locks. They are not in the snapshot: a lock that changes hands fast
// is free at some looks, and is not in the list then.
type tracks struct {
	mu sync.Mutex // guards the rest
	of map[key]tracked
}

type tracked struct {
	grantrate.Track
	seen time.Time // by this machine's clock
}

// see adds a look at a lock, and returns how often it is granted.
func (t *tracks) see(k key, l *inspect.Lock, seen time.Time) grantrate.Rate {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := tracked{t.of[k].See(l.At, l.Token), seen}
	if t.of == nil {
		t.of = make(map[key]tracked)
	}
	t.of[k] = now
	return now.Rate()
}

// forget drops what is too old to count.
func (t *tracks) forget(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.of, func(_ key, of tracked) bool { return now.Sub(of.seen) > grantrate.Span })
}

// grants is the rate for people, and what it is in words. A rate of long ago is not shown: the poller looks
// rarely at a lock that is on nobody's page.
func (e *entry) grants(now time.Time) (number, words string) {
	switch {
	case !e.rate.Known || now.Sub(e.seen) > grantrate.Span:
		return "–", "not known: there were too few looks at this lock lately"
	case e.rate.Guessed:
		return e.rate.String(), "guessed from the age of the last grants, which come faster than the page looks"
	}
	return e.rate.String(), "by the fencing tokens of the last half minute"
}

// perSecond is by what a list is sorted: the rate at the last look, and less than none if it was not known.
func (e *entry) perSecond() float64 {
	if !e.rate.Known {
		return -1
	}
	return e.rate.PerSecond
}
