package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

func TestMain(m *testing.M) { leak.Main(m) }

// voting is the model of a quorum lock: independent masters that run vote, renew and release, two
// clients that want the lock again and again, a network that loses, delays and reorders what was
// sent on different connections, masters that are started anew without their data, and processes
// that die. What goes wrong with answers happens to client A; B is who is harmed.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease,
// counted from the sending. Client and masters are always scheduled. All masters are asked at once:
// that one is asked first where many want the lock makes fewer interleavings, not others. Nor is
// the order in which answers come to one that is not slow more than that of their executions. The
// hand-off within a client has a model of its own. The fields are the bounds.
type voting struct {
	voters   int
	lease    uint8             // ticks
	wishes   [candidates]uint8 // elections that a client stands for; 0: as many as it likes
	slow     int               // clients whose answers take time
	tokens   bool              // else there are none, which makes it much smaller
	block    uint8             // tokens of a grant
	renews   bool              // there is a watchdog
	frail    int               // clients that miss answers and die: the others are harmed
	faults   uint8
	letters  int // that were given up and may still arrive, at a time
	crashes  uint8
	losses   uint8
	forgets  uint8 // masters that lose the lock's hash, see forgetsKeys
	flushAny bool  // also one that A's first vote is still on its way to
	flush    bool  // or all keys
	visits   bool  // B has no watchdog
	patience uint8 // ticks that an election takes at most; 0: as many as it likes
	dawdles  bool  // time passes while B's requests are under way, also where masters lose keys
	alone    bool  // B does not want the lock
	weak     bool  // masters that were started together vote, see believes
	quick    bool  // releases are executed at once
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

// explore also looks whether the lock becomes free, and nothing is left, if nobody wants it any more;
// in a scenario that serves, whether it can be had from everywhere instead. Neither needs a fault.
// Whoever wants the lock may have to ask again, so that is quiet where it is to be had.
func (m voting) explore(off model.Defence, only error) (model.Report, error) {
	m.off |= off
	if only != nil {
		m.only = only
	}
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Settle: m.settle, Check: m.check, Goal: m.free, Only: m.only, Cut: &m.cut,
	}
	if m.serves {
		explored.Goal = m.taken
	}
	return model.Explore(explored)
}

type ballots = [candidates]uint8

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	splits     = voting{voters: 3, lease: 2, slow: 2, quick: true}
	forgetting = voting{voters: 3, lease: 2, slow: 1, losses: 2, quick: true}
	rejoins    = voting{voters: 3, lease: 4, renews: true, wishes: ballots{1, 1}, losses: 1, quick: true}
	silent     = voting{voters: 3, lease: 2, slow: 1, frail: 1, faults: 1, letters: 1, wishes: ballots{1, 1},
		brief: true}
	lateOnes = voting{voters: 3, lease: 2, slow: 1, frail: 1, faults: 1, letters: 1, wishes: ballots{2, 2},
		brief: true, quick: true}
	lateRenews = voting{voters: 3, lease: 3, slow: 1, renews: true, frail: 1, faults: 1, letters: 1,
		wishes: ballots{1, 1}, quick: true}
	mixed = voting{voters: 3, lease: 2, frail: 1, faults: 1, letters: 1, losses: 1, wishes: ballots{1, 1},
		quick: true}
	numbers = voting{voters: 3, lease: 2, slow: 1, tokens: true, block: 2, wishes: ballots{2, 2}, quick: true,
		still: true}
	numberLoss = voting{voters: 3, lease: 2, tokens: true, wishes: ballots{1, 1}, losses: 1, quick: true}
	perish     = voting{voters: 3, lease: 2, slow: 1, frail: 1, crashes: 1, letters: 1, losses: 1,
		wishes: ballots{1, 1}, quick: true}
	newOnes = voting{voters: 3, lease: 2, slow: 1, weak: true, off: asIs, losses: 1, wishes: ballots{1, 1},
		quick: true}
	visited = voting{voters: 3, lease: 3, tokens: true, renews: true, visits: true, wishes: ballots{1, 1}, forgets: 3,
		flush: true, quick: true, only: errVisited}
	dawdled = voting{voters: 3, lease: 4, tokens: true, renews: true, visits: true, dawdles: true, patience: 1,
		wishes: ballots{1, 1}, forgets: 2, quick: true, only: errVisited}
	spared = voting{voters: 3, lease: 3, tokens: true, renews: true, alone: true, wishes: ballots{1, 1}, forgets: 3,
		quick: true, only: errFalse}
	restarted = voting{voters: 3, lease: 3, tokens: true, renews: true, visits: true, wishes: ballots{1, 1}, forgets: 1,
		flush: true, losses: 1, quick: true, only: errVisited}
	rolling = voting{voters: 3, lease: 3, tokens: true, renews: true, alone: true, wishes: ballots{1, 1}, forgets: 2,
		losses: 2, quick: true, only: errFalse}
	five     = voting{voters: 5, lease: 2, wishes: ballots{1, 1}, losses: 1, quick: true}
	fiveLate = voting{voters: 5, lease: 2, frail: 1, faults: 1, letters: 1, wishes: ballots{1, 1}, brief: true,
		quick: true}
)

// forgotten is dawdled where masters forget more often.
var forgotten = func() voting {
	m := dawdled
	m.lease, m.forgets = 3, 3
	return m
}()

// oneSilent is newOnes where one answer does not come.
var oneSilent = func() voting {
	m := newOnes
	m.slow, m.frail, m.faults, m.off = 0, 1, 1, 0
	return m
}()

// asIs are the defences that the library does not have, see TestVoteModelNotProtected.
const asIs = silence

// large are the bounds of this level: those for a longer look, if model.Large says so. With
// -short leases that matter little to a scenario are shorter.
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
		m.quick = false
	case m.faults > 0:
		m.letters, m.faults = 2, 2
	default:
		m.quick = false
	}
	return m
}

// TestVoteModel: in no state that can be reached is a promise broken.
func TestVoteModel(t *testing.T) {
	model.Run(t, "quorum model", voting.explore, []model.Scenario[voting]{
		{"splits", large(splits)},
		{"forgets", large(forgetting)},
		{"takes back", large(rejoins)},
		{"silent", large(silent)},
		{"late", large(lateOnes)},
		{"renews late", large(lateRenews)},
		{"late, and forgets", large(mixed)},
		{"tokens", large(numbers)},
		{"forgets tokens", large(numberLoss)},
		{"dies", large(perish)},
		{"new masters", large(newOnes)},
		{"visited", large(visited)},
		{"visited slowly", large(dawdled)},
		{"forgotten", large(forgotten)},
		{"spared", large(spared)},
		{"visited, and forgets", large(restarted)},
		{"spared, and forgets", large(rolling)},
		{"five masters", large(five)},
		{"five masters, late", large(fiveLate)},
	})
}

// served is a scenario in which the lock can be had from everywhere.
func served(m voting) voting {
	m.serves = true
	return m
}

// TestVoteModelServes: from every state the lock can be had, without another fault: no votes are
// split for ever, and no masters that were started anew keep it from everybody.
func TestVoteModelServes(t *testing.T) {
	slow, again := served(splits), served(forgetting)
	slow.slow, again.losses = 1, 1
	model.Run(t, "quorum model, can be had from everywhere", voting.explore, []model.Scenario[voting]{
		{"splits", slow}, {"forgets", again},
	})
	model.Controls(t, "quorum model, can be had from everywhere", voting.explore, []model.Control[voting, model.Defence]{
		{"what is granted has an end, and who failed releases it", withdraws | server.GrantEnds, slow, model.ErrStuck},
	})
}

// TestVoteModelNotProtected shows where the rule for young masters is weaker than one by which none
// of them counts. It says what is so, not what has to be: with the defence there is no such way.
func TestVoteModelNotProtected(t *testing.T) {
	flushed := visited
	flushed.flushAny = true
	two := oneSilent
	two.frail, two.faults = 2, 2
	model.Controls(t, "quorum model, not protected", voting.explore, []model.Control[voting, model.Defence]{
		{"a first grant to a holder by who granted to another, and lost all", 0, flushed, errVisited},
		{"nobody suspects who is silent: a restart, and one silent for each", silence, two, errTwo},
	})
	judged := oneSilent
	judged.off = silence // where one is silent, to judge anew is enough
	model.Run(t, "quorum model", voting.explore, []model.Scenario[voting]{{"judged anew", judged}, {"with both", two}})
}
