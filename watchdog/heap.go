package watchdog

import "container/heap"

// leases is a heap by the time of the next look. Leases know their place, so that one is removed in O(log n).
type leases []*Lease

func (h leases) Len() int           { return len(h) }
func (h leases) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h leases) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// Push is for container/heap.
func (h *leases) Push(x any) {
	l := x.(*Lease)
	*h = append(*h, l)
	l.place = len(*h)
}

// Pop is for container/heap.
func (h *leases) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.place = 0
	return l
}

func (h *leases) add(l *Lease)    { heap.Push(h, l) }
func (h *leases) remove(l *Lease) { heap.Remove(h, l.place-1) }
func (h *leases) fix(l *Lease)    { heap.Fix(h, l.place-1) }
