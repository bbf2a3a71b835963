package watchdog

import "time"

// Which heap of a watchdog, and so which of a lease's places.
const (
	ends  = iota // deadlines of all leases
	turns        // when the renewed ones are due
	heaps
)

// leases is a heap by time. A lease knows its place, so that it is moved and removed in O(log n).
// The heap stores the time beside the lease, so that a comparison need not fetch the lease.
//
// It has four children to a node, for fewer places to write in a heap of 100 000. (Rejected:
// container/heap with the time in the lease: one of those took 1.4 times as long for a Watch and
// Forget before 100 000 others as these two take together. Rejected: one heap by whichever comes
// first. A lease that is only watched for its deadline is then in front of leases that could share
// a batch. And when no batch may start, all leases that are due have to be moved out of the way of
// the deadlines behind them.)
type leases struct {
	kind    int
	entries []entry
}

type entry struct {
	at time.Duration // since the watchdog's epoch
	l  *Lease
}

const children = 4

func (h *leases) len() int { return len(h.entries) }

// put adds l, or moves it if it is there.
func (h *leases) put(l *Lease, at time.Duration) {
	i := l.place[h.kind] - 1
	if i < 0 {
		i = len(h.entries)
		h.entries = append(h.entries, entry{})
		h.up(i, entry{at, l})
		return
	}
	h.sift(i, entry{at, l})
}

// remove does nothing if l is not there.
func (h *leases) remove(l *Lease) {
	i := l.place[h.kind] - 1
	if i < 0 {
		return
	}
	l.place[h.kind] = 0
	last := len(h.entries) - 1
	moved := h.entries[last]
	h.entries[last] = entry{}
	h.entries = h.entries[:last]
	if i < last {
		h.sift(i, moved)
	}
}

// sift finds the place of e, beginning at i, whose entry it replaces.
func (h *leases) sift(i int, e entry) {
	if i > 0 && e.at < h.entries[(i-1)/children].at {
		h.up(i, e)
		return
	}
	h.down(i, e)
}

func (h *leases) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / children
		if h.entries[parent].at <= e.at {
			break
		}
		h.set(i, h.entries[parent])
		i = parent
	}
	h.set(i, e)
}

func (h *leases) down(i int, e entry) {
	for {
		first := i*children + 1
		if first >= len(h.entries) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(h.entries)); c++ {
			if h.entries[c].at < h.entries[least].at {
				least = c
			}
		}
		if e.at <= h.entries[least].at {
			break
		}
		h.set(i, h.entries[least])
		i = least
	}
	h.set(i, e)
}

func (h *leases) set(i int, e entry) {
	h.entries[i] = e
	e.l.place[h.kind] = i + 1
}
