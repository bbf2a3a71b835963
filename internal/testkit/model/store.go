package model

import "hash/maphash"

// store numbers states in the order in which it first sees them. It keeps each state once, in pieces
// that never move. (Rejected: a map from states to numbers beside a list of states, which keeps each
// state twice and moves all of them whenever it grows.)
type store[S comparable] struct {
	seed   maphash.Seed
	pieces [][]S
	slots  []slot // open addressing; at least half are empty
	size   int
}

// slot holds half of a state's hash, and the state's number plus 1; number 0: the slot is empty.
type slot struct{ hash, number uint32 }

const (
	pieceBits  = 10
	firstSlots = 1 << 12
)

func newStore[S comparable]() store[S] {
	return store[S]{seed: maphash.MakeSeed(), slots: make([]slot, firstSlots)}
}

// at returns the state with a number.
func (t *store[S]) at(n int32) *S { return &t.pieces[n>>pieceBits][n&(1<<pieceBits-1)] }

// put returns the number of a state, and whether the state is new.
func (t *store[S]) put(s *S) (number int32, first bool) {
	hash := uint32(maphash.Comparable(t.seed, *s) >> 32) //nolint:gosec // half of it
	i := t.find(hash)
	for ; t.slots[i].number != 0; i = (i + 1) & t.mask() {
		n := int32(t.slots[i].number - 1) //nolint:gosec // below MaxStates
		if t.slots[i].hash == hash && *t.at(n) == *s {
			return n, false
		}
	}
	if t.size&(1<<pieceBits-1) == 0 {
		t.pieces = append(t.pieces, make([]S, 0, 1<<pieceBits))
	}
	last := &t.pieces[len(t.pieces)-1]
	*last = append(*last, *s)
	t.size++
	t.slots[i] = slot{hash, uint32(t.size)} //nolint:gosec // below MaxStates
	if 2*t.size > len(t.slots) {
		t.grow()
	}
	return int32(t.size - 1), true //nolint:gosec // below MaxStates
}

func (t *store[S]) mask() uint32 { return uint32(len(t.slots) - 1) } //nolint:gosec // twice MaxStates at most

// find returns the first slot in which a state of that hash may be.
func (t *store[S]) find(hash uint32) uint32 { return hash & t.mask() }

// grow doubles the slots.
func (t *store[S]) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.number == 0 {
			continue
		}
		i := t.find(s.hash)
		for t.slots[i].number != 0 {
			i = (i + 1) & t.mask()
		}
		t.slots[i] = s
	}
}
