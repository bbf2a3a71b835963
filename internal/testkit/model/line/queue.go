package line

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
		remove(q[:], i)
	}
}

// Head is the first whose place counts, 0: nobody. Those before it lose their places.
func (q *Queue) Head() uint8 {
	for q[0].Owner != 0 && q[0].Left == 0 {
		remove(q[:], 0)
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

// Tick is time that passes.
func (q *Queue) Tick() {
	for i := range q {
		Less(&q[i].Left)
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

// Less is a tick of a time that is left.
func Less(ticks *uint8) {
	if *ticks > 0 {
		*ticks--
	}
}
