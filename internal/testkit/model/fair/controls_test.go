package fair

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
)

// TestFairModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestFairModelControls(t *testing.T) {
	model.Controls(t, "fair model", explore, []model.Control[bounds, defence]{
		{"grant: it matters whether anybody listens", line.HeedsCount, handsOver, line.ErrDeaf},
		{"grant: who cannot be reached keeps its place", line.KeepsPlace, handsOver, line.ErrLostPlace},
		{"grant: a claim has an end", line.ClaimEnds, perishes, line.ErrClaim},
		{"the same, for those behind it", line.ClaimEnds, perishes.Pair(), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", line.ClaimIsShort, perishes, line.ErrClaim},
		{"acquire: nobody passes the head", line.AsksHead, handsOver, line.ErrPassed},
		{"acquire: who was handed the lock is told so", line.OwnGrant, loses, line.ErrItself},
		{"acquire: who has a place gets no other", line.OncePlaced, loses, line.ErrTwice},
		{"release: who leaves has no place any more", line.LeaverGone, departs, line.ErrPlaceLeft},
		{"release: what is freed is handed on", line.HandsOn, handsOver, line.ErrIdle},
		{"the same, where nobody polls either", line.HandsOn | line.PollAtAll, handsOver.Pair(), model.ErrStuck},
		{"release: by the owner only", freesOwn, departs, line.ErrAnothers},
		{"the same, as its victim sees it", freesOwn, departs, line.ErrCut},
		{"poll: it tells who has no place", line.TellsMissing, wiped.Pair(), model.ErrStuck},
		{"poll: it puts places off", line.Refreshes, waits, line.ErrLostPlace},
		{"client: it polls, also while messages come", line.PollInTime, waits, line.ErrLostPlace},
		{"client: it polls", line.PollAtAll, perishes.Pair(), model.ErrStuck},
		{"client: the same, for a client that was not reached", line.PollAtAll | line.NoticesBreak, handsOver.Pair(),
			model.ErrStuck},
		{"client: a claim is trusted from the grant on", line.GrantTime, freezes, errTwo},
		{"client: no message is trusted from before a refusal", line.OwnMessage, again, line.ErrCut},
		{"the same, with another who holds", line.OwnMessage, again, errTwo},
		{"the same, after the server lost its keys", line.OwnMessage, wiped, line.ErrPlaceLeft},
		{"client: an owner id with a straggler is not used again", line.FreshOwner | line.FreshUndo | line.Undo, departs, line.ErrCut},
		{"client: nor is one that is being given back", line.FreshUndo, departs, line.ErrCut},
		{"client: what may be left is given back", line.Undo, departs, line.ErrPlaceLeft},
		{"client: and given back again", line.UndoAgain, departs, line.ErrPlaceLeft},
		{"the same, where a straggler takes the lock", line.UndoAgain, departs, line.ErrLeft},
		{"acquire: one that comes late refuses itself", line.Lateness, departs, line.ErrPlaceLeft},
		{"the same, where it takes the lock", line.Lateness, departs, line.ErrLeft},
		{"grant: a run ends before another client's waiter", runEnds, runs, line.ErrPassed},
		{"grant: tokens are reserved for a run", runTokens, runs, line.ErrToken},
		{"release: those who were served have no place any more", servedGone, runs, line.ErrPlaceLeft},
		{"client: a run does not hand on to who has a question under way", runWaits, runsFail, line.ErrLeft},
		{"client: places are given back if a run's lock is lost", line.ServedGiven, runsLost, line.ErrPlaceLeft},
		{"client: an owner id that was served is not used again", line.ServedFresh, runsAgain, errTwo},
	})
}
