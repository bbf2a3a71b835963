package watchdog

import "time"

// maxInFlight is how many batches of a lane are under way at most. More than one, because one may
// be stuck on a dead connection while the others reach the server; few, so that 100 000 leases cost
// no more goroutines than one.
const maxInFlight = 4

// lanes are what [Config.Lane] keeps apart, as long as something of theirs is under way. All of it
// is guarded by the watchdog's mutex.
type lanes map[any]*lane

type lane struct {
	inFlight int      // batches that have their place
	parked   []parked // due, and there was no place; oldest first
}

// parked is a lease that is in no heap of turns. It may be put there meanwhile, or be forgotten:
// then this means nothing any more.
type parked struct {
	l    *Lease
	life uint64
	at   time.Duration // its turn
}

// batch is what one call of Renew gets.
type batch struct {
	lane     any
	renewals []Renewal
}

// full reports whether a batch of the lane has to wait.
func (s lanes) full(key any) bool {
	ln := s[key]
	return ln != nil && ln.inFlight >= maxInFlight
}

// take gives a batch its place.
func (s lanes) take(key any) {
	if s[key] == nil {
		s[key] = &lane{}
	}
	s[key].inFlight++
}

// park takes a lease out of the way until the lane has a place.
func (w *Watchdog) park(key any, l *Lease, at time.Duration) {
	w.turns.remove(l)
	ln := w.lanes[key]
	ln.parked = append(ln.parked, parked{l, l.life, at})
}

// leaveLocked gives the place of a batch back, and lets those who wait for one look again: no more
// than go together. They may be of another lane by now, and then nobody of this one would come back
// to wake the next: the last batch wakes all.
func (w *Watchdog) leaveLocked(key any) {
	ln := w.lanes[key]
	ln.inFlight--
	n := min(len(ln.parked), w.cfg.MaxBatch)
	if ln.inFlight == 0 {
		n = len(ln.parked)
	}
	for _, p := range ln.parked[:n] {
		if p.l.life == p.life && p.l.place[turns] == 0 {
			w.put(&w.turns, p.l, p.at)
		}
	}
	clear(ln.parked[:n])
	ln.parked = ln.parked[n:]
	if ln.inFlight == 0 && len(ln.parked) == 0 {
		delete(w.lanes, key)
	}
}
