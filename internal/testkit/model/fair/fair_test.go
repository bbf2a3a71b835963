package fair

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type (
	bounds   = line.Bounds
	of       = line.Owners // numbers of waiters, one after another
	scenario = model.Scenario[bounds]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	handsOver = scenario{"hands over", bounds{Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}}
	shares    = scenario{"two of one client", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}}
	again     = scenario{"the same owner again", bounds{Home: of{0, 1}, Wishes: of{2, 2}, Tries: true, Lease: 2}}
	loses     = scenario{"loses requests", bounds{Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1}}
	departs   = scenario{"leaves", bounds{Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1, Leaves: 1, Lease: 2}}
	perishes  = scenario{"dies", bounds{Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Messages: 1, Crashes: 1}}
	freezes   = scenario{"stands still", bounds{Home: of{0, 1}, Wishes: of{1, 2}, Pauses: 1}}
	waits     = scenario{"waits long", bounds{Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}}
	runs      = scenario{"runs", bounds{Home: of{0, 0, 0, 1}, Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}}
	runsLeave = scenario{"runs, and leaves", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Leaves: 1, Lease: 2}}
	runsFail  = scenario{"runs, and loses requests", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Messages: 1, Faults: 1,
		Lease: 2}}
	runsDie = scenario{"runs, and dies or stands still", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Crashes: 1,
		Pauses: 1, Lease: 2}}
	runsAgain = scenario{"runs, and the same owner again", bounds{Wishes: of{1, 2, 1}, Lease: 2}}
	runsLost  = scenario{"runs, and the server forgets", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Losses: 1,
		Lease: 2}}
	wiped = scenario{"server forgets", bounds{Home: of{0, 1}, Wishes: of{2, 1}, Losses: 1}}
)

// pair leaves two waiters of a scenario, for controls that have to see all states.
func pair(s scenario) scenario {
	s.In = s.In.Pair()
	return s
}

// TestFairModel: in no state that can be reached is a promise broken.
func TestFairModel(t *testing.T) {
	model.Run(t, "fair model", explore, nil, handsOver, shares, again, loses, departs, perishes, freezes, waits, wiped,
		runs, runsLeave, runsFail, runsDie, runsAgain, runsLost)
}

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *fair) judge(before *keys, r line.Request) {
	s, asked := &m.To, r.Asks() && m.To.owner == r.ID
	switch {
	case s.owner != 0 && (before.owner != s.owner || before.Token != s.Token): // granted
		m.JudgeToken(s.Token)
		s.claimed = !asked
		c := m.Of(s.owner)
		s.Wrong.If(s.claimed && !s.Up.Has(c) && s.owner != r.ID && !m.Present(r, c), line.ErrDeaf)
		m.JudgeOrder(&before.Queue, s.owner)
	case s.owner == 0 || asked || r.Kind == line.Renewal && s.owner == r.ID:
		s.claimed = false
	}
	s.Wrong.If(before.owner != 0 && !r.Own(before.owner) && s.owner != before.owner, model.ErrAnothers)
	if r.Kind == line.Renewal {
		return
	}
	m.JudgePlaces(&before.Queue, func(owner uint8) bool {
		return owner == s.owner || owner == r.ID && r.Frees() || r.Served.Has(owner) && !s.Waits(owner)
	})
	for _, p := range s.Queue {
		s.Wrong.If(s.owner == 0 && p.Left > 0 && s.Up.Has(m.Of(p.Owner)), line.ErrIdle)
	}
}

// judgeRun: nobody who waits stands before the one to whom a hold's run hands the lock off.
func (m *fair) judgeRun(from *line.Waiter, next uint8) {
	s := &m.To
	if s.Queue.At(next) < 0 {
		return // its place has been lost since the run began
	}
	for _, p := range s.Queue {
		if p.Owner == next {
			return
		}
		s.Wrong.If(s.Waits(p.Owner) && p.Left > 0 && s.Up.Has(m.Of(p.Owner)) && !from.Served.Has(p.Owner), line.ErrPassed)
	}
}

// Check says what is wrong with a state. Where the server's data may be lost there is a promise about
// tokens and waiting alone.
func (m *fair) Check(s *state) error {
	b, holders := s.Wrong, 0
	for w := range m.Waiters {
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.Losses > 0 {
			continue
		}
		holders++
		b.If(holders > 1, model.ErrTwo)
		b.If(s.owner != s.Entry(w), model.ErrCut)
		b.If(s.owner == s.Entry(w) && s.Token != wr.Token && (wr.Field == 0 || wr.Token+wr.Run.Size() > s.Token),
			model.ErrHolders)
	}
	b.If(s.claimed && s.ttl > m.Claim, line.ErrClaim)
	b.If(s.owner != 0 && (s.ttl == 0 || s.ttl > m.Lease), line.ErrEndless)
	b.If(s.owner != 0 && !m.CaredFor(&s.State, s.owner), line.ErrLeft)
	m.CheckQueue(&b, &s.State, &s.Queue, func(owner uint8) bool { return owner == s.owner })
	return model.Must.First(b, m.Only)
}

// AtRest is the goal.
func (m *fair) AtRest(s *state) bool {
	return s.owner == 0 && s.Queue[0].Owner == 0 && s.State.AtRest()
}

// TestFairModelControls: without any one of the defences there is a way to break a promise.
func TestFairModelControls(t *testing.T) {
	model.Controls(t, "fair model", explore, []model.Control[bounds]{
		{"grant: it matters whether anybody listens", line.HeedsCount, handsOver, line.ErrDeaf},
		{"grant: who cannot be reached keeps its place", line.KeepsPlace, handsOver, line.ErrLostPlace},
		{"grant: a claim has an end", line.ClaimEnds, perishes, line.ErrClaim},
		{"the same, for those behind it", line.ClaimEnds, pair(perishes), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", line.ClaimIsShort, perishes, line.ErrClaim},
		{"acquire: nobody passes the head", line.AsksHead, handsOver, line.ErrPassed},
		{"acquire: who was handed the lock is told so", line.OwnGrant, loses, model.ErrItself},
		{"acquire: who has a place gets no other", line.OncePlaced, loses, line.ErrTwice},
		{"release: who leaves has no place any more", line.LeaverGone, departs, line.ErrPlaceLeft},
		{"release: what is freed is handed on", line.HandsOn, handsOver, line.ErrIdle},
		{"the same, where nobody polls either", line.HandsOn | line.PollAtAll, pair(handsOver), model.ErrStuck},
		{"release: by the owner only", freesOwn, departs, model.ErrAnothers},
		{"the same, as its victim sees it", freesOwn, departs, model.ErrCut},
		{"poll: it tells who has no place", line.TellsMissing, pair(wiped), model.ErrStuck},
		{"poll: it puts places off", line.Refreshes, waits, line.ErrLostPlace},
		{"client: it polls, also while messages come", line.PollInTime, waits, line.ErrLostPlace},
		{"client: it polls", line.PollAtAll, pair(perishes), model.ErrStuck},
		{"client: the same, for a client that was not reached", line.PollAtAll | line.NoticesBreak, pair(handsOver),
			model.ErrStuck},
		{"client: a claim is trusted from the grant on", line.GrantTime, freezes, model.ErrTwo},
		{"client: no message is trusted from before a refusal", line.OwnMessage, again, model.ErrCut},
		{"the same, with another who holds", line.OwnMessage, again, model.ErrTwo},
		{"the same, after the server lost its keys", line.OwnMessage, wiped, line.ErrPlaceLeft},
		{"client: an owner id with a straggler is not used again", line.FreshOwner | line.FreshUndo | line.Undo, departs, model.ErrCut},
		{"client: nor is one that is being given back", line.FreshUndo, departs, model.ErrCut},
		{"client: what may be left is given back", line.Undo, departs, line.ErrPlaceLeft},
		{"client: and given back again", line.UndoAgain, departs, line.ErrPlaceLeft},
		{"the same, where a straggler takes the lock", line.UndoAgain, departs, line.ErrLeft},
		{"acquire: one that comes late refuses itself", line.Lateness, departs, line.ErrPlaceLeft},
		{"the same, where it takes the lock", line.Lateness, departs, line.ErrLeft},
		{"grant: a run ends before another client's waiter", runEnds, runs, line.ErrPassed},
		{"grant: tokens are reserved for a run", runTokens, runs, model.ErrToken},
		{"release: those who were served have no place any more", servedGone, runs, line.ErrPlaceLeft},
		{"client: a run does not hand on to who has a question under way", runWaits, runsFail, line.ErrLeft},
		{"client: places are given back if a run's lock is lost", line.ServedGiven, runsLost, line.ErrPlaceLeft},
		{"client: an owner id that was served is not used again", line.ServedFresh, runsAgain, model.ErrTwo},
	})
}
