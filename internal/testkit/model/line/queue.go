package line

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// Store is what all kinds have at the server: the queue and the last token.
type Store struct {
	Queue    Queue
	Token    uint8 // 0: no such key
	TokenTTL uint8
	Clock    uint8 // of the server
}

// NextToken makes a token that is greater than the last and no less than the clock, which goes on: no
// two grants are of one microsecond.
func (s *Store) NextToken(e *Terms) uint8 {
	s.Token = max(s.Token+1, s.Clock)
	s.Clock++
	s.TokenTTL = e.Keep
	return s.Token
}

// Tick is time that passes.
func (s *Store) Tick() {
	if model.Less(&s.TokenTTL) {
		s.Token = 0
	}
	for i := range s.Queue {
		model.Less(&s.Queue[i].Left)
	}
}

// Terms are what scripts are given, and what the server knows beside the keys.
type Terms struct {
	Off                       model.Defence
	Home                      Owners // whose client's a waiter is
	Up                        Set    // clients that listen
	Lease, Claim, Place, Keep uint8
}

// Terms are those of the step that is taken.
func (l *Line) Terms() *Terms {
	l.terms = Terms{
		Off: l.Off, Home: l.Home, Up: l.to.Up, Lease: l.Lease, Claim: l.Claim, Place: l.Place, Keep: model.Endless,
	}
	return &l.terms
}

// ClaimLasts is for how long something is handed over.
func (e *Terms) ClaimLasts() uint8 {
	switch {
	case e.Off.Has(ClaimEnds):
		return model.Endless
	case e.Off.Has(ClaimIsShort):
		return e.Lease
	}
	return e.Claim
}

// Nobody is no client.
const Nobody = 255

// Client tells whose client's an owner is.
func (e *Terms) Client(owner uint8) uint8 {
	if owner == 0 || owner > LastID {
		return Nobody
	}
	w, _ := WaiterOf(owner)
	return e.Home[w]
}

// Place is an entry of the queue at the server: an owner, and for how many ticks its place counts.
// Zero: none.
type Place struct {
	Owner, Left uint8
	Stale       bool // permits: its client let a claim end, and has not been heard of since
}

// Queue are the places, the first one first. Zeros are behind them.
type Queue [MaxPlaces]Place

// At is where an owner stands, -1: nowhere.
func (q *Queue) At(owner uint8) int {
	for i := range q {
		if q[i].Owner == owner && owner != 0 {
			return i
		}
	}
	return -1
}

// Drop takes an owner out.
func (q *Queue) Drop(owner uint8) {
	if i := q.At(owner); i >= 0 {
		model.Take(q[:], i)
	}
}

// Head is the first whose place counts, 0: nobody. Those before it lose their places.
func (q *Queue) Head() uint8 {
	for q[0].Owner != 0 && q[0].Left == 0 {
		model.Take(q[:], 0)
	}
	return q[0].Owner
}

// Add gives an owner the last place. Whoever has no room within the bounds is left out; the
// scenarios have room enough.
func (q *Queue) Add(owner, left uint8) {
	for i := range q {
		if q[i].Owner == 0 {
			q[i] = Place{Owner: owner, Left: left}
			return
		}
	}
}

// Over reports whether the queue's keys may end by themselves: no place in it counts any more. When
// they do is long after.
func (q *Queue) Over() bool {
	for i := range q {
		if q[i].Left > 0 {
			return false
		}
	}
	return q[0].Owner != 0
}
