package election

import (
	"cmp"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

const (
	// In the scripts.
	newToken       model.Defence = 1 << iota // each grant has a token of its own
	holderOnly                               // announce: by who holds the lock
	notOlder                                 // announce: never in place of what a later leader said
	saidEnds                                 // announce: what is said has an end
	tellsAnnounce                            // announce: observers are told
	releaseDeletes                           // release: what was said goes with the lock
	releaseOwner                             // release: only of who holds the lock
	tellsRelease                             // release: observers are told
	renewSaid                                // renew: what was said lasts for longer too
	leaderHolds                              // leader: who said it holds the lock

	// In the client.
	freshTerm   // each campaign has an owner id of its own
	announces   // a leader leads when it has announced itself
	givesBack   // who cannot announce itself gives the leadership back
	waitLead    // Run waits for the function before it campaigns
	resignAfter // and before it resigns
	deadline    // a leader's context ends by its own clock
	hears       // a message makes an observer look
	looksFirst  // it looks again when it listens
	looksAgain  // and when it listens again
	looksEnd    // and when the leader's lease would have ended
	retries     // and when it got no answer
)

const (
	maxCandidates = 2
	gens          = 8 // owner ids of a candidate
)

// What a candidate does.
const (
	away       uint8 = iota
	waiting          // it has a place, or had one
	announcing       // it has the lock
	leading          // its function is at work
	over             // the same, and the leadership is lost
	resigning        // its release is under way
)

// How a command stands.
const (
	none uint8 = iota
	sent
	done
	gone
)

// candidate is a process.
type candidate struct {
	mode    uint8
	gen     uint8
	wishes  uint8 // campaigns that it may still begin
	at      uint8 // its announcement or release: none, sent, ...
	token   uint8 // of its leadership
	trust   uint8 // ticks for which that can be trusted
	renewed uint8 // for how long, by the answer to a renewal that is on its way
	mail    uint8 // token of a grant that a message tells of
	stands  uint8 // ticks for which that can be trusted
	works   uint8 // functions that are at work
	lost    bool  // they have lost their leadership
	dead    bool
}

// Kinds of late requests.
const (
	announce uint8 = iota + 1
	release
	renewal
)

// request is one that nobody waits for. Zero: none.
type request struct{ kind, id, token uint8 }

// Where an observer's messages arrive.
const (
	off    uint8 = iota // nowhere
	on                  // at a connection of which it does not know yet
	heard               // at the observer
	broken              // nowhere, and it does not know yet
)

// What an observer does.
const (
	absent uint8 = iota
	looking
	looked
	asleep
)

// observer is one loop over Observe.
type observer struct {
	at    uint8
	token uint8 // the answer of a look
	lasts uint8
	timer uint8 // ticks until it looks without a message; model.Endless: never
	wake  bool
	link  uint8
	anew  bool // it was subscribed before
	mail  bool
	began bool  // something was told
	last  uint8 // the token of the leader that was told last; 0: nobody
	most  uint8 // the greatest token that was told
}

type state struct {
	wrong model.Broken
	keys
	top       uint8 // the greatest token of a leader
	announced bool  // who holds the lock has announced itself

	c    [maxCandidates]candidate
	net  [2]request // in order
	undo uint32     // owner ids that are released in the background until it is certain
	o    observer

	// What may still come.
	faults, crashes, leaves, ends, breaks, lapses, forces, losses uint8
	harmed                                                        bool // the lock was forced free, or lost
}

type steps = model.Steps[state]

func (s *state) id(c int) uint8 { return uint8(c)*gens + s.c[c].gen + 1 } //nolint:gosec // few

func ownerOf(id uint8) (c int, gen uint8) { return int(id-1) / gens, (id - 1) % gens }

func order(a, b request) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.kind, b.kind), cmp.Compare(a.token, b.token))
}
