package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// If others want a lock too, a client asks one master first, the lead, and the other masters only
// if the lead grants the lock. So all clients that want the lock compete at one master and do not
// split the votes. The lead's answer only decides the order and is never final: the owner that
// holds the lead may have no majority, and may be dead.

// lead returns that master. It is the same for all clients that want the lock, whatever the order
// of their lists, and it differs between names (rendezvous hashing: Thaler and Ravishankar, 1998).
// lead passes over silent masters, masters that are much slower than the others, and masters that
// an owner without a majority is known to hold. It returns none if no master is known. If processes
// choose different leads, votes may be split, and nothing worse happens.
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

// slow is the pace from which on a master is too slow to be asked before the others.
func (q *quorum) slow() time.Duration {
	paces := make([]time.Duration, len(q.voters))
	for i, v := range q.voters {
		paces[i] = v.Pace()
	}
	slices.Sort(paces)
	return 4*paces[(len(paces)-1)/2] + 5*time.Millisecond
}

// score is the FNV-1a hash of both. It must be the same in all processes.
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

// contest is what one acquisition knows about others that want the lock. Only the acquiring
// goroutine uses it.
type contest struct {
	on        bool      // there are others
	ahead     string    // the owner that had the lead's vote at the last attempt
	retryAt   time.Time // when to try again without an announcement
	notBefore time.Time // no attempt before this time, even after an announcement
}

// passes reports whether to ask the other masters although the lead has granted the lock to that
// owner. An owner that got the lead since the last attempt may be about to get the other masters
// too, so it is not disturbed. An owner that had the lead before, and has announced no release
// since, may be dead, or unable to reach the lead.
func (c *contest) passes(owner string) bool {
	before := c.ahead
	c.ahead = owner
	return owner == before && !time.Now().Before(c.retryAt)
}

// rivals is what a client remembers about locks that others wanted a moment ago, for its next calls
// of Lock: each call has a contest of its own.
type rivals struct {
	mu    sync.Mutex // guards names and its values; never held over a network call
	names map[queue.Key]*rivalry
}

// rivalry is what is remembered of one lock.
type rivalry struct {
	until time.Time
	lost  map[string]bool // masters, by their runs, that an owner without a majority holds
	// unknown has the last answers of all masters if these did not show who has the lock; else nil.
	unknown *quorumError
	since   time.Time // of unknown
}

const (
	// rivalryFor is how long a lock counts as contested after it was refused.
	rivalryFor = time.Second
	// maxRivalries bounds how many locks are remembered. Further locks are asked for as if no others
	// wanted them.
	maxRivalries = 1024
)

// lately reports whether others wanted the lock a moment ago.
func (r *rivals) lately(key queue.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freshLocked(key) != nil
}

// lost reports whether the owner that holds a master has lost the lock.
func (r *rivals) lost(key queue.Key, run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.freshLocked(key)
	return f != nil && f.lost[run]
}

// unknown returns the answers of all masters from which it was not known whether an owner has the lock, or nil.
// old says that they are so old that they say nothing any more.
func (r *rivals) unknown(key queue.Key, owner string) (e *quorumError, old bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.freshLocked(key)
	if f == nil || f.unknown == nil || f.unknown.tally.votesFor(owner) == 0 {
		return nil, false
	}
	return f.unknown, time.Since(f.since) >= rivalryFor
}

func (r *rivals) freshLocked(key queue.Key) *rivalry {
	if f := r.names[key]; f != nil && time.Now().Before(f.until) {
		return f
	}
	return nil
}

// note notes that the lock was refused, and the answers of its masters. If the answers show that an
// owner has lost, the masters that it holds are not asked first. If they do not show who has the
// lock, unknown has them.
func (r *rivals) note(key queue.Key, p *tally, voters []*voter, need int, won bool, unknown *quorumError) {
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
	if f.unknown != unknown {
		f.unknown, f.since = unknown, time.Now()
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

// rivalryLocked returns the rivalry of a lock that was refused now; nil if there are too many.
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
