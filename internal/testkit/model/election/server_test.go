package election

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
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

// candidate is a process.
type candidate struct {
	mode    uint8
	gen     uint8
	wishes  uint8 // campaigns that it may still begin
	at      uint8 // its announcement or release: server.None, server.Sent, ...
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
type request struct{ id, kind, token uint8 }

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
	link  model.Link
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

// keys are what an election is at the server, in ticks; TestElectionModelIsLikeTheScripts runs them beside the scripts.
type keys struct {
	owner   uint8 // 0: nobody has the lock
	ttl     uint8
	token   uint8 // the last that was granted
	queue   [maxCandidates]uint8
	said    uint8 // the token of an announcement; 0: none
	saidBy  uint8
	saidTTL uint8
}

// terms are times in ticks, and who can be reached.
type terms struct {
	off                model.Defence
	lease, claim, keep uint8
	deaf               [maxCandidates]bool
}

// answer is a reply.
type answer struct {
	status lua.Status
	token  uint8 // of a grant, and of the leader
	left   uint8 // of the leader's lease
	told   bool  // observers were
	mail   uint8 // the owner to whom the lock was handed
}

// acquire is fair_acquire.lua for one who waits.
func (k *keys) acquire(t *terms, owner uint8) (a answer) {
	switch {
	case k.owner == owner:
		k.ttl = max(k.ttl, t.lease)
		k.leave(owner)
		return answer{status: lua.Done, token: k.token}
	case k.owner == 0 && (k.queue[0] == 0 || k.queue[0] == owner):
		k.hold(t, owner, t.lease)
		return answer{status: lua.Done, token: k.token}
	}
	if n := len(model.Under(k.queue[:])); n < len(k.queue) && !slices.Contains(k.queue[:], owner) {
		k.queue[n] = owner
	}
	if k.owner == 0 {
		a.mail = k.grant(t, owner)
		if k.owner == owner { // it is told by the answer
			k.ttl = t.lease
			a.status, a.token = lua.Done, k.token
		}
	}
	return a
}

// hold writes a grant.
func (k *keys) hold(t *terms, owner, lease uint8) {
	k.leave(owner)
	k.owner, k.ttl = owner, lease
	if !t.off.Has(newToken) || k.token == 0 {
		k.token++
	}
}

// grant hands a free lock to the first who can be reached, or who asks.
func (k *keys) grant(t *terms, asks uint8) (to uint8) {
	for _, owner := range model.Under(k.queue[:]) {
		if c, _ := ownerOf(owner); !t.deaf[c] || owner == asks {
			k.hold(t, owner, t.claim)
			if t.deaf[c] {
				return 0
			}
			return owner
		}
	}
	return 0
}

// leave takes an owner out of the queue.
func (k *keys) leave(owner uint8) {
	if i := slices.Index(k.queue[:], owner); i >= 0 {
		model.Take(k.queue[:], i)
	}
}

// announce is election_announce.lua.
func (k *keys) announce(t *terms, owner, token uint8) answer {
	if k.owner != owner && !t.off.Has(holderOnly) || k.said > token && !t.off.Has(notOlder) {
		return answer{status: lua.Gone}
	}
	k.said, k.saidBy, k.saidTTL = token, owner, t.keep
	if t.off.Has(saidEnds) {
		k.saidTTL = model.Endless
	}
	return answer{status: lua.Done, told: !t.off.Has(tellsAnnounce)}
}

// release is election_release.lua.
func (k *keys) release(t *terms, owner uint8) answer {
	a := answer{status: lua.Gone}
	held := k.owner == owner
	if held || t.off.Has(releaseOwner) {
		if !t.off.Has(releaseDeletes) {
			k.said, k.saidBy, k.saidTTL = 0, 0, 0
		}
		a.told = held && !t.off.Has(tellsRelease)
	}
	k.leave(owner)
	if held {
		a.status = lua.Done
		k.owner, k.ttl = 0, 0
	}
	if k.owner == 0 {
		a.mail = k.grant(t, 0)
	}
	return a
}

// renew is election_renew.lua.
func (k *keys) renew(t *terms, owner uint8) answer {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	if k.said != 0 && !t.off.Has(renewSaid) {
		k.saidTTL = max(k.saidTTL, t.keep)
	}
	k.ttl = max(k.ttl, t.lease)
	return answer{status: lua.Done}
}

// leader is election_leader.lua.
func (k *keys) leader(t *terms) answer {
	if k.said == 0 || k.owner != k.saidBy && !t.off.Has(leaderHolds) {
		return answer{status: lua.Denied}
	}
	return answer{status: lua.Done, token: k.said, left: k.ttl}
}

// tick is time that passes.
func (k *keys) tick() {
	if model.Less(&k.ttl) {
		k.owner = 0
	}
	if model.Less(&k.saidTTL) {
		k.said, k.saidBy = 0, 0
	}
}
