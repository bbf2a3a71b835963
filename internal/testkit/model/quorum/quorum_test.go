package quorum

import (
	"cmp"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

func TestMain(m *testing.M) { leak.Main(m) }

// voting is the model within bounds. What goes wrong with answers happens to client A; B is who is harmed.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease, counted from the sending. Client
// and masters are always scheduled. All masters are asked at once: that one is asked first where many want the lock makes fewer
// interleavings, not others. Nor is the order in which answers come to one that is not slow more than that of their executions.
type voting struct {
	voters   int               // default 3
	lease    uint8             // ticks
	wishes   [candidates]uint8 // elections that a client stands for; 0: as many as it likes
	slow     int               // clients whose answers take time
	tokens   bool              // else there are none, which makes it much smaller; where masters forget there are
	block    uint8             // tokens of a grant
	renews   bool              // there is a watchdog; where masters forget there is
	frail    int               // clients that miss answers and die: the others are harmed
	faults   uint8
	letters  int // that were given up and may still arrive, at a time
	crashes  uint8
	losses   uint8
	forgets  uint8 // masters that lose the lock's hash, see forgetsKeys; what its holder makes of that is in question
	flushAny bool  // also one that A's first vote is still on its way to
	flush    bool  // or all keys
	visits   bool  // B has no watchdog
	patience uint8 // ticks that an election takes at most; 0: as many as it likes
	dawdles  bool  // time passes while B's requests are under way, also where masters lose keys
	alone    bool  // B does not want the lock
	weak     bool  // masters that were started together vote, see believes
	lingers  bool  // releases take time; else they are executed at once
	still    bool  // no time passes
	serves   bool  // the goal is that somebody has the lock, not that it is free
	brief    bool  // messages do not live longer than a tick, except votes, which are too late then
	off      model.Defence
	only     error // look for this violation alone
	cut      int   // messages for which the bounds had no room
}

func (m *voting) start() state {
	s := state{faults: m.faults, crashes: m.crashes, losses: m.losses, forgets: m.forgets}
	if m.tokens {
		s.clock = 1
	}
	for i := range m.voters {
		if !m.weak {
			s.voters[i].age = m.lease
		}
	}
	return s
}

// explore also looks whether the lock becomes free, with nothing left, once nobody wants it; in a scenario that serves, whether
// it can be had from everywhere, where asking again is quiet. Neither needs a fault.
func (m voting) explore(off model.Defence, only error) (model.Report, error) {
	m.off |= off
	m.only = only
	m.voters = cmp.Or(m.voters, 3)
	if m.forgets > 0 {
		m.tokens, m.renews = true, true
		harm := errVisited
		if m.alone {
			harm = model.ErrFalse
		}
		m.only = cmp.Or(only, error(harm))
	}
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Settle: m.settle, Check: m.check, Goal: m.free, Only: m.only, Cut: &m.cut,
	}
	if m.serves {
		explored.Goal = m.taken
	}
	return model.Explore(explored)
}

type (
	ballots  = [candidates]uint8
	scenario = model.Scenario[voting]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	splits     = scenario{"splits", voting{lease: 2, slow: 2}}
	forgetting = scenario{"forgets", voting{lease: 2, slow: 1, losses: 2}}
	rejoins    = scenario{"takes back", voting{lease: 4, renews: true, wishes: ballots{1, 1}, losses: 1}}
	silent     = scenario{"silent", voting{lease: 2, slow: 1, frail: 1, faults: 1, letters: 1, wishes: ballots{1, 1},
		brief: true, lingers: true}}
	lateOnes = scenario{"late", voting{lease: 2, slow: 1, frail: 1, faults: 1, letters: 1, wishes: ballots{2, 2},
		brief: true}}
	lateRenews = scenario{"renews late", voting{lease: 3, slow: 1, renews: true, frail: 1, faults: 1, letters: 1,
		wishes: ballots{1, 1}}}
	mixed = scenario{"late, and forgets", voting{lease: 2, frail: 1, faults: 1, letters: 1, losses: 1,
		wishes: ballots{1, 1}}}
	numbers    = scenario{"tokens", voting{lease: 2, slow: 1, tokens: true, block: 2, wishes: ballots{2, 2}, still: true}}
	numberLoss = scenario{"forgets tokens", voting{lease: 2, tokens: true, wishes: ballots{1, 1}, losses: 1}}
	perish     = scenario{"dies", voting{lease: 2, slow: 1, frail: 1, crashes: 1, letters: 1, losses: 1,
		wishes: ballots{1, 1}}}
	newOnes   = scenario{"new masters", voting{lease: 2, slow: 1, weak: true, off: asIs, losses: 1, wishes: ballots{1, 1}}}
	oneSilent = scenario{"one silent", voting{lease: 2, weak: true, frail: 1, faults: 1, losses: 1, wishes: ballots{1, 1}}}
	visited   = scenario{"visited", voting{lease: 3, visits: true, wishes: ballots{1, 1}, forgets: 3, flush: true}}
	dawdled   = scenario{"visited slowly", voting{lease: 4, visits: true, dawdles: true, patience: 1,
		wishes: ballots{1, 1}, forgets: 2}}
	forgotten = scenario{"forgotten", voting{lease: 3, visits: true, dawdles: true, patience: 1,
		wishes: ballots{1, 1}, forgets: 3}}
	spared    = scenario{"spared", voting{lease: 3, alone: true, wishes: ballots{1, 1}, forgets: 3}}
	restarted = scenario{"visited, and forgets", voting{lease: 3, visits: true, wishes: ballots{1, 1}, forgets: 1,
		flush: true, losses: 1}}
	rolling  = scenario{"spared, and forgets", voting{lease: 3, alone: true, wishes: ballots{1, 1}, forgets: 2, losses: 2}}
	five     = scenario{"five masters", voting{voters: 5, lease: 2, wishes: ballots{1, 1}, losses: 1}}
	fiveLate = scenario{"five masters, late", voting{voters: 5, lease: 2, frail: 1, faults: 1, letters: 1,
		wishes: ballots{1, 1}, brief: true}}
)

// asIs are the defences that the library does not have, see TestVoteModelNotProtected.
const asIs = silence

// large are the bounds of this level: a longer look by model.Large; with -short shorter leases where they matter little.
func large(m voting) voting {
	if testing.Short() && m.losses > 0 {
		m.lease = min(m.lease, 3)
	}
	if !model.Large() {
		return m
	}
	switch {
	case m.lease > 3 || m.forgets > 0:
	case m.voters > 3:
		m.losses *= 2
	case m.tokens:
		m.block = 2
	case m.weak, m.losses > 0:
		m.lingers = true
	case m.faults > 0:
		m.letters, m.faults = 2, 2
	default:
		m.lingers = true
	}
	return m
}

// TestVoteModel: in no state that can be reached is a promise broken.
func TestVoteModel(t *testing.T) {
	model.Run(t, "quorum model", voting.explore, large, splits, forgetting, rejoins, silent, lateOnes, lateRenews, mixed,
		numbers, numberLoss, perish, newOnes, visited, dawdled, forgotten, spared, restarted, rolling, five, fiveLate)
}

// TestVoteModelServes: from every state the lock can be had without a fault: no endless split, no lock-out by restarts.
func TestVoteModelServes(t *testing.T) {
	slow, again := splits, forgetting
	slow.In.slow, again.In.losses = 1, 1
	slow.In.serves, again.In.serves = true, true
	model.Run(t, "quorum model, can be had from everywhere", voting.explore, nil, slow, again)
	model.Controls(t, "quorum model, can be had from everywhere", voting.explore, []model.Control[voting]{
		{"what is granted has an end, and who failed releases it", withdraws | server.GrantEnds, slow, model.ErrStuck},
	})
}

// TestVoteModelNotProtected shows where the rule for young masters is weaker than one by which none
// of them counts. It says what is so, not what has to be: with the defence there is no such way.
func TestVoteModelNotProtected(t *testing.T) {
	flushed, two, judged := visited, oneSilent, oneSilent
	flushed.In.flushAny = true
	two.Name, two.In.frail, two.In.faults = "with both", 2, 2
	judged.Name, judged.In.off = "judged anew", silence // where one is silent, to judge anew is enough
	model.Controls(t, "quorum model, not protected", voting.explore, []model.Control[voting]{
		{"a first grant to a holder by who granted to another, and lost all", 0, flushed, errVisited},
		{"nobody suspects who is silent: a restart, and one silent for each", silence, two, model.ErrTwo},
	})
	model.Run(t, "quorum model", voting.explore, nil, judged, two)
}

// What must never be, beside what package model lists.
var errVisited = model.Must.Never("a hold is renewed that another owner had meanwhile")

// check is what is wrong with a state. Where keys are deleted at a majority, two may hold the lock until the first one hears of
// it: what is promised then is that it does. That nothing is left is promised for a network whose other messages than votes
// live for less than the pause in an undo, and for processes that do not die.
func (m *voting) check(s *state) error {
	broken := s.wrong
	broken.If(m.forgets == 0 && s.candidates[0].mode == holding && s.candidates[1].mode == holding, model.ErrTwo)
	if m.brief && m.crashes == 0 {
		for i := range m.voters {
			broken.If(!s.voters[i].cared(s), model.ErrLeft)
		}
	}
	return model.Must.First(broken, m.only)
}

// cared: whoever a master has granted stands for election, holds the lock, or has it given back by something under way.
func (v *voter) cared(s *state) bool {
	if v.Owner == 0 {
		return true
	}
	c := candidateOf(v.Owner)
	if cl := &s.candidates[c]; cl.mode != idle && ownerID(c, cl.gen) == v.Owner &&
		(cl.mode != leaving || v.ballots[c].op != server.None) {
		return true
	}
	return model.Count(v.net[:], func(l letter) bool {
		return l.id == v.Owner && (l.kind == undoer || l.kind == acquire && l.step&agedVote == 0)
	}) > 0
}

// free is that nobody has the lock or wants it, and nothing is under way.
func (m *voting) free(s *state) bool {
	busy := slices.ContainsFunc(s.voters[:m.voters], func(v voter) bool { return v.Owner != 0 || v.net[0] != (letter{}) })
	return !busy && s.candidates[0].mode == idle && s.candidates[1].mode == idle
}

// taken is that somebody has it.
func (m *voting) taken(s *state) bool {
	return s.candidates[0].mode == holding || s.candidates[1].mode == holding
}

// TestVoteModelControls: without any one of the defences there is a way to break a promise.
func TestVoteModelControls(t *testing.T) {
	model.Controls(t, "quorum model", voting.explore, []model.Control[voting]{
		{"vote: who has it keeps it", server.VotesOnce, splits, model.ErrTwo},
		{"vote: a grant has a time to live", server.GrantEnds, perish, model.ErrStuck},
		{"vote: one that comes late refuses itself", server.Lateness, silent, model.ErrLeft},
		{"vote: a token is greater than the last", server.AboveLast, numbers, model.ErrToken},
		{"release: by the owner only", server.ReleaseOwner, lateOnes, model.ErrTwo},
		{"renew: never brings back", server.RenewExists, rejoins, model.ErrBack},
		{"more than half have to agree", majority, splits, model.ErrTwo},
		{"a master that was started a moment ago does not count", restarts, forgetting, model.ErrTwo},
		{"nor for a holder that it takes back", joinsYoung, rejoins, model.ErrTwo},
		{"a holder remembers that a master may have granted to others", gapsKept, visited, errVisited},
		{"only the token that was told shows that there was nobody", exactToken, visited, errVisited},
		{"of a first grant, only one that was known at the win", firstKnown, visited, errVisited},
		{"a first grant after the win, only if there was a token", firstLater, visited, errVisited},
		{"a gap lasts a lease longer", gapLonger, forgotten, errVisited},
		{"one before a first grant as long as an election", gapElects, dawdled, errVisited},
		{"which is not won when it takes longer", electsSoon, dawdled, errVisited},
		{"and it does show it", tokenSpares, spared, model.ErrFalse},
		{"nor has a master a gap that was started anew", anewSpares, rolling, model.ErrFalse},
		{"an election that is not won is given back", withdraws, silent, model.ErrLeft},
		{"each election has an owner id of its own", freshBallot, lateOnes, model.ErrTwo},
		{"a release is repeated when a vote comes behind it", undoLate, silent, model.ErrLeft},
		{"the same, for a vote of which nothing is heard", undoStray, silent, model.ErrLeft},
		{"and not only once", undoAgain, silent, model.ErrLeft},
		{"trust is counted from the sending", sentTime, splits, model.ErrTwo},
		{"trust ends by the client's own clock", deadline, splits, model.ErrTwo},
		{"a token counts when a majority knows it", tellsToken, numbers, model.ErrToken},
		{"a token is the greatest that was replied", greatest, numbers, model.ErrToken},
		{"of several tokens those are left out that are known", aboveKnown, numbers, model.ErrToken},
		{"a proposal is no less than the clock", clockAhead, numberLoss, model.ErrToken},
		{"new masters: none may decide against a holder", contests, newOnes, model.ErrTwo},
		{"new masters: each is judged anew when an older one is heard", judgedAnew | silence, oneSilent, model.ErrTwo},
		{"new masters: one that is younger than the others is not new", together | silence, oneSilent, model.ErrTwo},
	})
}
