package lua_test

import (
	"cmp"
	"slices"
)

// voteDefence is a set of defences of a quorum lock that are switched off.
type voteDefence uint32

const (
	// In the scripts.
	votesOnce  voteDefence = 1 << iota // vote: who has it keeps it
	voteKeeps                          // vote: never shortens
	voteEnds                           // vote: a grant has a time to live
	aboveLast                          // vote: a token is greater than the last
	freesOwner                         // release: only by the owner
	renewPure                          // renew: never brings the key back

	// In the client.
	majority     // more than half have to agree
	restarts     // a master that was started less than a lease ago does not count
	joinsYoung   // nor for a holder that it takes back
	withdraws    // an election that is not won is given back
	freshBallot  // each election has an owner id of its own
	undoLate     // a release is repeated when a vote comes behind it
	undoStray    // and where a vote may come of which nothing was heard
	voteAgain    // and not only once
	sentTime     // trust is counted from the sending, not from the answer
	voteDeadline // trust ends by the client's own clock
	tellsToken   // a token counts when a majority knows it
	greatest     // it is the greatest that was replied
	aboveKnown   // of several tokens those are left out that a master may have granted before
	judgedAnew   // a master that is believed for want of an older one is not believed when one is known
	silence      // who does not answer may have granted the lock to another
	clockAhead   // a proposal is no less than the clock
	contests     // a vote that may decide against a holder does not count where all are young
	together     // a master is young that is younger than the others
)

func (d voteDefence) has(one voteDefence) bool { return d&one != 0 }

// marks say how a ballot stands with one master.
type marks uint8

const (
	held    marks = 1 << iota // the last answer said so
	counts                    // and the master can be believed
	strayed                   // a vote may come of which nothing will be heard
	asked                     // in this round
	yes                       // was the answer in this round
	no                        // the same
	failed                    // it was none
	regrant                   // of a vote's answer: the owner held the lock before
)

func (k marks) has(all marks) bool { return k&all == all }

// ballotAt is a client's newest ballot at one master, and the request that is under way there.
type ballotAt struct {
	op    uint8 // none, acquire (a vote), renewal or release
	at    uint8 // sent, done, denied, gone
	token uint8 // of the request, then of the answer
	last  uint8 // of the answer to a vote, where grants have several tokens: the greatest one before
	holds uint8 // of a refusal: whom the master named
	marks marks
	knows uint8 // what the client knows of the master's process
}

// What a client knows of a master's process.
const (
	stranger uint8 = iota
	met            // this process, and none before
	metLater       // this one, and another before
	metOther       // another one: that this one is there, it does not know yet

	metFree = 4 // beside these: it is the process that granted the lock when all did
)

// letter is a request that was given up, or an undo. Zero: none.
type letter struct {
	kind  uint8 // acquire, renewal, release or undoer
	id    uint8
	token uint8
	step  uint8 // of an undo; of a vote: 1 if its client does not wait for the answer any more
}

const (
	candidates   = 2
	maxVoters    = 5
	voterLetters = 2
)

// voter is one master and all that is under way between it and the clients.
type voter struct {
	voterKeys
	age     uint8 // ticks since its start, no more than a lease
	ballots [candidates]ballotAt
	net     [voterLetters]letter // in order
}

// What a client does, beside idle, holding and leaving.
const (
	electing uint8 = leaving + 1 + iota
	telling        // a majority of the token
)

// candidate is a process. Each election that it stands for is a ballot with an owner id of its own.
type candidate struct {
	mode  uint8
	gen   uint8
	age   uint8 // ticks since the round was sent
	trust uint8
	first uint8 // of the tokens of an election
	token uint8 // the last of them
	round bool  // a renewal is under way
	free  bool  // all masters have granted the lock together, and the processes they were are known
}

type voteState struct {
	voters     [maxVoters]voter // in order: they are alike
	candidates [candidates]candidate
	clock      uint8 // 0: there are no tokens
	top        uint8 // the greatest token that was granted
	wrong      wrong
	faults     uint8             // that may still come
	crashes    uint8             // of processes
	losses     uint8             // restarts of masters without their data
	stood      [candidates]uint8 // elections, where they are counted
}

// ballotID is the name of an owner. Gens that nobody has heard of any more are used again: names are only ever compared.
func ballotID(c int, gen uint8) uint8 { return uint8(c)*gens + gen + 1 } //nolint:gosec // few

// used tells whether anything has that owner's name.
func (s *voteState) used(id uint8) bool {
	for i := range s.voters {
		v := &s.voters[i]
		if v.owner == id || slices.ContainsFunc(v.net[:], func(l letter) bool { return l.id == id }) {
			return true
		}
	}
	return false
}

// put adds a letter in its place; false if there is no room.
func (v *voter) put(l letter) bool {
	i := voterLetters - 1
	if v.net[i] != (letter{}) {
		return false
	}
	for ; i > 0 && (v.net[i-1] == (letter{}) || l.order(v.net[i-1]) < 0); i-- {
		v.net[i] = v.net[i-1]
	}
	v.net[i] = l
	return true
}

func (v *voter) take(i int) {
	copy(v.net[i:], v.net[i+1:])
	v.net[voterLetters-1] = letter{}
}

func (l letter) order(o letter) int {
	return cmp.Or(cmp.Compare(l.kind, o.kind), cmp.Compare(l.id, o.id), cmp.Compare(l.token, o.token), cmp.Compare(l.step, o.step))
}

func (b *ballotAt) order(o *ballotAt) int {
	return cmp.Or(cmp.Compare(b.op, o.op), cmp.Compare(b.at, o.at), cmp.Compare(b.token, o.token), cmp.Compare(b.last, o.last), cmp.Compare(b.holds, o.holds),
		cmp.Compare(b.marks, o.marks), cmp.Compare(b.knows, o.knows))
}

func (v *voter) order(o *voter) int {
	if c := cmp.Or(cmp.Compare(v.owner, o.owner), cmp.Compare(v.ttl, o.ttl), cmp.Compare(v.token, o.token),
		cmp.Compare(v.age, o.age)); c != 0 {
		return c
	}
	for c := range v.ballots {
		if r := v.ballots[c].order(&o.ballots[c]); r != 0 {
			return r
		}
	}
	for i := range v.net {
		if r := v.net[i].order(o.net[i]); r != 0 {
			return r
		}
	}
	return 0
}

// normal makes states equal that differ only in what matters to nobody: which master is which, and how great tokens are beside
// each other's order and distance.
func (s *voteState) normal(voters int) {
	for i := 1; i < voters; i++ {
		for j := i; j > 0 && s.voters[j].order(&s.voters[j-1]) < 0; j-- {
			s.voters[j], s.voters[j-1] = s.voters[j-1], s.voters[j]
		}
	}
	if s.clock == 0 {
		return
	}
	var known [64]*uint8
	list := append(known[:0], &s.clock, &s.top)
	for c := range s.candidates {
		list = append(list, &s.candidates[c].first, &s.candidates[c].token)
	}
	for i := range s.voters {
		v := &s.voters[i]
		list = append(list, &v.token)
		for c := range v.ballots {
			list = append(list, &v.ballots[c].token, &v.ballots[c].last)
		}
		for n := range v.net {
			list = append(list, &v.net[n].token)
		}
	}
	least := uint8(endless)
	for _, token := range list {
		if *token != 0 {
			least = min(least, *token)
		}
	}
	for _, token := range list {
		if *token != 0 {
			*token -= least - 1
		}
	}
}
