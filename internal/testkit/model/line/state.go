package line

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// Sizes of a state.
const (
	MaxClients = 3
	MaxWaiters = 4
	MaxPlaces  = 5
	MaxRun     = 3 // owners behind the first of a run

	maxRequests = 4
	maxMails    = 4
	gens        = 4 // owner ids of one waiter
)

// LastID is the highest owner id of a waiter. 0 is no owner.
const LastID = MaxWaiters * gens

// Owners are some owner ids, with zeros behind them.
type Owners = [MaxWaiters]uint8

// OwnerID is the owner id of a waiter for its n-th use of one. WaiterOf is the way back.
func OwnerID(w, gen uint8) uint8 { return w*gens + gen + 1 }

// WaiterOf tells whose an owner id is.
func WaiterOf(id uint8) (w, gen uint8) { return (id - 1) / gens, (id - 1) % gens }

// State is what the clients know and do, and what is under way. A model's state consists of this and of what is at the server.
type State struct {
	Waiters [MaxWaiters]Waiter
	Net     [maxRequests]Request // in order, so that bags that are equal are equal
	Mail    [maxMails]Mail       // likewise

	Up     Set // clients that the server counts as listeners
	Known  Set // clients that know that they listen
	Due    Set // clients that are about to poll
	Late   Set // clients whose poll was put off by a message
	Paused Set // processes that stand still
	Dead   Set

	Crashed uint16 // owner ids whose process died: bit 0 is that of id 1
	Wrong   model.Broken
	Top     uint8 // the greatest token ever granted

	// What may still happen.
	Faults, Leaves, Crashes, Pauses, Breaks, Losses uint8
}

// What a waiter does.
const (
	Away     uint8 = iota
	Asking         // wants the lock; its client does not listen yet
	Entering       // was refused, and waits for the mailbox to be confirmed
	Waiting        // may have a place
	Has            // holds the lock, or so it believes
)

// Waiter is one that acquires the lock. All times are ticks that are left; they are counted from the moment that is safe.
type Waiter struct {
	Mode    uint8
	Gen     uint8 // number of its owner id
	Wishes  uint8 // how often it may still want the lock
	Stray   bool  // a request with its owner id may still arrive
	Asked   bool  // and was refused, since it waits
	Wake    bool  // has reason to ask
	Handed  uint8 // token of a grant that a message told of, 0: none
	Stands  uint8 // for how long that can be trusted
	Granted uint8 // token of an answer that is on its way, 0: none
	Lasts   uint8 // for how long that can be trusted
	Token   uint8 // of its hold
	Trust   uint8 // for how long the hold can be trusted
	Renewed uint8 // for how long, by the answer to a renewal that is on its way

	Field  uint8 // of a hold: the owner that has the lock at the server, 0: the waiter itself
	Run    Run   // of a hold, or of a grant that a message told of: who gets the lock next
	Served Run   // of a hold: who has had it as the field's owner, and may have a place
}

// Entry is the owner that has the lock of a waiter's hold at the server.
func (s *State) Entry(w uint8) uint8 {
	if s.Waiters[w].Field != 0 {
		return s.Waiters[w].Field
	}
	return OwnerID(w, s.Waiters[w].Gen)
}

// Waits reports whether an owner waits, with a place or about to ask for one.
func (s *State) Waits(owner uint8) bool {
	if owner == 0 || owner > LastID {
		return false
	}
	w, gen := WaiterOf(owner)
	return s.Waiters[w].Gen == gen && s.Waiters[w].Mode == Waiting
}

// Run is owners of one client, then zeros: the fair lock's client hands the lock off along it, without the server.
type Run [MaxRun]uint8

// Has reports whether an owner is in the run.
func (r Run) Has(owner uint8) bool { return owner != 0 && slices.Contains(r[:], owner) }

// Size is how many owners there are.
func (r Run) Size() (n uint8) {
	for n < MaxRun && r[n] != 0 {
		n++
	}
	return n
}

// Pop takes the first out.
func (r *Run) Pop() (first uint8) {
	first = r[0]
	copy(r[:], r[1:])
	r[MaxRun-1] = 0
	return first
}

// Push adds a last one.
func (r *Run) Push(owner uint8) { r[r.Size()] = owner }

// Request is one that nobody waits for any more, or work in the background. Zero: none.
type Request struct {
	Kind  uint8
	ID    uint8 // the owner id that it is sent with
	Step  uint8 // of an undo; Aged, of an acquire that is late
	Again bool
	Place bool
	// Served are those whose places a release takes, beside its own.
	Served Run
}

// Kinds of requests.
const (
	Acquire uint8 = iota + 1
	Release
	Renewal
	Late   // an acquire whose caller left, and whose answer is waited for in the background
	Undoer // releases in the background, one after another

	// These are never on their way for long; they tell a model's judges what was done.
	Polls
	Joins
	Sets
)

// background tells work that is under way from requests that were given up.
func (r Request) background() bool { return r.Kind == Undoer || r.Kind == Late }

// Asks reports whether a request is for the lock.
func (r Request) Asks() bool { return r.Kind == Acquire || r.Kind == Late }

// Frees reports whether a request gives back all that its owner has.
func (r Request) Frees() bool { return r.Kind == Release || r.Kind == Undoer }

// Own reports whether a request is about what an owner has.
func (r Request) Own(owner uint8) bool { return r.ID == owner && r.Kind <= Undoer }

// Mail is a message that has not arrived: it tells of a grant, or that the lock cannot be granted. Zero: none.
type Mail struct {
	Owner, Token uint8 // token 0: no grant is possible
	Left         uint8 // for how long it can be trusted
	Old          bool  // its owner was refused since
	Run          Run   // the others that it names
}

// Set is one of clients.
type Set uint8

// Has reports whether a client is in the set.
func (s Set) Has(c uint8) bool { return s&(1<<c) != 0 }

// Put takes a client into the set, or out of it.
func (s *Set) Put(c uint8, in bool) {
	*s &^= 1 << c
	if in {
		*s |= 1 << c
	}
}

// Store is what all kinds have at the server: the queue and the last token.
type Store struct {
	Queue    Queue
	Token    uint8 // 0: no such key
	TokenTTL uint8
	Clock    uint8 // of the server
}

// NextToken is greater than the last and no less than the clock, which goes on: no two grants are of one microsecond.
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

// Place is an entry of the queue at the server: an owner, and for how many ticks its place counts. Zero: none.
type Place struct {
	Owner, Left uint8
	Stale       bool // permits: its client let a claim end, and has not been heard of since
}

// Queue are the places, the first one first. Zeros are behind them.
type Queue [MaxPlaces]Place

// At is where an owner stands, -1: nowhere.
func (q *Queue) At(owner uint8) int {
	return slices.IndexFunc(q[:], func(p Place) bool { return p.Owner == owner && owner != 0 })
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

// Add gives an owner the last place. Whoever has no room within the bounds is left out; the scenarios have room enough.
func (q *Queue) Add(owner, left uint8) {
	if n := len(model.Under(q[:])); n < len(q) {
		q[n] = Place{Owner: owner, Left: left}
	}
}

// Over reports whether the queue's keys may end by themselves: no place in it counts any more. When they do is long after.
func (q *Queue) Over() bool {
	return q[0].Owner != 0 && !slices.ContainsFunc(q[:], func(p Place) bool { return p.Left > 0 })
}
