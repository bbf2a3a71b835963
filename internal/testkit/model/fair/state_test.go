package fair

import (
	"cmp"
	"math/bits"
	"slices"
)

// defence is a set of defences of the fair lock that are switched off.
type defence uint32

const (
	// In the scripts.
	heedsCount     defence = 1 << iota // grant: who cannot be reached is passed over
	keepsPlace                         // grant: and keeps its place, for it need not be dead
	asksIsThere                        // grant: who asks can be told by the answer
	claimIsShort                       // grant: and that is sooner than that of a lease
	claimEnds                          // grant: a claim has an end
	leaverGone                         // release: who leaves has no place any more
	leaverHandsOn                      // release: what is freed is handed on
	freesOwn                           // release: by the owner only
	asksHead                           // acquire: nobody passes the head
	ownGrant                           // acquire: who was handed the lock is told so
	oncePlaced                         // acquire: who has a place gets no other
	refreshes                          // poll: places are put off
	reportsMissing                     // poll: who lost its place is told

	runEnds    // grant: a run ends before another client's waiter
	runTokens  // grant: tokens are reserved for a run
	servedGone // release: those who were served have no place any more

	// In the client.
	runWaits     // a run does not hand the lock to who has a question under way
	servedGiven  // places of those who were served are given back if the lock is lost
	servedFresh  // an owner id that a run has served is not used again
	pollInTime   // a poll is put off by messages, but not for ever
	grantTime    // a claim is trusted from when it was handed over, not from when that was heard of
	pollAtAll    // somebody looks after the queue
	ownMessage   // a message of a grant from before a refusal is not trusted
	freshOwner   // an owner id with a straggler is not used again
	freshUndo    // nor is one that is being given back
	undo         // what a waiter may have left is given back
	undoAgain    // and given back again, for a straggler
	lateness     // one that comes later than that refuses itself
	noticesBreak // when the mailbox breaks, the waiters ask
)

func (d defence) has(one defence) bool { return d&one != 0 }

const (
	maxClients  = 3
	maxWaiters  = 4
	maxPlaces   = 5
	maxMessages = 4
	maxMails    = 3
	maxRun      = 3 // owners behind the first of a run
	gens        = 4 // owner ids of one waiter
)

// place is an entry of the queue: an owner, and for how many ticks its place counts. Zero: none.
type place struct{ owner, left uint8 }

// What a waiter does.
const (
	away     uint8 = iota
	asking         // wants the lock; its client does not listen yet
	entering       // was refused, and waits for the mailbox to be confirmed
	waiting        // may have a place
	has            // holds the lock, or so it believes
)

// waiter is one owner of a client. All times are ticks that are left; they are counted from the
// moment that is safe.
type waiter struct {
	mode    uint8
	gen     uint8 // number of its owner id
	wishes  uint8 // how often it may still want the lock
	stray   bool  // a request with its owner id may still arrive
	asked   bool  // and was refused, since it waits
	wake    bool  // has reason to ask
	handed  uint8 // token of a grant that a message told of, 0: none
	stands  uint8 // for how long that can be trusted
	granted uint8 // token of an answer that is on its way, 0: none
	lasts   uint8 // for how long that can be trusted
	token   uint8 // of its hold
	trust   uint8 // for how long the hold can be trusted
	renewed uint8 // for how long, by the answer to a renewal that is on its way

	field  uint8 // of a hold: the owner that has the lock at the server; 0: none
	run    run   // of a hold, or of a grant that a message told of: who is to have the lock next
	served run   // of a hold: who has had it as the field's owner, and may have a place
}

// run are owners, the next one first. Zeros are behind them.
type run [maxRun]uint8

func (r run) has(owner uint8) bool {
	for _, o := range r {
		if o == owner && o != 0 {
			return true
		}
	}
	return false
}

// size is how many there are.
func (r run) size() (n uint8) {
	for n < maxRun && r[n] != 0 {
		n++
	}
	return n
}

// pop takes the first out.
func (r *run) pop() (first uint8) {
	first = r[0]
	copy(r[:], r[1:])
	r[maxRun-1] = 0
	return first
}

func (r *run) push(owner uint8) { r[r.size()] = owner }

// message is a request that nobody waits for any more, or work in the background. Zero: none.
type message struct {
	kind  uint8
	id    uint8
	step  uint8 // of an undo; aged, of an acquire that is late
	again bool
	place bool
	// served are those whose places a release takes, beside its own
	served run
}

// Kinds of messages.
const (
	acquire uint8 = iota + 1
	release
	renewal
	late   // an acquire whose caller left, and whose answer is waited for in the background
	undoer // releases in the background, one after another
)

// background tells work that is under way from requests that were given up.
func (r message) background() bool { return r.kind == undoer || r.kind == late }

// mail is a message that tells of a grant and has not arrived. Zero: none.
type mail struct {
	owner, token uint8
	left         uint8 // for how long it can be trusted
	old          bool  // its owner was refused since
	run          run   // the others that it names
}

// set is one of clients.
type set uint8

func (s set) has(c uint8) bool { return s&(1<<c) != 0 }
func (s *set) put(c uint8, in bool) {
	*s &^= 1 << c
	if in {
		*s |= 1 << c
	}
}

// state is all there is at one moment.
type state struct {
	keys
	waiters [maxWaiters]waiter
	net     [maxMessages]message // in order, so that bags that are equal are equal
	mail    [maxMails]mail       // likewise

	up     set // clients that the server counts as listeners
	known  set // clients that know that they listen
	due    set // clients that are about to poll
	late   set // clients whose poll was put off by a message
	paused set // processes that stand still
	dead   set

	top     uint8  // the greatest token ever granted
	crashed uint32 // owner ids whose process died
	claimed bool   // the lock was handed over, and its owner has not said anything since
	wrong   wrong

	// What may still come.
	faults, leaves, crashes, pauses, breaks, losses uint8
}

func ownerID(w, gen uint8) uint8 { return w*gens + gen + 1 }

func waiterOf(id uint8) (w, gen uint8) { return (id - 1) / gens, (id - 1) % gens }

// put adds a message in its place; false if there is no room.
func (s *state) put(r message) bool {
	if s.net[maxMessages-1] != (message{}) {
		return false
	}
	i := maxMessages - 1
	for ; i > 0 && (s.net[i-1] == (message{}) || order(r, s.net[i-1]) < 0); i-- {
		s.net[i] = s.net[i-1]
	}
	s.net[i] = r
	return true
}

// take removes the i-th message.
func (s *state) take(i int) {
	copy(s.net[i:], s.net[i+1:])
	s.net[maxMessages-1] = message{}
}

// post adds mail in its place; false if there is no room.
func (s *state) post(r mail) bool {
	if s.mail[maxMails-1] != (mail{}) {
		return false
	}
	i := maxMails - 1
	for ; i > 0 && (s.mail[i-1] == (mail{}) || mailOrder(r, s.mail[i-1]) < 0); i-- {
		s.mail[i] = s.mail[i-1]
	}
	s.mail[i] = r
	return true
}

func (s *state) unpost(i int) {
	copy(s.mail[i:], s.mail[i+1:])
	s.mail[maxMails-1] = mail{}
}

func order(a, b message) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), cmp.Compare(a.step, b.step),
		bit(a.again)-bit(b.again), bit(a.place)-bit(b.place), slices.Compare(a.served[:], b.served[:]))
}

func mailOrder(a, b mail) int {
	return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.token, b.token), cmp.Compare(a.left, b.left),
		bit(a.old)-bit(b.old), slices.Compare(a.run[:], b.run[:]))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tokens are all that somebody knows, one bit for each number.
func (s *state) tokens() uint64 {
	seen := uint64(1) | 1<<s.token | 1<<s.top
	for i := range s.waiters {
		w := &s.waiters[i]
		seen |= 1<<w.handed | 1<<w.granted | 1<<w.token
		if w.handed != 0 {
			seen |= reserved(w.handed, w.run)
		} else if w.mode == has {
			seen |= reserved(w.token, w.run)
		}
	}
	for i := range s.mail {
		seen |= 1<<s.mail[i].token | reserved(s.mail[i].token, s.mail[i].run)
	}
	return seen
}

// reserved are the tokens of those behind the holder of one in a run.
func reserved(token uint8, r run) (seen uint64) {
	for i := range r.size() {
		seen |= 1 << (token + 1 + i)
	}
	return seen
}

// compact gives the tokens new numbers, as small as can be and in the same order: no more than that
// is ever looked at. Else claims that end unheard would make states without an end.
func (s *state) compact() {
	s.clock = s.top + 1 // later than all grants
	seen := s.tokens()
	if seen&(seen+1) == 0 {
		return // no number is free
	}
	less := func(t *uint8) { *t = uint8(bits.OnesCount64(seen & (1<<*t - 1))) } //nolint:gosec // below 64
	less(&s.token)
	less(&s.top)
	for i := range s.waiters {
		w := &s.waiters[i]
		less(&w.handed)
		less(&w.granted)
		less(&w.token)
	}
	for i := range s.mail {
		less(&s.mail[i].token)
	}
	s.clock = s.top + 1
}
