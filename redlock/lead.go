package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// Where others want a lock too, one master is asked first, its lead, and the rest if that one
// grants it: so those who want the lock meet at one master, and do not split the votes. What the
// lead says is a hint, for the order, and never the last word: a master may be held by somebody who
// has no majority, and who is dead.

// lead is that master: the same one for all who want the lock, whatever order their clients are in,
// and another one for other names (rendezvous hashing: Thaler and Ravishankar, 1998). Silent
// masters are passed over, those that are much slower than the others, and those that are known to
// be held by somebody who lost the others. None is if none is known. Where processes see that
// differently, votes may be split, and no more.
func (q *quorum) lead(patience time.Duration) (lead int, ok bool) {
	var best uint64
	slow := q.slow()
	for i, v := range q.voters {
		run := v.Known()
		if run == nil || v.Silence() > patience || v.Pace() > slow || v.client.Context().Err() != nil ||
			q.rivals().lost(q.base.Key, run.ID) {
			continue
		}
		if score := score(q.base.Key.Name, run.ID); !ok || score < best {
			lead, best, ok = i, score, true
		}
	}
	return lead, ok
}

// slow is from what pace on a master is not worth waiting for before the others.
func (q *quorum) slow() time.Duration {
	paces := make([]time.Duration, len(q.voters))
	for i, v := range q.voters {
		paces[i] = v.Pace()
	}
	slices.Sort(paces)
	return 4*paces[(len(paces)-1)/2] + 5*time.Millisecond
}

// score is the FNV-1a hash of both. All processes have to agree on it.
func score(name, id string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{name, id} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	return h
}

func (q *quorum) rivals() *rivals {
	return engine.Attached(q.base.Client, func(*engine.Client) *rivals { return new(rivals) })
}

// contest is what who wants a lock knows of the others that do. It is of the goroutine that
// acquires.
type contest struct {
	on    bool      // there are others
	ahead string    // who had the vote of the lead, as of the last look
	look  time.Time // when to look again if nobody tells
	rest  time.Time // until when not even if somebody does
}

// passes reports whether to ask the other masters although the lead has granted the lock to that
// owner. Who has got it since the last look may be about to get the others too, and is not to be
// disturbed. Who had it before, and did not tell since that it was released, may be dead, or unable
// to reach the lead.
func (c *contest) passes(owner string) bool {
	before := c.ahead
	c.ahead = owner
	return owner == before && !time.Now().Before(c.look)
}

// rivals are what a client remembers of locks that others wanted a moment ago, for those who want
// them next: each call of Lock is a contest of its own.
type rivals struct {
	mu    sync.Mutex // guards names and what they are; never held over a network call
	names map[queue.Key]*rivalry
}

// rivalry is that of one lock.
type rivalry struct {
	until time.Time
	lost  map[string]bool // masters, by their runs, that an owner holds who has no majority
}

const (
	// rivalryFor is how long a lock is taken for contested after it was refused.
	rivalryFor = time.Second
	// maxRivalries bounds what is remembered. Of more locks nothing is: then they are asked for as
	// if nobody wanted them.
	maxRivalries = 1024
)

// lately reports whether others wanted the lock a moment ago.
func (r *rivals) lately(key queue.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freshLocked(key) != nil
}

// lost reports whether a master is held by somebody who has lost the lock.
func (r *rivals) lost(key queue.Key, run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.freshLocked(key)
	return f != nil && f.lost[run]
}

func (r *rivals) freshLocked(key queue.Key) *rivalry {
	if f := r.names[key]; f != nil && time.Now().Before(f.until) {
		return f
	}
	return nil
}

// note notes that the lock was refused, and what its masters said: those that are held by a
// minority that the answers decide against are not asked first.
func (r *rivals) note(key queue.Key, p *tally, voters []*voter, need int, won bool) {
	list := p.rivals()
	decided := won
	for _, rival := range list {
		decided = decided || rival.masters >= need
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.rivalryLocked(key)
	if f == nil {
		return
	}
	for i, v := range voters {
		a, run := &p.answers[i], v.Known()
		if a.err != nil || run == nil {
			continue
		}
		delete(f.lost, run.ID)
		for _, rival := range list {
			if decided && rival.masters < need && a.refuses() && a.holder() == rival.owner {
				f.lost[run.ID] = true
			}
		}
	}
}

// rivalryLocked is that of a lock that was refused now. nil if there are too many.
func (r *rivals) rivalryLocked(key queue.Key) *rivalry {
	f, now := r.freshLocked(key), time.Now()
	if f == nil {
		if len(r.names) >= maxRivalries {
			for other, old := range r.names {
				if !now.Before(old.until) {
					delete(r.names, other)
				}
			}
		}
		if len(r.names) >= maxRivalries {
			return nil
		}
		if r.names == nil {
			r.names = make(map[queue.Key]*rivalry)
		}
		f = &rivalry{lost: make(map[string]bool)}
		r.names[key] = f
	}
	f.until = now.Add(rivalryFor)
	return f
}
