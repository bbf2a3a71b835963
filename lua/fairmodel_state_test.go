package lua_test

import (
	"cmp"
	"math/bits"
)

// fairDefence is a set of defences of the fair lock that are switched off.
type fairDefence uint32

const (
	// In the scripts.
	heedsCount     fairDefence = 1 << iota // grant: who cannot be reached is passed over
	keepsPlace                             // grant: and keeps its place, for it need not be dead
	asksIsThere                            // grant: who asks can be told by the answer
	claimIsShort                           // grant: and that is sooner than that of a lease
	claimEnds                              // grant: a claim has an end
	leaverGone                             // release: who leaves has no place any more
	leaverHandsOn                          // release: what is freed is handed on
	freesOwn                               // release: by the owner only
	asksHead                               // acquire: nobody passes the head
	ownGrant                               // acquire: who was handed the lock is told so
	oncePlaced                             // acquire: who has a place gets no other
	refreshes                              // poll: places are put off
	reportsMissing                         // poll: who lost its place is told

	// In the client.
	pollInTime    // a poll is put off by messages, but not for ever
	grantTime     // a claim is trusted from when it was handed over, not from when that was heard of
	fairPoll      // somebody looks after the queue
	ownMessage    // a message of a grant from before a refusal is not trusted
	fairFresh     // an owner id with a straggler is not used again
	fairFreshUndo // nor is one that is being given back
	fairUndo      // what a waiter may have left is given back
	fairUndoAgain // and given back again, for a straggler
	noticesBreak  // when the mailbox breaks, the waiters ask
)

func (d fairDefence) has(one fairDefence) bool { return d&one != 0 }

const (
	fairClients  = 3
	fairWaiters  = 4
	fairPlaces   = 5
	fairMessages = 3
	fairMails    = 3
	fairGens     = 4 // owner ids of one waiter
)

// fairPlace is an entry of the queue: an owner, and for how many ticks its place counts. Zero: none.
type fairPlace struct{ owner, left uint8 }

// What a waiter does.
const (
	away     uint8 = iota
	asking         // wants the lock; its client does not listen yet
	entering       // was refused, and waits for the mailbox to be confirmed
	waiting        // may have a place
	has            // holds the lock, or so it believes
)

// waiter is one owner of a client. All times are ticks that are left; they are counted from the moment that is safe.
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
}

// fairMessage is a request that nobody waits for any more, or work in the background. Zero: none.
type fairMessage struct {
	kind  uint8 // acquire, release, renewal, late, undoer
	id    uint8
	step  uint8 // of an undo
	again bool
	place bool
}

// background tells work that is under way from requests that were given up.
func (r fairMessage) background() bool { return r.kind == undoer || r.kind == late }

// fairMail is a message that tells of a grant and has not arrived. Zero: none.
type fairMail struct {
	owner, token uint8
	left         uint8 // for how long it can be trusted
	old          bool  // its owner was refused since
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

// fairState is all there is at one moment.
type fairState struct {
	fairKeys
	waiters [fairWaiters]waiter
	net     [fairMessages]fairMessage // in order, so that bags that are equal are equal
	mail    [fairMails]fairMail       // likewise

	up     set // clients that the server counts as listeners
	known  set // clients that know that they listen
	due    set // clients that are about to poll
	late   set // clients whose poll was put off by a message
	paused set // processes that stand still
	dead   set

	top     uint8  // the greatest token ever granted
	crashed uint32 // owner ids whose process died
	claimed bool   // the lock was handed over, and its owner has not said anything since
	wrong   fairWrong

	// What may still come.
	faults, leaves, crashes, pauses, breaks, losses uint8
}

func fairID(w, gen uint8) uint8 { return w*fairGens + gen + 1 }

func waiterOf(id uint8) (w, gen uint8) { return (id - 1) / fairGens, (id - 1) % fairGens }

// put adds a message in its place; false if there is no room.
func (s *fairState) put(r fairMessage) bool {
	if s.net[fairMessages-1] != (fairMessage{}) {
		return false
	}
	i := fairMessages - 1
	for ; i > 0 && (s.net[i-1] == (fairMessage{}) || fairOrder(r, s.net[i-1]) < 0); i-- {
		s.net[i] = s.net[i-1]
	}
	s.net[i] = r
	return true
}

// take removes the i-th message.
func (s *fairState) take(i int) {
	copy(s.net[i:], s.net[i+1:])
	s.net[fairMessages-1] = fairMessage{}
}

// post adds mail in its place; false if there is no room.
func (s *fairState) post(r fairMail) bool {
	if s.mail[fairMails-1] != (fairMail{}) {
		return false
	}
	i := fairMails - 1
	for ; i > 0 && (s.mail[i-1] == (fairMail{}) || mailOrder(r, s.mail[i-1]) < 0); i-- {
		s.mail[i] = s.mail[i-1]
	}
	s.mail[i] = r
	return true
}

func (s *fairState) unpost(i int) {
	copy(s.mail[i:], s.mail[i+1:])
	s.mail[fairMails-1] = fairMail{}
}

func fairOrder(a, b fairMessage) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), cmp.Compare(a.step, b.step),
		bit(a.again)-bit(b.again), bit(a.place)-bit(b.place))
}

func mailOrder(a, b fairMail) int {
	return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.token, b.token), cmp.Compare(a.left, b.left),
		bit(a.old)-bit(b.old))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tokens are all that somebody knows, one bit for each number.
func (s *fairState) tokens() uint64 {
	seen := uint64(1) | 1<<s.token | 1<<s.top
	for i := range s.waiters {
		w := &s.waiters[i]
		seen |= 1<<w.handed | 1<<w.granted | 1<<w.token
	}
	for i := range s.mail {
		seen |= 1 << s.mail[i].token
	}
	return seen
}

// compact gives the tokens new numbers, as small as can be and in the same order: no more than that is ever looked at. Else
// claims that end unheard would make states without an end.
func (s *fairState) compact() {
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
