package fair

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// TestFairModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestFairModelControls(t *testing.T) {
	model.Controls(t, "fair model", fair.explore, []model.Control[fair, defence]{
		{"grant: it matters whether anybody listens", heedsCount, handsOver, errDeaf},
		{"grant: who cannot be reached keeps its place", keepsPlace, handsOver, errLostPlace},
		{"grant: a claim has an end", claimEnds, perishes, errClaim},
		{"the same, for those behind it", claimEnds, pair(perishes), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", claimIsShort, perishes, errClaim},
		{"acquire: nobody passes the head", asksHead, handsOver, errPassed},
		{"acquire: who was handed the lock is told so", ownGrant, loses, errItself},
		{"acquire: who has a place gets no other", oncePlaced, loses, errTwice},
		{"release: who leaves has no place any more", leaverGone, departs, errPlaceLeft},
		{"release: what is freed is handed on", leaverHandsOn, handsOver, errIdle},
		{"the same, where nobody polls either", leaverHandsOn | pollAtAll, pair(handsOver), model.ErrStuck},
		{"release: by the owner only", freesOwn, departs, errAnothers},
		{"the same, as its victim sees it", freesOwn, departs, errCut},
		{"poll: it tells who has no place", reportsMissing, pair(wiped), model.ErrStuck},
		{"poll: it puts places off", refreshes, waits, errLostPlace},
		{"client: it polls, also while messages come", pollInTime, waits, errLostPlace},
		{"client: it polls", pollAtAll, pair(perishes), model.ErrStuck},
		{"client: the same, for a client that was not reached", pollAtAll | noticesBreak, pair(handsOver),
			model.ErrStuck},
		{"client: a claim is trusted from the grant on", grantTime, freezes, errTwo},
		{"client: no message is trusted from before a refusal", ownMessage, again, errCut},
		{"the same, with another who holds", ownMessage, again, errTwo},
		{"the same, after the server lost its keys", ownMessage, wiped, errPlaceLeft},
		{"client: an owner id with a straggler is not used again", freshOwner | freshUndo | undo, departs, errCut},
		{"client: nor is one that is being given back", freshUndo, departs, errCut},
		{"client: what may be left is given back", undo, departs, errPlaceLeft},
		{"client: and given back again", undoAgain, departs, errPlaceLeft},
		{"the same, where a straggler takes the lock", undoAgain, departs, errLeft},
		{"acquire: one that comes late refuses itself", lateness, departs, errPlaceLeft},
		{"the same, where it takes the lock", lateness, departs, errLeft},
		{"grant: a run ends before another client's waiter", runEnds, runs, errPassed},
		{"grant: tokens are reserved for a run", runTokens, runs, errToken},
		{"release: those who were served have no place any more", servedGone, runs, errPlaceLeft},
		{"client: a run does not hand on to who has a question under way", runWaits, runsFail, errLeft},
		{"client: places are given back if a run's lock is lost", servedGiven, runsLost, errPlaceLeft},
		{"client: an owner id that was served is not used again", servedFresh, runsAgain, errTwo},
	})
}
