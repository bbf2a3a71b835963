package permits

import (
	"cmp"
	"math/bits"
)

// defence is a set of defences of the semaphore that are switched off.
type defence uint64

const (
	// In the scripts.
	looksFree    defence = 1 << iota // acquire: no more is granted than is free
	handsFree                        // grant: no more is handed out than is free
	inOrder                          // grant: who wants less does not pass who wants more
	ownGrant                         // acquire: who has permits is told so
	takesOwn                         // acquire: what an owner has left behind is counted before it gets anything
	countsNew                        // hold: what the owner has already is not counted again
	countsAll                        // release: all permits of an owner are counted
	countsGone                       // release: and none that it did not have
	countsEnded                      // sweep: those whose leases have ended are counted
	setsAll                          // set: what is out is a part of the number
	renewsOwn                        // renew: nothing is brought back
	asksHead                         // acquire: nobody passes the head
	handsRest                        // acquire: what the head leaves goes to those behind it
	onlySoMany                       // acquire: who wants more than there are is told
	manyDropped                      // grant: who wants more than there are has no place any more
	manyTold                         // grant: and is told
	heedsCount                       // grant: who cannot be reached is passed over
	keepsPlace                       // grant: and keeps its place, for it need not be dead
	claimIsShort                     // grant: a claim is for less than a lease that nobody renews
	claimEnds                        // grant: a claim has an end
	silentPassed                     // grant: a client that let a claim end is passed over
	sweepsFirst                      // grant: which is known before anything is handed out
	leaverGone                       // release: who leaves has no place any more
	handsOn                          // release: what is freed is handed on
	oncePlaced                       // acquire: who has a place gets no other
	refreshes                        // poll: places are put off
	tellsMissing                     // poll: who lost its place is told
	tellsGiven                       // poll: who was handed permits is told
	newTokens                        // a token is greater than the last

	// In the client.
	pollInTime   // a poll is put off by messages, but not for ever
	pollAtAll    // somebody looks after the queue
	grantTime    // a claim is trusted from when it was handed over, not from when that was heard of
	ownMessage   // a message of a grant from before a refusal is not trusted
	freshOwner   // an owner id is used for one acquisition
	undo         // what a waiter may have left is given back
	undoAgain    // and given back again, for a straggler
	lateness     // one that comes later than that refuses itself
	noticesBreak // when the mailbox breaks, the waiters ask
	trustEnds    // a hold is trusted for less than its lease
)

func (d defence) has(one defence) bool { return d&one != 0 }

const (
	maxClients  = 3
	maxWaiters  = 4
	maxPlaces   = 5
	maxOut      = 6
	maxMessages = 4
	maxMails    = 4
	maxGrants   = 6 // of one script, and messages
	gens        = 3 // owner ids of one waiter
)

// foreigner is the owner of a permit of Redisson's, which has none.
const foreigner = maxWaiters*gens + 1

// permit is what an owner has. Zero: nobody. Without permits it is a mark that it was handed some.
type permit struct {
	owner, n uint8
	left     uint8 // ticks; 0: its lease has ended, and nobody has taken it back
	handed   bool  // unasked, and it has not asked or given back since
	torn     bool  // Redisson has taken back the one that has no number
}

// place is an entry of the queue: an owner, and for how many ticks its place counts. Zero: none.
type place struct {
	owner, left uint8
	stale       bool // its client let a claim end, and has not been heard of since
}

// What a waiter does.
const (
	away     uint8 = iota
	asking         // wants permits; its client does not listen yet
	entering       // was refused, and waits for the mailbox to be confirmed
	waiting        // may have a place
	has            // holds permits, or so it believes
)

// waiter is one who acquires permits, each time as another owner. All times are ticks that are left;
// they are counted from the moment that is safe.
type waiter struct {
	mode    uint8
	gen     uint8 // number of its owner id
	wishes  uint8 // how often it may still want permits
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

// message is a request that nobody waits for any more, or work in the background. Zero: none.
type message struct {
	kind  uint8
	id    uint8
	step  uint8 // of an undo; aged, of an acquire that is late
	again bool
	place bool
}

// Kinds of messages.
const (
	acquire uint8 = iota + 1
	release
	renewal
	late   // an acquire whose caller left, and whose answer is waited for in the background
	undoer // releases in the background, one after another

	// These are not on their way for long; they tell judges what was done.
	polls
	joins
	sets
)

// background tells work that is under way from requests that were given up.
func (r message) background() bool { return r.kind == undoer || r.kind == late }

// mail is a message that tells of a grant, or that there are not so many, and has not arrived. Zero:
// none.
type mail struct {
	owner, token uint8 // token 0: there are not so many
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

	top     uint8 // the greatest token ever granted
	crashed uint16
	total   uint8             // how many permits there are to be
	allowed uint8             // how many may be out: more where the number was made less
	claims  [maxClients]uint8 // permits handed to a client since it was heard of
	wrong   wrong

	// What may still come.
	faults, leaves, crashes, pauses, breaks, losses, sets, takes uint8
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

// unsend removes the i-th message.
func (s *state) unsend(i int) {
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
		bit(a.again)-bit(b.again), bit(a.place)-bit(b.place))
}

func mailOrder(a, b mail) int {
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
func (s *state) tokens() uint64 {
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
