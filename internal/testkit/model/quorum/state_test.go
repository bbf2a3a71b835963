package quorum

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

const own = server.Own

// Defences of the client; those of the scripts are the server's.
const (
	majority    model.Defence = own << iota // more than half have to agree
	restarts                                // a master that was started less than a lease ago does not count
	joinsYoung                              // nor for a holder that it takes back
	withdraws                               // an election that is not won is given back
	freshBallot                             // each election has an owner id of its own
	undoLate                                // a release is repeated when a vote comes behind it
	undoStray                               // and where a vote may come of which nothing was heard
	undoAgain                               // and not only once
	sentTime                                // trust is counted from the sending, not from the answer
	deadline                                // trust ends by the client's own clock
	tellsToken                              // a token counts when a majority knows it
	greatest                                // it is the greatest that was replied
	aboveKnown                              // of several tokens those are left out that may have been granted before
	judgedAnew                              // a master believed for want of an older one is not when one is known
	silence                                 // who does not answer may have granted the lock to another
	clockAhead                              // a proposal is no less than the clock
	contests                                // a vote that may decide against a holder does not count where all are young
	together                                // a master is young that is younger than the others
	gapsKept                                // a holder remembers when masters may have granted the lock to others
	exactToken                              // a token above the one that was told does not show that nobody had the lock
	tokenSpares                             // the one that was told does
	firstKnown                              // a first grant after the win is nobody's only if the tokens before were known
	anewSpares                              // a master that was started anew was held until then, and has not voted since
	gapLonger                               // a gap of a master that forgot lasts a lease longer: others count its vote
	gapElects                               // one before its first grant as long as an election, for the same reason
	electsSoon                              // an election that takes longer is not won
	firstLater                              // and by a vote that was sent after the win only if there was a token
)

// marks say how a ballot stands with one master.
type marks uint16

const (
	held    marks = 1 << iota // the last answer said so
	counts                    // and the master can be believed
	strayed                   // a vote may come of which nothing will be heard
	asked                     // in this round
	yes                       // was the answer in this round
	no                        // the same
	failed                    // it was none
	regrant                   // of a vote's answer: the owner held the lock before
	opened                    // it may not have held the lock since some time
	granted                   // it has said so once
	early                     // a vote is under way that was sent before the lock was won
	renewed                   // the master's process is another than the one that has granted it
)

func (k marks) has(all marks) bool { return k&all == all }

// Kinds of requests and letters.
const (
	acquire uint8 = iota + 1 // a vote
	release
	renewal
	undoer // releases in the background, one after another
)

// ballot is a client's newest ballot at one master, and the request that is under way there.
type ballot struct {
	op    uint8 // 0, acquire (a vote), renewal or release
	at    uint8 // server.None, server.Sent, ...
	token uint8 // of the request, then of the answer
	last  uint8 // of the answer to a vote, where grants have several tokens: the greatest one before
	holds uint8 // of a refusal: whom the master named
	marks marks
	knows uint8 // what the client knows of the master's process
	gapAt
}

// What a client knows of a master's process.
const (
	stranger uint8 = iota
	met            // this process, and none before
	metLater       // this one, and another before
	metOther       // another one: that this one is there, it does not know yet
)

// letter is a request that was given up, or an undo. Zero: none.
type letter struct {
	kind  uint8 // acquire, renewal, release or undoer
	id    uint8
	token uint8
	step  uint8 // of an undo; of a vote: unheardVote, agedVote
}

// Of a vote that was given up.
const (
	unheardVote uint8 = 1 << iota // its client does not wait for the answer any more
	agedVote                      // it is later than it may be executed
)

const (
	candidates = 2
	maxVoters  = 5
	maxLetters = 2
	gens       = 4 // owner ids of one candidate
)

// voter is one master and all that is under way between it and the clients.
type voter struct {
	server.Keys
	age     uint8 // ticks since its start, no more than a lease
	ballots [candidates]ballot
	net     [maxLetters]letter // in order
}

// What a client does.
const (
	idle    uint8 = iota
	holding       // its trust is at least 1
	leaving       // its last release is under way
	electing
	telling // a majority of the token
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

	before uint8 // the greatest token that the masters knew which made it the holder
	// since it holds the lock another one got it: 1, and one more for each renewal that is asked for since then
	visited uint8
}

type state struct {
	wrong      model.Broken
	voters     [maxVoters]voter // in order: they are alike
	candidates [candidates]candidate
	clock      uint8             // 0: there are no tokens
	top        uint8             // the greatest token that was granted
	full       model.Full        // the bounds have no room for what the step leaves behind
	faults     uint8             // that may still come
	crashes    uint8             // of processes
	losses     uint8             // restarts of masters without their data
	forgets    uint8             // masters that lose keys and are not started anew
	stood      [candidates]uint8 // elections, where they are counted
}

type steps = model.Steps[state]

// ownerID is the name of an owner. Gens that nobody has heard of any more are used again: names are only ever compared.
func ownerID(c int, gen uint8) uint8 { return uint8(c)*gens + gen + 1 } //nolint:gosec // few

// used reports whether anything has that owner's name.
func (s *state) used(id uint8) bool {
	its := func(l letter) bool { return l.id == id }
	return slices.ContainsFunc(s.voters[:], func(v voter) bool { return v.Owner == id || slices.ContainsFunc(v.net[:], its) })
}

func (b *ballot) order(o *ballot) int {
	return cmp.Or(cmp.Compare(b.op, o.op), cmp.Compare(b.at, o.at), cmp.Compare(b.token, o.token),
		cmp.Compare(b.last, o.last), cmp.Compare(b.holds, o.holds),
		cmp.Compare(b.marks, o.marks), cmp.Compare(b.knows, o.knows), cmp.Compare(b.told, o.told),
		cmp.Compare(b.since, o.since),
		cmp.Compare(b.seen, o.seen), cmp.Compare(b.open, o.open), cmp.Compare(b.from, o.from),
		cmp.Compare(b.until, o.until), cmp.Compare(b.again, o.again))
}

func (v *voter) order(o *voter) int {
	if c := cmp.Or(cmp.Compare(v.Owner, o.Owner), cmp.Compare(v.TTL, o.TTL), cmp.Compare(v.Token, o.Token),
		cmp.Compare(v.age, o.age)); c != 0 {
		return c
	}
	return cmp.Or(v.ballots[0].order(&o.ballots[0]), v.ballots[1].order(&o.ballots[1]), model.Order(&v.net, &o.net))
}

// settle evens out what matters to nobody: which master is which, and how great tokens are but for order and distance.
func (m *voting) settle(s *state) bool {
	for i := 1; i < m.voters; i++ {
		for j := i; j > 0 && s.voters[j].order(&s.voters[j-1]) < 0; j-- {
			s.voters[j], s.voters[j-1] = s.voters[j-1], s.voters[j]
		}
	}
	if s.clock == 0 {
		return bool(!s.full)
	}
	var known [64]*uint8
	list := append(known[:0], &s.clock, &s.top)
	for c := range s.candidates {
		list = append(list, &s.candidates[c].first, &s.candidates[c].token, &s.candidates[c].before)
	}
	for i := range s.voters {
		v := &s.voters[i]
		list = append(list, &v.Token)
		for c := range v.ballots {
			list = append(list, &v.ballots[c].token, &v.ballots[c].last, &v.ballots[c].told)
		}
		for n := range v.net {
			list = append(list, &v.net[n].token)
		}
	}
	model.Rebase(list)
	return bool(!s.full)
}
